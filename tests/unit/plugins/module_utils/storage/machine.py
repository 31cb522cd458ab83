"""A node of a simulated lab for tests of drivers: its programs are the lab's, and its peers are real neighbours of it.

What a test puts around the programs: commands that fail (`broken`), answers of its own (`answers`), and words that no
DRBD of the model says (`garbled`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab.simulator import (
    simulated_node,
    simulated_programs,
    simulated_records,
    simulated_replica,
    simulated_store,
    simulated_world,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import disks, drbd_node, drbd_resource

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

READING = ("lvs", "vgs", "drbdsetup status", "drbdsetup show", "drbdadm get-gi", "drbdadm sh-")


@dataclass
class Clock:
    """The time of all nodes of a test, in ns; it goes only when a test says so."""

    now: int = simulated_replica.SECOND

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * simulated_replica.SECOND)


@dataclass
class Machine:
    """The node with this root; `ran` are the commands of drivers that changed something, in their order."""

    root: Path
    clock: Clock = field(default_factory=Clock)
    ran: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    garbled: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)

    @property
    def node(self) -> drbd_node.DrbdNode:
        return drbd_node.DrbdNode(self, proc=self.root / drbd_node.PROC)

    @property
    def end(self) -> disks.End:
        return disks.End(self.root.name, f"192.0.2.{self.root.name[-1]}")

    def peer(self, name: str = "n2") -> Machine:
        """Another node of the same lab."""
        found = Machine(self.root.parent / name, self.clock)
        if self.is_nine:
            found.use_version_9()
        return found

    def run(self, *command: str, time_limit: float = 120, accepted: tuple[int, ...] = (0,)) -> str:
        """As a driver runs it."""
        text = " ".join(command)
        for start, reason in self.broken.items():
            if text.startswith(start):
                raise errors.Failed(f"{' '.join(command[:3])}: {reason}")
        said = self.do(*command, time_limit=time_limit, accepted=accepted)
        if not text.startswith(READING):
            self.ran.append(text)
        for start, answer in self.answers.items():
            said = answer if text.startswith(start) else said
        return self._garble(said)

    def do(self, *command: str, time_limit: float = 120, accepted: tuple[int, ...] = (0,)) -> str:
        """As somebody else runs it: it is not noted in `ran`, and no fault of the test is in its way."""
        if "--config-file" in command:
            # Without this line drbdadm asks its makers' server whether it may be counted.
            assert (self.root / command[2]).read_text().startswith("global { usage-count no; }\n")
        programs = simulated_programs.SimulatedPrograms(self.root, clock=lambda: self.clock.now)
        return programs.run(*command, time_limit=time_limit, accepted=accepted)

    def drbdadm(self, verb: str, resource: str, *options: str) -> None:
        """As `do`, a command about one resource."""
        self.do("drbdadm", verb, *options, resource)

    @property
    def resources(self) -> dict[str, simulated_replica.Device]:
        """The resources that are up, as the kernel keeps them."""
        with self._store() as store:
            found = {name: store.pair(self.root.name, name).sides[0].device for name in store.names(self.root.name)}
        return {name: device for name, device in found.items() if device is not None}

    @property
    def volumes(self) -> dict[str, simulated_records.Volume]:
        with self._store() as store:
            return dict(store.volumes(self.root.name))

    def metadata(self, resource: str) -> simulated_replica.Metadata:
        """What DRBD has stored of a resource."""
        with self._store() as store:
            found = store.pair(self.root.name, resource).sides[0].metadata
        assert found is not None, f"{resource} has no metadata on {self.root.name}"
        return found

    def configured(self, name: str) -> str:
        """The text of a resource's file, '' without one."""
        path = self.root / drbd_resource.FOLDER / f"roundsman-{name}.res"
        return path.read_text() if path.exists() else ""

    @property
    def is_nine(self) -> bool:
        return (self.root / simulated_store.VERSION_FILE).exists()

    def use_version_9(self) -> None:
        """Let the node have DRBD 9 once it loads the module."""
        path = self.root / simulated_store.VERSION_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("9")

    def make_volume(self, name: str, size: int) -> None:
        group, _, volume = name.partition("/")
        self.do("lvcreate", "--size", f"{size}m", "--name", volume, group)

    def place(self, instance: str = "web1", uuid: str = "u-1", minors: tuple[int, ...] = (0,)) -> Machine:
        """Replicas of an instance's disks of 64 MiB on this node and on n2, connected and in sync; nobody is primary.

        Their volumes are in the group `roundsman`. Returns n2.
        """
        other, sizes = self.peer(), (64,) * len(minors)
        ends = self.end, other.end
        made = simulated_world.NewDisks(instance, uuid, sizes, minors, ends, "roundsman", "s3", is_primary=False)
        simulated_world.place(self.root.parent, [made], opcode="test", now=self.clock.now)
        return other

    def set_link(self, peer: str = "n2", *, is_cut: bool) -> None:
        """Cut the link to a peer, or restore it."""
        simulated_node.set_fault(self.root, f"{simulated_node.LINKS}/{peer}", "cut" if is_cut else "")
        simulated_world.settle(self.root, now=self.clock.now)

    def set_resync_speed(self, speed: int) -> None:
        """KiB per second that a resync of this node copies."""
        (self.root / simulated_store.SPEED_FILE).parent.mkdir(parents=True, exist_ok=True)
        simulated_world.set_resync_speed(self.root, speed, now=self.clock.now)

    def open(self, instance: str, device: str) -> None:
        """An instance opens a disk and writes."""
        simulated_world.start_writing(self.root, instance, devices=[device], now=self.clock.now)

    def close(self, instance: str) -> None:
        """The instance has ended."""
        simulated_world.stop_writing(self.root, instance, now=self.clock.now)

    def _garble(self, said: str) -> str:
        path = self.root / drbd_node.PROC
        for word, wrong in self.garbled.items():
            said = said.replace(word, wrong)
            if path.exists():
                path.write_text(path.read_text().replace(word, wrong))
        return said

    def _store(self) -> contextlib.AbstractContextManager[simulated_store.Store]:
        return simulated_store.opened(self.root.parent, now=self.clock.now)
