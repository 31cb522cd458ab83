"""The stage: which scene is played when, and by whom.

The scenes are a shuffled deck: each comes round before one comes again. Two are played at the same time, by instances
whose nodes have nothing in common. One begins only in calm: its nodes are well, its
pair is in sync, and no job is about it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab import standing_faults
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_replica, simulated_store
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.chaos.faults import MASTER
from tests.chaos.scenes import Cast, Scenes, Until
from tests.integration import states

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from ansible_collections.roundsman.cluster.daemon.lab import world

    from tests.chaos.chronicle import Chronicle
    from tests.chaos.doors import Doors
    from tests.chaos.faults import Faults
    from tests.integration import labs

MOST = 2
"""Scenes that are played at the same time."""
LOOK = 2.0
"""Seconds between two looks for a cast."""
CALM = 4.0
"""Seconds for which a cast has to be calm: every node was polled meanwhile."""


@dataclass
class Act:
    """A scene at work, when its next step is due, and what it waits for until then."""

    name: str
    cast: Cast
    steps: Iterator[float | Until]
    due: float
    waits: Until | None = None


class Stage:
    """The scenes of a lab that are played, from one deck."""

    def __init__(
        self,
        lab: labs.Running,
        doors: Doors,
        faults: Faults,
        chance: random.Random,
        chronicle: Chronicle,
        *,
        only: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lab, self._doors, self._faults = lab, doors, faults
        self._chance, self._chronicle, self._clock = chance, chronicle, clock
        scenes = Scenes(doors, chance).all
        self._scenes = {only: scenes[only]} if only else scenes
        self._deck: list[str] = []
        self._acts: list[Act] = []
        self._looked = -LOOK
        self._calm_since: dict[str, float] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no scene is played."""
        return not self._acts

    def begin(self) -> None:
        """Begin the next scene of the deck, if somebody can play it."""
        now = self._clock()
        if len(self._acts) >= MOST or now - self._looked < LOOK:
            return
        self._looked = now
        cast = self._cast(now)
        if cast is None:
            return
        if not self._deck:
            self._deck = sorted(self._scenes)
            self._chance.shuffle(self._deck)
        name = self._deck.pop()
        self._acts.append(Act(name, cast, self._scenes[name](cast), now))
        self._reserve()
        self._chronicle.count("scenes", name, f"{cast.instance} on {cast.primary.name} and {cast.secondary.name}")

    def tend(self) -> None:
        """Go on with the scenes at work."""
        for act in list(self._acts):
            self._go_on(act)

    def end(self) -> None:
        """End the scenes at work, and their faults."""
        for act in list(self._acts):
            self._end(act)

    def _go_on(self, act: Act) -> None:
        now = self._clock()
        if now < act.due and not (act.waits is not None and act.waits.is_so()):
            return
        try:
            step = next(act.steps)
        # A request or a fault has changed what it needs.
        except (StopIteration, errors.Failed):
            self._end(act)
            return
        act.waits = step if isinstance(step, Until) else None
        act.due = self._clock() + (step.seconds if isinstance(step, Until) else step)

    def _end(self, act: Act) -> None:
        self._acts.remove(act)
        self._reserve()
        for node in act.cast.nodes:
            standing_faults.fix(node)
            node.set_faults([])
        self._chronicle.note(f"scene ends: {act.name} of {act.cast.instance}")

    def _reserve(self) -> None:
        self._faults.reserved = frozenset(name for act in self._acts for name in act.cast.names)

    def _cast(self, now: float) -> Cast | None:
        """An instance that has been calm for a while, with its nodes and one that has no replica of it."""
        calm = {cast.instance: cast for cast in self._casts()}
        self._calm_since = {name: self._calm_since.get(name, now) for name in calm}
        ready = sorted(name for name, since in self._calm_since.items() if now - since >= CALM)
        return calm[self._chance.choice(ready)] if ready else None

    def _casts(self) -> Iterator[Cast]:
        cluster, jobs = self._lab.cluster(), self._doors.get("/1/jobs")
        if jobs is None:
            return
        busy = {uuid for job in jobs if job["status"] not in states.FINAL for uuid in job["names"]}
        broken = {MASTER, *self._faults.reserved, *(fault.node for fault in self._faults.standing)}
        free = {
            node.name: node.group
            for uuid, node in cluster.nodes.items()
            if node.name not in broken and uuid not in busy and node.powered and not node.offline and not node.drained
        }
        for one in cluster.instances.values():
            pair = [cluster.node_name(uuid) for uuid in one.nodes]
            # A replica stays within its node group.
            others = sorted(name for name in free.keys() - set(pair) if free[name] == free.get(pair[0]))
            is_fit = one.is_up and one.parted is None and one.uuid not in busy
            if len(pair) == 2 and set(pair) <= free.keys() and others and is_fit:
                nodes = [self._lab.lab.node(name) for name in (*pair, self._chance.choice(others))]
                cast = Cast(one.name, *nodes)
                if _is_well(cast):
                    yield cast


def _is_well(cast: Cast) -> bool:
    runs = cast.instance in fake.Driver(cast.primary.root, opcode="").running()
    return (
        runs
        and all(node.answers() and not standing_faults.standing(node) for node in cast.nodes)
        and is_in_sync(cast.instance, cast.primary)
    )


def is_in_sync(instance: str, primary: world.LabNode) -> bool:
    """Whether the replicas of an instance that runs on a node are connected and up to date."""
    with simulated_store.opened(primary.root.resolve().parent) as store:
        names = [name for name in store.resources(instance) if name in store.names(primary.name)]
        devices = [store.pair(primary.name, name).sides[0].device for name in names]
    return bool(devices) and all(
        device is not None
        and device.connection == simulated_replica.CONNECTED
        and device.disk == device.peer_disk == simulated_replica.UP_TO_DATE
        for device in devices
    )
