"""The process of a lab's node agents: it keeps the real agent of each node at work, and is the network before it.

An agent listens at an address that only this process uses; the address of its node is open while the node is reached,
and what comes there is passed on. So an agent works on behind a cut link, and is gone with its node's power.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import building, world
from .simulator import fake, simulated_node

AGENT = "ansible_collections.roundsman.cluster.plugins.module_utils.monitoring.agent"
LOOK_SECONDS = 0.2
RESTART_SECONDS = 2.0
"""Between the end of an agent and its next start, as its systemd unit has it."""
START_SECONDS = 60.0
"""How long the first start of all agents may take."""
REPORT = "run/roundsman/agent/node/diagnose"
PAUSE = 0.02
GARBAGE = b"\x00\xff\x1b[2J<<< bus error, core dumped >>>\n"
PIECE = 65536
PROBE = b"GET / HTTP/1.1\r\nHost: node\r\n\r\n"
PROBE_SECONDS = 5.0


class Machine:
    """One node: its agent, and the port at its address."""

    def __init__(self, node: world.LabNode, place: building.AgentPlace) -> None:
        self._node, self._place = node, place
        self._agent: subprocess.Popen[bytes] | None = None
        self._ended = 0.0
        self._chance = random.SystemRandom()
        self._accepts = False
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        simulated_node.end_agent(node.root)
        # Its port is free once it is gone, and what answers then is the new one.
        while simulated_node.agent(node.root):
            time.sleep(PAUSE)

    async def follow(self) -> None:
        """Have agent and port as the node's power and its links want them."""
        is_reached = self._is_reached
        if simulated_node.is_on(self._node.root):
            self._tend_agent()
        if is_reached and not self._accepts:
            self._accepts = await self._probe()
        if is_reached and self._accepts:
            await self._listen()
        else:
            self._close()

    @property
    def _is_reached(self) -> bool:
        fake.come_up(self._node.root)
        root = self._node.root
        return simulated_node.is_reached(root) and not simulated_node.fault(root, simulated_node.AGENT)

    @property
    def is_ready(self) -> bool:
        """Whether the agent answers and has a first report, or its node cannot have one."""
        has_report = self._server is not None and (self._node.root / REPORT).exists()
        return has_report or not self._is_reached

    def end(self) -> None:
        """End the agent and close the port."""
        self._close()
        simulated_node.end_agent(self._node.root)
        if self._agent is not None:
            self._agent.wait()

    def _tend_agent(self) -> None:
        now = time.monotonic()
        if self._agent is not None and self._agent.poll() is not None:
            self._agent, self._ended, self._accepts = None, now, False
        if self._agent is None and (not self._ended or now - self._ended >= RESTART_SECONDS):
            environment = {**os.environ, **simulated_node.environment(self._node.root), simulated_node.FROM_AGENT: "1"}
            with (self._node.root / "var/log/roundsman/agent.log").open("ab") as log:
                self._agent = subprocess.Popen(
                    [sys.executable, "-m", AGENT], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )

    async def _probe(self) -> bool:
        """Whether the agent answers: a port may be open for one that is ending, or that has only begun."""
        with contextlib.suppress(OSError, TimeoutError), contextlib.ExitStack() as ends:
            reader, writer = await asyncio.open_connection(self._place.own, self._place.port)
            ends.callback(writer.transport.abort)
            writer.write(PROBE)
            return bool(await asyncio.wait_for(reader.read(1), PROBE_SECONDS))
        return False

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._pass_on, self._place.seen, self._place.port)

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as ends:
            self._hold(writer, ends)
            try:
                there, agent = await asyncio.open_connection(self._place.own, self._place.port)
            except OSError:
                self._accepts = False
                return
            self._hold(agent, ends)
            asked = asyncio.create_task(_copy(reader, agent))
            # Who waits for an answer and goes away is not waited with any longer.
            asked.add_done_callback(lambda _: agent.transport.abort())
            ends.callback(asked.cancel)
            answer = _garbled(await there.read(-1), simulated_node.fault(self._node.root, simulated_node.GARBAGE))
            await self._hold_back()
            writer.write(answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _hold_back(self) -> None:
        """Wait for as long as an answer comes late, or TCP repeats what was lost."""
        root, began = self._node.root, time.monotonic()
        lost = float(simulated_node.fault(root, simulated_node.LOSS) or 0) / 100
        again = 0.0
        while lost and self._chance.random() < lost:
            again = 2 * again + 1
        while time.monotonic() - began < max(again, self._lateness()):  # noqa: ASYNC110 - a file, which may go
            await asyncio.sleep(LOOK_SECONDS)

    def _lateness(self) -> float:
        return float(simulated_node.fault(self._node.root, simulated_node.LATE) or 0)

    def _hold(self, writer: asyncio.StreamWriter, ends: contextlib.ExitStack) -> None:
        self._open.add(writer)
        ends.callback(writer.transport.abort)
        ends.callback(self._open.discard, writer)


def _garbled(answer: bytes, how: str) -> bytes:
    """What is heard of an answer."""
    if how in {"before", "instead"}:
        return GARBAGE + (answer if how == "before" else b"")
    return answer[: len(answer) // 2] if how == "cut" else answer


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(PIECE):
            target.write(piece)
            await target.drain()


async def _run(machines: list[Machine], ready: int) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    limit = time.monotonic() + START_SECONDS
    is_said = False
    while not stopping.is_set():
        await asyncio.gather(*(machine.follow() for machine in machines))
        if not is_said and (all(machine.is_ready for machine in machines) or time.monotonic() > limit):
            os.write(ready, b"ready\n")
            os.close(ready)
            is_said = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
    for machine in machines:
        machine.end()


def main() -> None:
    """Keep the agents of the lab in the folder that is the first argument; the second is a descriptor to say so."""
    lab = world.Lab(Path(sys.argv[1]))
    port = lab.agent_port
    machines = [Machine(node, building.agent_place(index, port)) for index, node in enumerate(lab.nodes())]
    asyncio.run(_run(machines, int(sys.argv[2])))


if __name__ == "__main__":
    main()
