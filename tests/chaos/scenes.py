"""Scenes: the faults and requests that lose data only together, played on purpose, in their order.

Each is a generator: it does a step, and yields the seconds until its next one, or what it waits for. `stage.py` chooses
who plays, and ends what a scene leaves behind.
"""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab import chassis
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_programs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.integration import states

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator

    from ansible_collections.roundsman.cluster.daemon.lab import world

    from tests.chaos.doors import Doors

    Scene = Callable[["Cast"], "Iterator[float | Until]"]

LONGEST = 90.0
"""Seconds for which a scene waits for the end of one job."""
BEGINS = 20.0
NOTICED = 7.0
"""Seconds within which the controller notices that a node has fallen silent."""


@dataclass(frozen=True)
class Cast:
    """An instance, the nodes of its two replicas, and one that has none of it."""

    instance: str
    primary: world.LabNode
    secondary: world.LabNode
    other: world.LabNode

    @property
    def nodes(self) -> tuple[world.LabNode, ...]:
        return self.primary, self.secondary, self.other

    @property
    def names(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes)


@dataclass(frozen=True)
class Until:
    """What a scene waits for, and for how many seconds at most."""

    is_so: Callable[[], object]
    seconds: float = LONGEST


class Scenes:
    """The scenes; `all` has them by name."""

    @staticmethod
    def names() -> list[str]:
        """The names of all scenes."""
        found = inspect.getmembers(Scenes, inspect.isgeneratorfunction)
        return [_name(method) for _, method in found if [*inspect.signature(method).parameters] == ["self", "cast"]]

    def __init__(self, doors: Doors, chance: random.Random) -> None:
        self._doors, self._chance = doors, chance
        scenes: tuple[Scene, ...] = (
            *(self._stale_failover, self._parting_failover, self._dead_stale, self._lying, self._second_copy),
            *(self._split_brain, self._diskless, self._paused_migration, self._silent_target, self._left_behind),
            *(self._lost_migration, self._written_alone, self._panicked, self._rack),
        )
        self.all = {_name(scene): scene for scene in scenes}

    def _stale_failover(self, cast: Cast) -> Iterator[float | Until]:
        """A failover in the moment when the link is cut; a person starts the instance again if it failed."""
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        yield from self._after_the_stop(cast, self._fail_over(cast))

    def _parting_failover(self, cast: Cast) -> Iterator[float | Until]:
        """The pair parts while a failover waits for its guest to stop."""
        cast.primary.ignore_stop(cast.instance, is_ignored=True)
        job = self._fail_over(cast)
        yield self._begun(job)
        yield self._chance.uniform(2, 8)
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        yield from self._after_the_stop(cast, job)

    def _after_the_stop(self, cast: Cast, job: int) -> Iterator[float | Until]:
        """The source of a failover may fall silent once the guest has stopped; a person starts what is down."""
        ended = self._ended(job)
        if self._chance.random() < 0.5:
            yield Until(lambda: not self._runs(cast, cast.primary) or ended.is_so())
            yield self._chance.uniform(1, 12)
            cast.primary.silence(is_silent=True)
        yield ended
        if not self._runs(cast, cast.secondary):
            yield self._ended(self._start(cast))

    def _dead_stale(self, cast: Cast) -> Iterator[float | Until]:
        """The primary writes alone, then dies; the secondary, which nobody could outdate, answers again."""
        cast.secondary.silence(is_silent=True)
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        # Not so long that the secondary is taken for dead.
        yield self._chance.uniform(18, 24)
        cast.primary.lose_power()
        cast.secondary.silence(is_silent=False)
        yield NOTICED
        yield self._heard(cast.secondary)
        yield self._ended(self._fail_over(cast))
        yield self._chance.uniform(1, 10)

    def _lying(self, cast: Cast) -> Iterator[float | Until]:
        """A node runs on that nobody reaches, and its BMC says that it is off."""
        cast.primary.set_faults([self._chance.choice((chassis.LYING, chassis.STALE_OFF))])
        cast.primary.cut(is_cut=True)
        yield self._chance.uniform(NOTICED, 2 * NOTICED)
        yield self._ended(self._fail_over(cast))
        yield self._chance.uniform(1, 10)

    def _second_copy(self, cast: Cast) -> Iterator[float | Until]:
        """A dead node comes back behind a cut link, starts what it ran before, and a person wants it online."""
        cast.primary.autostart(cast.instance, is_on=True)
        cast.primary.lose_power()
        yield NOTICED
        self._fail_over(cast)
        yield Until(lambda: self._runs(cast, cast.secondary))
        yield self._ended(self._role(cast.primary.name, "offline"))
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        # Not `fix`: its BMC was told to keep it off.
        cast.primary.set_power(True)
        yield self._chance.uniform(6, 9)
        self._power_on(cast.primary.name)
        yield self._ended(self._role(cast.primary.name, "online"))
        yield 2
        end_copy(cast.primary, cast.instance)
        cast.primary.cut_link(cast.secondary.name, is_cut=False)
        yield 2
        yield self._ended(self._repair(cast))

    def _split_brain(self, cast: Cast) -> Iterator[float | Until]:
        """Both sides of a pair write, then meet; a person repairs, and names no side to discard at first."""
        # In one moment: nobody has outdated the secondary yet.
        cast.primary.cut_link(cast.secondary.name, is_cut=True)
        yield self._ended(self._fail_over(cast, ignore_consistency=True))
        cast.primary.cut_link(cast.secondary.name, is_cut=False)
        yield self._chance.uniform(1, 4)
        yield self._ended(self._repair(cast))
        if self._chance.random() < 0.5:
            yield self._ended(self._repair(cast, discard=cast.primary.name))

    def _diskless(self, cast: Cast) -> Iterator[float | Until]:
        """The primary has lost its disk, then perhaps its peer, and the replica on the secondary is to be made anew."""
        cast.primary.lose_disk(cast.instance, is_lost=True)
        yield self._chance.uniform(1, 4)
        # DRBD does not let go of the only good replica while it is connected.
        if self._chance.random() < 0.7:
            cast.primary.cut_link(cast.secondary.name, is_cut=True)
        node = self._chance.choice((cast.secondary, cast.secondary, cast.secondary, cast.other))
        yield self._ended(self._replace(cast, node))

    def _paused_migration(self, cast: Cast) -> Iterator[float | Until]:
        """The target of a migration runs the guest and reboots; a person starts the instance."""
        cast.primary.fail_migrations("paused")
        yield self._ended(self._ask("migrate", "PUT", f"/2/instances/{cast.instance}/migrate", {}))
        cast.primary.fail_migrations("")
        yield self._ended(self._start(cast))
        end_paused((cast.primary, cast.secondary, cast.other), cast.instance)
        yield self._ended(self._ask("shutdown", "PUT", f"/2/instances/{cast.instance}/shutdown", {}))
        yield self._ended(self._start(cast))

    def _lost_migration(self, cast: Cast) -> Iterator[float | Until]:
        """A migration loses the guest; a person starts the instance."""
        cast.primary.fail_migrations("lost")
        yield self._ended(self._ask("migrate", "PUT", f"/2/instances/{cast.instance}/migrate", {}))
        cast.primary.fail_migrations("")
        yield self._ended(self._start(cast))

    def _written_alone(self, cast: Cast) -> Iterator[float | Until]:
        """A node that nobody hears loses its peer, writes on alone, and dies; a person fails its instance over."""
        cast.primary.silence(is_silent=True)
        yield self._chance.uniform(2, NOTICED)
        cast.primary.cut_replication(is_cut=True)
        yield self._chance.uniform(15, 25)
        cast.primary.lose_power()
        yield NOTICED
        yield self._ended(self._fail_over(cast))
        if not self._runs(cast, cast.secondary):
            yield self._ended(self._fail_over(cast, max_loss=self._chance.choice((1, 300))))
        yield self._chance.uniform(1, 10)

    def _panicked(self, cast: Cast) -> Iterator[float | Until]:
        """The kernel of a node panics, and its power stays on; a person fails its instance over."""
        cast.primary.panic()
        yield NOTICED
        yield self._ended(self._fail_over(cast))
        yield self._chance.uniform(1, 10)

    def _rack(self, cast: Cast) -> Iterator[float | Until]:
        """Two nodes and their BMCs are gone by one cause, and nobody knows whether they have power."""
        for node in (cast.primary, cast.other):
            node.set_faults([chassis.DEAD])
            node.lose_power()
        yield NOTICED
        yield self._ended(self._fail_over(cast))
        yield self._chance.uniform(5, 20)

    def _silent_target(self, cast: Cast) -> Iterator[float | Until]:
        """A node has been silent for long, and shall get a replica."""
        cast.other.silence(is_silent=True)
        yield self._chance.uniform(NOTICED, 2 * NOTICED)
        yield self._ended(self._replace(cast, cast.other))

    def _left_behind(self, cast: Cast) -> Iterator[float | Until]:
        """The node of the secondary is silent; the replica goes elsewhere, and the node comes back."""
        cast.secondary.silence(is_silent=True)
        yield self._chance.uniform(1, NOTICED)
        yield self._ended(self._replace(cast, cast.other))
        cast.secondary.silence(is_silent=False)
        yield self._chance.uniform(5, 15)

    @staticmethod
    def _runs(cast: Cast, node: world.LabNode) -> bool:
        return cast.instance in fake.Driver(node.root, opcode="").running()

    def _fail_over(self, cast: Cast, **body: object) -> int:
        return self._ask("failover", "PUT", f"/2/instances/{cast.instance}/failover", body)

    def _start(self, cast: Cast) -> int:
        return self._ask("startup", "PUT", f"/2/instances/{cast.instance}/startup", {})

    def _repair(self, cast: Cast, **body: object) -> int:
        return self._ask("repair disks", "PUT", f"/2/instances/{cast.instance}/repair-disks", body)

    def _replace(self, cast: Cast, node: world.LabNode) -> int:
        body = {"mode": "replace_new_secondary", "remote_node": node.name}
        return self._ask("replace disks", "POST", f"/2/instances/{cast.instance}/replace-disks", body)

    def _power_on(self, node: str) -> int:
        return self._ask("power on", "PUT", f"/2/nodes/{node}/power", {"command": "on"})

    def _role(self, node: str, role: str) -> int:
        return self._ask(role, "PUT", f"/2/nodes/{node}/role?force=1", role)

    def _ask(self, what: str, method: str, path: str, body: object = None) -> int:
        """Ask on the socket, which is the fastest door; returns the number of the job, 0 where there is none."""
        return self._doors.submit(what, method, path, body)

    def _begun(self, job: int) -> Until:
        return Until(lambda: self._status(job) not in {"queued", "waiting"}, BEGINS)

    def _heard(self, node: world.LabNode) -> Until:
        """The controller has heard from a node again."""

        def is_heard() -> bool:
            return any(one["name"] == node.name and not one["silent"] for one in self._doors.get("/1/nodes") or [])

        return Until(is_heard, 2 * BEGINS)

    def _ended(self, job: int) -> Until:
        return Until(lambda: self._status(job) in states.FINAL)

    def _status(self, job: int) -> str:
        """The status of a job; one that was refused has ended."""
        if not job:
            return "error"
        found = self._doors.get(f"/2/jobs/{job}")
        return str(found["status"]) if found is not None else ""


def end_copy(node: world.LabNode, instance: str) -> bool:
    """End what a node started by itself, for good; returns whether it ran."""
    node.autostart(instance, is_on=False)
    ran = node.user_shutdown(instance)
    _demote(node, f"{instance}-disk0")
    return ran


def _name(scene: Callable[..., object]) -> str:
    return scene.__name__.strip("_").replace("_", " ")


def _demote(node: world.LabNode, resource: str) -> None:
    """What the job that brings a node online tells a person to do; a guest that ended leaves DRBD's role as it was."""
    with contextlib.suppress(errors.RoundsmanError):
        simulated_programs.SimulatedPrograms(node.root).run("drbdadm", "secondary", resource)


def end_paused(nodes: Iterable[world.LabNode], instance: str) -> None:
    """Let a person end what a migration left paused, on every node, as a refused start or stop says."""
    for node in nodes:
        hypervisor = fake.Driver(node.root, opcode="by hand")
        if hypervisor.states().get(instance, "running") != "running":
            with contextlib.suppress(errors.Failed):  # the node has no power
                hypervisor.stop(instance, time_limit=0, only_here=True)
