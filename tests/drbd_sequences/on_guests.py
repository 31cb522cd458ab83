"""A DRBD pair on the guests of a bed, as sequences drive it: one process on each guest does what it is told."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Replication
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    disks,
    drbd_node,
    drbd_resource,
    drbd_status,
)

from tests.testbed import building, guests, wires

from . import playing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Generation, Side

    from tests.testbed import beds

    Answer = Sequence[Any]

MINOR, PORT_LIMIT = 7, 120.0
SIZE = 8
DATA, METADATA = "roundsman/sequence.data", "roundsman/sequence.meta"
DEVICE = f"/dev/drbd{MINOR}"
FILE = "/etc/drbd.d/sequence.res"
FAST, SLOW = "100M", "10k"
"""The second is less than a block in each turn of a resync: it does not advance."""
QUICK = "ping-int 3; ping-timeout 20; timeout 25; connect-int 3;"
"""Seconds and tenths of them: a cut link is noticed soon, also by guests that are slow."""
AGENT = r"""
import json, mmap, os, subprocess, sys
def block(number):
    made = mmap.mmap(-1, 4096)
    made.write(b"%08d" % number)
    return made
def write(device, number):
    opened = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
    try:
        os.pwrite(opened, block(number), 4096 * number)
    finally:
        os.close(opened)
def writes(device):
    opened = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        made = mmap.mmap(-1, 4096 * 64)
        os.preadv(opened, [made], 0)
        return [number for number in range(1, 64) if made[4096 * number:4096 * number + 8] == b"%08d" % number]
    finally:
        os.close(opened)
def clear(device):
    opened = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
    os.pwrite(opened, mmap.mmap(-1, 4096 * 64), 0)
    os.close(opened)
OWN = {"write": write, "writes": writes, "clear": clear, "read": lambda path: open(path).read()}
for line in sys.stdin:
    answers = []
    for verb, *rest in json.loads(line):
        if verb in OWN:
            try:
                answers.append([0, OWN[verb](*rest), ""])
            except OSError as error:
                answers.append([1, None, str(error)])
        else:
            done = subprocess.run([verb, *rest], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            answers.append([done.returncode, done.stdout, done.stderr])
    print(json.dumps(answers), flush=True)
"""
_PASSING = {Disk.ATTACHING, Disk.NEGOTIATING, Disk.DETACHING, Disk.FAILED}
_SETTLED = {Connection.STANDALONE, Connection.CONNECTING, Connection.CONNECTED}
_STILL = {Replication.SYNC_SOURCE, Replication.SYNC_TARGET}


@dataclass
class Guests:
    """The pair; `reset` makes it healthy, whatever it went through."""

    bed: beds.Bed
    agents: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    is_cut: bool = False
    is_slow: bool = False
    tables: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def ask(self, node: str, *commands: Sequence[Any]) -> list[Answer]:
        """What a guest answers to commands: exit code, output, errors."""
        agent = self.agents.get(node)
        if agent is None:
            script = self.bed.command(node, "exec", "python3", "-c", _quoted(AGENT))
            pipe = subprocess.PIPE
            agent = self.agents[node] = subprocess.Popen(script, stdin=pipe, stdout=pipe, text=True, bufsize=1)
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write(json.dumps(commands) + "\n")
        agent.stdin.flush()
        line = agent.stdout.readline()
        assert line, f"{node} does not answer to {commands}"
        answers: list[Answer] = json.loads(line)
        return answers

    def remove(self) -> None:
        """Take the pair off both guests."""
        self._wake()
        for node in playing.NODES:
            self._take_down(node)
            self.ask(node, ["lvremove", "--yes", DATA, METADATA], ["rm", "-f", FILE])

    def close(self) -> None:
        """End what runs on the guests."""
        for node in list(self.agents):
            self._hang_up(node)

    def reset(self) -> None:
        """A new pair on empty disks, its primary node1."""
        self._wake()
        self.log.clear()
        with futures.ThreadPoolExecutor() as pool:
            list(pool.map(self._make, playing.NODES))
            list(pool.map(lambda node: self._insist(node, "drbdadm", "up", playing.RESOURCE), playing.NODES))
        self._until_connected()
        self._insist("node1", "drbdadm", "new-current-uuid", "--clear-bitmap", f"{playing.RESOURCE}/0")
        self._insist("node1", "drbdadm", "primary", playing.RESOURCE)

    def drbdadm(self, node: str, *arguments: str) -> str:
        ((code, output, error),) = self.ask(node, ["drbdadm", *arguments, playing.RESOURCE])
        self.log.append(f"{node} {arguments}: {code} {output!r} {error!r}")
        if code == 0:
            return playing.DONE
        classes = re.findall(r"(?:Failure|failed): \((-?\d+)\)", output + error)
        return f"exit {code}" + (f" ({classes[-1]})" if classes else "")

    def write(self, node: str, number: int) -> str:
        ((code, _, error),) = self.ask(node, ["write", DEVICE, number])
        self.log.append(f"{node} write: {code} {error!r}")
        return playing.FAILED if code else playing.DONE

    def act(self, node: str, deed: str) -> str:
        if deed == "power-off":
            self._hang_up(node)
            guests.set_power(self.bed, node, on=False)
        elif deed == "boot":
            self._boot(node)
        elif deed == "reboot":
            self._hang_up(node)
            guests.press_power_button(self.bed, node)
            _await(lambda: node not in guests.running(self.bed), f"{node} is off")
            self._boot(node)
        elif deed == "lose-disk":
            ((_, table, _),) = self.ask(node, ["dmsetup", "table", _mapped(DATA)])
            self.tables[node] = table
            self._load(node, f"0 {table.split()[1]} error")
        elif deed == "return-disk":
            self._load(node, self.tables.pop(node))
        else:
            raise AssertionError(deed)
        return playing.DONE

    def set_link(self, *, is_cut: bool) -> None:
        wires.cut(self.bed, "node2", "secondary", is_cut=is_cut)
        self.is_cut = is_cut

    def set_resync(self, *, is_slow: bool) -> None:
        self.is_slow = is_slow
        old, new = (FAST, SLOW) if is_slow else (SLOW, FAST)
        for node in playing.NODES:
            change = ["drbdadm", "disk-options", f"--resync-rate={new}", "--c-plan-ahead=0", playing.RESOURCE]
            self.ask(node, ["sed", "-i", f"s/resync-rate {old}/resync-rate {new}/", FILE], change, ["sync"])

    def settled(self) -> dict[str, playing.Replica]:
        end = time.monotonic() + PORT_LIMIT
        last: dict[str, playing.Replica] = {}
        while True:
            found = self._look()
            if self._is_settled(found) and found == last:
                return found
            last = found
            assert time.monotonic() < end, f"they do not settle: {[one.text for one in found.values()]} {self.log}"
            time.sleep(0.7)

    def _is_settled(self, found: Mapping[str, playing.Replica]) -> bool:
        sides = {node: one.side for node, one in found.items() if one.side is not None and one.side.volumes}
        connections = [side.connection for side in sides.values()]
        if any(one not in _SETTLED for one in connections):
            return False
        volumes = [side.volumes[0] for side in sides.values()]
        if any(volume.disk in _PASSING or volume.peer_disk in _PASSING for volume in volumes):
            return False
        together = connections.count(Connection.CONNECTED)
        if together not in {0, len(playing.NODES)} or (together and self.is_cut):
            return False
        if connections == [Connection.CONNECTING] * 2 and not self.is_cut:
            return False
        return not any(
            volume.replication.is_under_way and not (self.is_slow and volume.replication in _STILL)
            for volume in volumes
        )

    def _look(self) -> dict[str, playing.Replica]:
        with futures.ThreadPoolExecutor() as pool:
            return dict(zip(playing.NODES, pool.map(self._replica, playing.NODES), strict=True))

    def _replica(self, node: str) -> playing.Replica:
        if node not in guests.running(self.bed):
            return playing.Replica(is_on=False)
        status, proc, identifiers, content = self.ask(
            node,
            ["drbdsetup", "status", "--verbose", "--statistics"],
            ["read", "/proc/drbd"],
            ["drbdadm", "get-gi", f"{playing.RESOURCE}/0"],
            ["writes", f"/dev/{DATA}"],
        )
        sides = drbd_status.of_text(status[1], proc[1]).sides if proc[0] == 0 else []
        found: Side | None = next((side for side in sides if side.resource == playing.RESOURCE), None)
        generation: Generation | None = None
        with contextlib.suppress(errors.InvalidInput):
            generation = drbd_status.generation(identifiers[1])
        writes = tuple(content[1]) if content[0] == 0 else None
        return playing.Replica(is_on=True, side=found, generation=generation, writes=writes)

    def _until_connected(self) -> None:
        def is_connected() -> bool:
            sides = [one.side for one in self._look().values()]
            return all(side is not None and side.connection is Connection.CONNECTED for side in sides)

        _await(is_connected, "the new pair is connected")

    def _boot(self, node: str) -> None:
        guests.start(self.bed, node)
        building.await_node(self.bed, node, seconds=building.BOOT)
        self.ask(node, ["lvchange", "--activate", "y", DATA, METADATA], ["modprobe", "drbd"])

    def _wake(self) -> None:
        self.set_link(is_cut=False)
        self.is_slow = False
        for node in playing.NODES:
            if node not in guests.running(self.bed):
                self._boot(node)

    def _take_down(self, node: str) -> None:
        if node in self.tables:
            self._load(node, self.tables.pop(node))
        self.ask(node, ["drbdsetup", "secondary", str(MINOR)], ["drbdsetup", "down", playing.RESOURCE])

    def _make(self, node: str) -> None:
        self._take_down(node)
        name, make = playing.RESOURCE, ["lvcreate", "--yes", "--size"]
        for volume, size in ((DATA, SIZE), (METADATA, drbd_resource.metadata_size(SIZE))):
            self.ask(node, [*make, f"{size}m", "--name", volume.partition("/")[2], "roundsman"])
        self._insist(node, "clear", f"/dev/{DATA}")
        self.bed.run(node, f"cat >{FILE} && sync", given=self._file(node).encode())
        self._insist(node, "drbdadm", "create-md", "--force", name)
        self.ask(node, ["sync"])

    def _file(self, node: str) -> str:
        """What Roundsman writes, with a resync whose speed is known and links that are watched closely."""
        nodes = self.bed.record()["nodes"]
        here, peer = (disks.End(name, nodes[name]["secondary"]) for name in sorted(nodes, key=lambda one: one != node))
        text = drbd_resource.Resource(
            name=playing.RESOURCE,
            instance="sequence",
            minor=MINOR,
            data=f"/dev/{DATA}",
            metadata=f"/dev/{METADATA}",
            nodename=node,
            here=here,
            peer=peer,
            secret="secret",
        ).text()
        text = text.replace("  disk { ", f"  disk {{ c-plan-ahead 0; resync-rate {FAST}; ")
        return text.replace("  net { ", f"  net {{ {QUICK} ")

    def _load(self, node: str, table: str) -> None:
        name = _mapped(DATA)
        self._insist(node, "dmsetup", "suspend", "--noflush", "--nolockfs", name)
        self._insist(node, "dmsetup", "load", "--table", table.strip(), name)
        self._insist(node, "dmsetup", "resume", name)

    def _insist(self, node: str, *command: Any) -> None:
        ((code, output, error),) = self.ask(node, command)
        assert code == 0, f"{node}: {command}: {output}{error}"

    def _hang_up(self, node: str) -> None:
        agent = self.agents.pop(node, None)
        if agent is not None:
            agent.kill()
            agent.communicate()


@dataclass(frozen=True)
class Programs:
    """Runs the programs of a guest for the code that modules run there."""

    pair: Guests
    node: str

    def run(self, *command: str, time_limit: float = 120.0, accepted: tuple[int, ...] = (0,)) -> str:
        ((code, output, error),) = self.pair.ask(self.node, command)
        if code not in accepted:
            raise errors.Failed(f"{' '.join(command[:3])}: {error or output}")
        return str(output)


class Node(drbd_node.DrbdNode):
    """Reads DRBD on a guest."""

    def __init__(self, programs: Programs) -> None:
        super().__init__(programs)
        self._programs = programs

    def _told(self) -> str:
        ((_, text, _),) = self._programs.pair.ask(self._programs.node, ["read", "/proc/drbd"])
        return str(text or "")


def _mapped(volume: str) -> str:
    return volume.replace("/", "-")


def _quoted(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


def _await(is_so: Any, what: str) -> None:
    end = time.monotonic() + PORT_LIMIT
    while not is_so():
        assert time.monotonic() < end, f"not within {PORT_LIMIT:g} s: {what}"
        time.sleep(0.5)
