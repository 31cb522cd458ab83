"""Simulated BMCs and their console in one event loop, whose clock leaps to the next moment at which anything happens.

Nothing is waited for, whatever the deadlines are, and the same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import socket
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ansible_collections.roundsman.cluster.daemon.lab import bmc_simulator, chassis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import ipmi, rmcp

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

USERNAME, PASSWORD = "admin", "s3cret"
ADDRESS = "127.0.9.1"
TRAVEL = 1.0
"""Seconds after which everything has arrived that was on its way."""
T = TypeVar("T")


class Selector(selectors.DefaultSelector):
    """Looks at what is ready, and lets time pass only when nothing is: on loopback a datagram arrives at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        for _ in range(3):
            if ready or timeout == 0:
                return ready
            os.sched_yield()  # a kernel at work may deliver a moment later
            ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen"
            self.now += timeout
        return ready


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(work)


class Rack(bmc_simulator.Simulator):
    """A simulator inside of the loop; `loses` says which datagrams never come, `meddle` what goes back for others."""

    def __init__(self, *, port: int = 0, **options: Any) -> None:
        self.bmcs: dict[str, chassis.Bmc] = {}
        self.loop = asyncio.get_running_loop()
        super().__init__(self.bmcs.get, clock=self.loop.time, **options)
        self.port = self.bind(port)
        self.meddle: Callable[[bytes, bytes | None], Iterable[bytes]] = unchanged
        self.loses: Callable[[bytes], bool] = lambda _: False
        self.commands: list[tuple[str, int, int, bytes]] = []
        assert self._socket is not None
        self.loop.add_reader(self._socket, self._receive_some, self._socket)

    def add(
        self, address: str, *faults: str, on: bool = True, suites: Iterable[int] = (3, 17)
    ) -> chassis.MemoryChassis:
        node = chassis.MemoryChassis(on=on, faults=faults)
        self.bmcs[address] = chassis.Bmc(node, USERNAME, PASSWORD, frozenset(suites))
        return node

    def target(self, address: str, **changes: Any) -> power.Target:
        login = {"username": USERNAME, "password": PASSWORD, "port": self.port, **changes}
        return power.Target(name=address, driver="ipmi", address=address, **login)

    def count(self, netfn: int, command: int, data: bytes) -> int:
        """How often a command came, datagrams that came twice not counted."""
        return sum(one[1:] == (netfn, command, data) for one in self.commands)

    def _arrived(self, server: socket.socket, datagram: bytes, peer: tuple[str, int], address: bytes) -> None:
        if self.loses(datagram):
            return
        asked = socket.inet_ntoa(address)
        for answer in self.meddle(datagram, self.answer(datagram, address=asked)):
            for delay in self._wire.delays():
                self._later(self.lateness(asked) + delay, bmc_simulator._Send(server, answer, peer, address))

    def _answer_inside(self, packet: rmcp.Packet20, bmc: chassis.Bmc, address: str) -> bytes | None:
        session = self._sessions.find(address, packet.session)
        if session is not None and session._channel is not None and packet.sequence > session._last_received:
            request = rmcp.parse_request(session._channel.open(packet))
            self.commands.append((address, request.netfn, request.command, request.data))
        return super()._answer_inside(packet, bmc, address)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        # The loop's timers of one moment are in no order: a nanosecond each keeps theirs.
        self.loop.call_later(seconds + next(self._order) * 1e-9, act)

    def end(self) -> None:
        assert self._socket is not None
        self.loop.remove_reader(self._socket)
        self._socket.close()


def unchanged(_: bytes, answer: bytes | None) -> Iterable[bytes]:
    return () if answer is None else (answer,)


@contextlib.contextmanager
def rack(**options: Any) -> Iterator[Rack]:
    """A rack for as long as the block runs; the options are the simulator's."""
    one = Rack(**options)
    try:
        yield one
    finally:
        one.end()


@dataclass(frozen=True)
class Told:
    """What came of one command at one BMC: the outcome, what the node went through, and how many sessions are left."""

    outcome: power.Outcome
    history: list[bool]
    rack: Rack
    sessions: int


def at_one(
    command: power.Command,
    *faults: str,
    on: bool = True,
    suites: Iterable[int] = (3, 17),
    deadline: float = 30.0,
    prepare: Callable[[Rack], None] = lambda _: None,
    login: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> Told:
    """Run one command at one BMC; the options are the simulator's."""

    async def work() -> Told:
        with rack(**options) as one:
            node = one.add(ADDRESS, *faults, on=on, suites=suites)
            prepare(one)
            [outcome] = await ipmi.serve([one.target(ADDRESS, **login)], command=command, deadline=deadline)
            await asyncio.sleep(TRAVEL)
            return Told(outcome, node.history, one, one.session_count())

    return run(work())
