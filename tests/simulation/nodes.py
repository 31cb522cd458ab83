"""The nodes of the world: their power, their agents as the network sees them, and their BMCs."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.world import OK
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, reports, signing, votes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import voting

from tests.simulation import sides
from tests.simulation.followers import Followed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from tests.simulation.modules import Module
    from tests.simulation.world import World

AGENT_PORT = 1817
LEADER = "/1/leader"
NEVER = 10**6
ON_WIRE = 0.05
BMC_SECONDS = 3.0


@dataclass
class Node:
    """A node as it is: its power, whether its programs hang, what its agent says, and its BMC.

    `is_isolated`: its agent and its programs are not reached, and it runs on. `bmc_lies` lets the BMC read off until it
    is commanded, `bmc_is_dark` lets it answer nothing.
    """

    world: World
    uuid: str
    name: str
    address: str
    key: bytes
    is_on: bool = True
    is_hung: bool = False
    is_isolated: bool = False
    booted: float = 0.0
    bmc_lies: bool = False
    bmc_is_dark: bool = False
    boots: int = 1
    says: str = OK
    last: bytes = b""
    changed: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.followed = Followed(self.world, self.uuid, self.name, self.key)
        self.modules: list[Module] = []

    @property
    def answers(self) -> bool:
        return self.is_on and not self.is_hung and not self.is_isolated

    @property
    def greets(self) -> bool:
        """Whether it takes connections, as one does that hangs."""
        return self.is_on and not self.is_isolated

    @property
    def looks(self) -> bool:
        """Whether its agent looks at its replicas."""
        return self.is_on and not self.is_hung

    def power_off(self) -> None:
        """Everything that runs there ends."""
        if self.is_on:
            if self.world.disks is not None:
                self.world.disks.lose_power(self.uuid)
            self.is_on, self.is_hung = False, False
            for nodes in self.world.guests.values():
                nodes.discard(self.uuid)
            for module in list(self.modules):
                module.end(errors.Failed(f"{self.name} is off"))
            self.followed.lose_power()
            self.world.tell(self.name, "is off")
            self._tell()

    def power_on(self) -> None:
        if not self.is_on:
            self.is_on, self.is_hung, self.boots, self.booted = True, False, self.boots + 1, self.world.now
            self.followed.boot(self.boots)
            self.world.tell(self.name, "boots")
            self._tell()

    def hang(self) -> None:
        """Its programs hang, and what runs there runs on."""
        self._settle()
        self.is_hung = True
        self.world.tell(self.name, "hangs")

    def recover(self) -> None:
        """A person has it work again, as a node and as its BMC."""
        self._settle()
        self.bmc_lies = self.bmc_is_dark = self.is_hung = self.is_isolated = False
        self.power_on()

    def _settle(self) -> None:
        if self.world.disks is not None:
            self.world.disks.settle()

    def say(self, text: str) -> None:
        """Its diagnosis is another one from now on."""
        self.says = text
        self._tell()

    def read_power(self) -> power.State:
        """What its BMC says."""
        if self.bmc_is_dark:
            return power.State.UNKNOWN
        return power.State.ON if self.is_on and not self.bmc_lies else power.State.OFF

    def command(self, command: power.Command) -> power.Outcome:
        """What its BMC makes of a power command."""
        before = self.read_power()
        wanted = power.wanted(command)
        is_sent = power.needs_sending(command, before=before)
        if is_sent:
            self.bmc_lies = False
            if wanted is power.State.OFF:
                self.power_off()
            else:
                self.power_on()
        after = self.read_power()
        is_done = after is (wanted or before) and not self.bmc_is_dark
        return power.Outcome(
            self.name,
            command,
            before,
            after,
            sent=is_sent,
            confirmed=is_done,
            attempts=1,
            seconds=1.0,
            reason=None if is_done else power.Reason.UNREACHABLE.value,
            text=None if is_done else "it does not answer",
            read_on=power.State.ON in {before, after},
        )

    def report(self) -> bytes:
        """What its agent says now; sometimes what it said before, or with a date from before."""
        world = self.world
        if self.last and world.happens("agent-repeats"):
            return self.last
        at = world.now - (world.rng("dates").random() * 3600 if world.happens("agent-goes-back") else 0.0)
        known = sides.facts(world, self.uuid)
        message = reports.message(
            node_uuid=self.uuid,
            timestamp_ns=int(at * 1e9),
            data=self.says,
            problem=None,
            facts=replicas.NodeFacts(str(uuid.UUID(int=self.boots)), known),
        )
        self.last = signing.sign(message, key=self.key, now=int(at)).encode()
        return self.last

    def _tell(self) -> None:
        waiting, self.changed = self.changed, []
        for wake in waiting:
            wake()


class Writer:
    """The controller's end of a connection to a node: what it writes is a question, which the node's agent answers."""

    def __init__(self, node: Node, reader: asyncio.StreamReader) -> None:
        self._node = node
        self._reader = reader
        self._is_open = True
        self.transport = self

    def write(self, data: bytes) -> None:
        path = data.split(b" ", 2)[1].decode()
        loop = asyncio.get_running_loop()
        if path == LEADER:
            loop.call_later(_on_way(self._node.world), self._follow, data.partition(b"\r\n\r\n")[2])
            return
        pause = self._node.world.rng("wire").random() * ON_WIRE
        if "?after=" not in path:
            loop.call_later(pause, self._answer)
            return
        asked = dict(part.split("=") for part in path.partition("?")[2].split("&"))
        if self._node.last and collected.content_digest(self._node.last) != asked["after"]:
            loop.call_later(pause, self._answer)
            return
        self._node.changed.append(lambda: loop.is_closed() or loop.call_later(pause, self._answer))
        loop.call_later(float(asked["seconds"]), self._answer)

    def abort(self) -> None:
        self._is_open = False

    def _follow(self, question: bytes) -> None:
        """Its agent answers who leads; the answer may be on its way while the node is lost."""
        world = self._node.world
        if self._node.answers and not world.happens("question-lost"):
            given = self._node.followed.answer(question)
            if world.happens("question-lost"):
                return
            asyncio.get_running_loop().call_later(_on_way(self._node.world), self._hear, given)

    def _hear(self, given: bytes) -> None:
        if self._is_open and self._node.answers:
            self._is_open = False
            self._reader.feed_data(b"HTTP/1.0 200 OK\r\n\r\n" + given)
            self._reader.feed_eof()

    def _answer(self) -> None:
        if self._is_open and self._node.answers and self._node.world.known is not None:
            self._is_open = False
            self._reader.feed_data(b"HTTP/1.0 200 OK\r\n\r\n" + self._node.report())
            self._reader.feed_eof()


def _on_way(world: World) -> float:
    return world.rng("questions").random() * ON_WIRE


def open_connection(world: World) -> Callable[..., Any]:
    """As `asyncio.open_connection`: a node without power does not answer, one that hangs accepts and says nothing."""

    async def opened(host: str, port: int, *, limit: int) -> tuple[asyncio.StreamReader, Writer]:
        node = next((node for node in world.nodes.values() if node.address == host), None)
        await asyncio.sleep(world.rng("wire").random() * ON_WIRE)
        if node is None or not node.is_on or node.is_isolated:
            await asyncio.sleep(NEVER)
            raise OSError("no route")
        reader = asyncio.StreamReader(limit=limit)
        if port != AGENT_PORT and node.answers:
            reader.feed_data(b"SSH-2.0-world\r\n")
        return reader, Writer(node, reader)

    return opened


def reader(world: World) -> Callable[..., Any]:
    """As `power_readings.Reader`: the BMCs of nodes, each in its time."""

    def made(_credentials: Path, _environment: Mapping[str, str]) -> Any:
        async def read(nodes: Mapping[str, str]) -> AsyncIterator[power.Outcome]:
            for node in sorted(world.nodes.values(), key=lambda node: node.name):
                if node.name in nodes:
                    await asyncio.sleep(world.rng("bmc").random() * BMC_SECONDS)
                    if world.happens("bmc-reader-fails"):
                        raise errors.Failed("the process that reads BMCs has ended")
                    if world.here.watch is not None:
                        world.here.watch.note_reading(node.uuid)
                    yield node.command(power.Command.STATUS)

        return read

    return made


def keep_watching(world: World) -> Callable[..., Any]:
    """As `spool.keep_watching`: it is told of each file that gets a name in the spool."""

    async def watching(_folder: Path, callback: Callable[[], None], *, failures: Any) -> None:
        loop = asyncio.get_running_loop()
        world.on_spooled = lambda: loop.is_closed() or loop.call_later(0.01, callback)
        callback()
        await asyncio.Event().wait()

    return watching


def put_report(world: World, node: Node) -> None:
    """A node sends its report by itself."""
    if world.known is not None and node.answers:
        spool = world.root / "var/lib/roundsman/spool"
        made = spool / f".{node.name}.new"
        made.write_bytes(node.report())
        made.rename(spool / f"{node.name}-{int(world.now * 1e6)}.json")


def diagnosis(status: str, number: int) -> str:
    """A diagnosis of this status, each number another failure."""
    told: dict[str, Any] = {"status": status, "details": f"failure {number}"}
    if status == "live-repair":
        told["command"] = "repair"
    return json.dumps(told)


def ssh_votes(world: World) -> Callable[..., Any]:
    """As `ssh_votes.SshVotes`: nodes say over SSH whom they follow, one after the other; who is silent says nothing."""

    def made(*_: Any, **__: Any) -> Any:
        async def ask(_: Any, asked: Sequence[Any], question: Callable[[str], votes.Question]) -> voting.Poll:
            poll = voting.Poll()
            for each in asked:
                await asyncio.sleep(_on_way(world))
                node, put = world.nodes.get(each.uuid), question(each.uuid)
                if node is not None and node.answers:
                    given = node.followed.answer(votes.sealed_question(put, key=node.key, now=int(world.now)))
                    poll.answers[each.uuid] = dataclasses.replace(
                        votes.answer(given, key=node.key, asked=put), heard=None
                    )
            return poll

        return ask

    return made
