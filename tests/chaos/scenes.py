"""Scenes: the faults and requests that lose data only together, played on purpose, in their order, by chance.

Each is a generator: it does a step, and yields the seconds until its next one. Its nodes are left alone by the random
faults meanwhile; requests go on hitting them. However it ends, its faults are ended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab import chassis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import fake

from tests.chaos.faults import MASTER

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from ansible_collections.roundsman.cluster.daemon.lab import world

    from tests.chaos.chronicle import Chronicle
    from tests.chaos.doors import Doors
    from tests.chaos.faults import Faults
    from tests.integration import labs


@dataclass(frozen=True)
class Cast:
    """An instance, the nodes of its two replicas, and one that has none of it."""

    instance: str
    primary: world.LabNode
    secondary: world.LabNode
    other: world.LabNode

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset({self.primary.name, self.secondary.name, self.other.name})


@dataclass
class Act:
    """A scene at work, what it still has to end, and when its next step is due."""

    name: str
    cast: Cast
    steps: Iterator[float]
    due: float = field(default_factory=time.monotonic)


class Scenes:
    """The scenes of a lab, one at a time."""

    def __init__(
        self, lab: labs.Running, doors: Doors, faults: Faults, chance: random.Random, chronicle: Chronicle
    ) -> None:
        self._lab, self._doors, self._faults = lab, doors, faults
        self._chance, self._chronicle = chance, chronicle
        self._act: Act | None = None

    def begin(self) -> None:
        """Begin a scene, unless one is at work or a node is away."""
        scenes: tuple[Callable[[Cast], Iterator[float]], ...] = (
            *(self._stale_failover, self._parting_failover, self._dead_stale, self._lying, self._second_copy),
            *(self._split_brain, self._diskless, self._paused_migration, self._silent_target, self._left_behind),
        )
        cast = None if self._act is not None or self._faults.away() else self._cast()
        if cast is None:
            return
        scene = self._chance.choice(scenes)
        name = scene.__name__.strip("_").replace("_", " ")
        self._act = Act(name, cast, scene(cast))
        self._faults.reserved = cast.nodes
        self._chronicle.count("scenes", name, f"{cast.instance} on {cast.primary.name} and {cast.secondary.name}")

    def tend(self) -> None:
        """Go on with the scene at work."""
        act = self._act
        if act is None or time.monotonic() < act.due:
            return
        try:
            act.due = time.monotonic() + next(act.steps)
        # A request or a fault has changed what it needs.
        except (StopIteration, errors.Failed):
            self.end()

    def end(self) -> None:
        """End the scene at work, and its faults."""
        act, self._act = self._act, None
        if act is None:
            return
        self._faults.reserved = frozenset()
        for node in (act.cast.primary, act.cast.secondary, act.cast.other):
            node.fix()
            node.set_faults([])
        self._chronicle.note(f"scene ends: {act.name}")

    def _cast(self) -> Cast | None:
        """An instance that runs where it is to run, with nodes of which none has a fault or is the master."""
        cluster = self._lab.cluster()
        standing = {fault.node for fault in self._faults.standing}
        free = {
            one.name: one.group
            for one in cluster.nodes.values()
            if one.name not in {MASTER, *standing} and one.powered and not one.offline and not one.drained
        }
        found = []
        for one in cluster.instances.values():
            pair = [cluster.node_name(uuid) for uuid in one.nodes]
            # A replica stays within its node group.
            others = sorted(name for name in free.keys() - set(pair) if free[name] == free.get(pair[0]))
            runs = one.is_up and one.name in fake.Driver(self._lab.lab.node(pair[0]).root, opcode="").running()
            if len(pair) == 2 and set(pair) <= free.keys() and others and runs:
                found.append((one.name, *pair, self._chance.choice(others)))
        if not found:
            return None
        name, *nodes = self._chance.choice(sorted(found))
        return Cast(name, *(self._lab.lab.node(node) for node in nodes))

    def _ask(self, what: str, method: str, path: str, body: object = None) -> None:
        self._doors.ask(what, method, path, body)

    def _fail_over(self, cast: Cast, **body: object) -> None:
        self._ask("failover", "PUT", f"/2/instances/{cast.instance}/failover", body)

    def _stale_failover(self, cast: Cast) -> Iterator[float]:
        """A failover a moment after the link was cut, before the secondary is outdated."""
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        yield self._chance.uniform(0.5, 4)
        self._fail_over(cast)
        yield 25

    def _parting_failover(self, cast: Cast) -> Iterator[float]:
        """The pair parts while a failover waits for its guest to stop."""
        cast.primary.ignore_stop(cast.instance, is_ignored=True)
        self._fail_over(cast)
        yield self._chance.uniform(3, 10)
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        yield 25

    def _dead_stale(self, cast: Cast) -> Iterator[float]:
        """The primary writes alone, then dies; the secondary, which nobody could outdate, answers again."""
        cast.secondary.silence(is_silent=True)
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        yield self._chance.uniform(8, 16)
        cast.primary.lose_power()
        yield self._chance.uniform(0.5, 12)
        cast.secondary.silence(is_silent=False)
        yield 40

    def _lying(self, cast: Cast) -> Iterator[float]:
        """A node runs on that nobody reaches, and its BMC says that it is off."""
        cast.primary.set_faults([self._chance.choice((chassis.LYING, chassis.STALE_OFF))])
        cast.primary.cut(is_cut=True)
        yield 3
        if self._chance.random() < 0.5:
            self._fail_over(cast)
        yield 40

    def _second_copy(self, cast: Cast) -> Iterator[float]:
        """A dead node comes back behind a cut link, starts what it ran before, and a person wants it online."""
        cast.primary.autostart(cast.instance, is_on=True)
        cast.primary.lose_power()
        for _ in range(30):
            yield 2
            if cast.instance in fake.Driver(cast.secondary.root, opcode="").running():
                break
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        cast.primary.fix("power")
        yield 8
        self._ask("power on", "PUT", f"/2/nodes/{cast.primary.name}/power", {"command": "on"})
        self._ask("online", "PUT", f"/2/nodes/{cast.primary.name}/role?force=1", "online")
        yield 20
        cast.primary.autostart(cast.instance, is_on=False)
        cast.primary.user_shutdown(cast.instance)
        cast.primary.cut_link(cast.secondary.name, is_cut=False)
        yield 3
        self._ask("repair disks", "PUT", f"/2/instances/{cast.instance}/repair-disks", {})
        yield 20

    def _split_brain(self, cast: Cast) -> Iterator[float]:
        """Both sides of a pair write, then meet; a person repairs, and names no side to discard."""
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        yield 3
        self._fail_over(cast, ignore_consistency=True)
        yield 25
        cast.primary.cut_link(cast.secondary.name, is_cut=False)
        yield 2
        self._ask("repair disks", "PUT", f"/2/instances/{cast.instance}/repair-disks", {})
        yield 20

    def _diskless(self, cast: Cast) -> Iterator[float]:
        """The primary has lost its disk, and the replica on the secondary is to be made anew."""
        cast.primary.lose_disk(cast.instance, is_lost=True)
        yield self._chance.uniform(1, 4)
        node = self._chance.choice((cast.secondary, cast.secondary, cast.other)).name
        body = {"mode": "replace_new_secondary", "remote_node": node}
        self._ask("replace disks", "POST", f"/2/instances/{cast.instance}/replace-disks", body)
        yield 25

    def _paused_migration(self, cast: Cast) -> Iterator[float]:
        """The target of a migration runs the guest and reboots; a person starts the instance."""
        cast.primary.fail_migrations("paused")
        self._ask("migrate", "PUT", f"/2/instances/{cast.instance}/migrate", {})
        yield 15
        cast.primary.fail_migrations("")
        self._ask("startup", "PUT", f"/2/instances/{cast.instance}/startup", {})
        yield 15

    def _silent_target(self, cast: Cast) -> Iterator[float]:
        """A node has been silent for long, and shall get a replica."""
        cast.other.silence(is_silent=True)
        yield 18
        body = {"mode": "replace_new_secondary", "remote_node": cast.other.name}
        self._ask("replace disks", "POST", f"/2/instances/{cast.instance}/replace-disks", body)
        yield 15

    def _left_behind(self, cast: Cast) -> Iterator[float]:
        """The node of the secondary is silent; the replica goes elsewhere, and the node comes back."""
        cast.secondary.silence(is_silent=True)
        yield self._chance.uniform(5, 12)
        body = {"mode": "replace_new_secondary", "remote_node": cast.other.name}
        self._ask("replace disks", "POST", f"/2/instances/{cast.instance}/replace-disks", body)
        yield 25
