"""Rounds that begin beside each other: the jobs of all of them run at once, and each rule is watched."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import holdings, overtaken, rounds, unfinished

from . import worlds

if TYPE_CHECKING:
    import random

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import work


@dataclasses.dataclass
class Submitted:
    """A job in the queue: how many of its opcodes have ended, and whether the next one runs."""

    job: work.Job
    after: frozenset[int]
    behind: frozenset[int]
    step: int = 0
    runs: bool = False
    ended: str = ""

    @property
    def left(self) -> tuple[work.Opcode, ...]:
        return self.job.opcodes[self.step :]


class Story(worlds.World):
    """A world whose jobs have numbers; some may end while others are planned."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        super().__init__(cluster)
        self.queue: dict[int, Submitted] = {}

    def plan(self, *, incidents: frozenset[str]) -> rounds.RoundPlan:
        """What a round does for the first time for these incidents, or again for those that have no unfinished jobs."""
        open_ = tuple(each for each in self.cluster.maintenance.incidents if each.uuid in incidents)
        maintenance = dataclasses.replace(self.cluster.maintenance, incidents=open_)
        cluster = dataclasses.replace(self.cluster, maintenance=maintenance)
        self._take_back(cluster)
        at_work = {each.uuid: any(one.job.incident == each.uuid for one in self._open()) for each in open_}
        plan = rounds.plan(cluster, at_work=at_work, jobs=self.unfinished())
        numbers = {job.key: len(self.queue) + place for place, job in enumerate(plan.jobs, start=1)}
        for job in plan.jobs:
            behind = frozenset({*(numbers[key] for key in job.behind), *job.earlier})
            assert set(job.earlier) <= set(self.queue)
            self.queue[numbers[job.key]] = Submitted(job, frozenset(numbers[key] for key in job.after), behind)
        return plan

    def unfinished(self) -> list[unfinished.Job]:
        """The jobs that hold instances, as rounds are told of them."""
        found = []
        for number, entry in self.queue.items():
            held = tuple(opcode for opcode in entry.left if opcode.kind in unfinished.KINDS)
            if held and not entry.ended:
                depends = tuple(sorted(entry.after | entry.behind))
                found.append(unfinished.Job(number, held, depends, entry.job.incident, is_running=entry.runs))
        return found

    def lose(self, node: str) -> None:
        """A node is off from now on: what runs there, or reads from there, fails."""
        lost = dataclasses.replace(
            self.cluster.nodes[node], powered=False, off_since=1.0, ndparams={"oob_program": "/oob"}
        )
        self.cluster = clusters.with_node(self.cluster, lost)
        for entry in self._open():
            if entry.runs and "instance" in entry.left[0].params and node in self._nodes(entry):
                self._undo(entry.left[0])
                entry.ended = "failed"

    def advance(self, *, luck: random.Random, steps: int | None = None) -> None:
        """Start and end opcodes in a random order that dependencies allow, so many or until all have ended."""
        while steps is None or steps > 0:
            self._cancel_dependants()
            waiting = [entry for entry in self._open() if self._may_go_on(entry)]
            if not waiting:
                assert not self._open(), "every job ends"
                return
            self._go_on(luck.choice(waiting))
            steps = None if steps is None else steps - 1

    def _open(self) -> list[Submitted]:
        return [entry for entry in self.queue.values() if not entry.ended]

    def _may_go_on(self, entry: Submitted) -> bool:
        before = [self.queue[number].ended for number in entry.after | entry.behind]
        return bool(entry.step or entry.runs) or all(before)

    def _cancel_dependants(self) -> None:
        for entry in self.queue.values():
            has_begun = entry.runs or entry.step
            if not entry.ended and not has_begun:
                bad = any(self.queue[number].ended in {"failed", "canceled"} for number in entry.after)
                entry.ended = "canceled" if bad else ""

    def _take_back(self, cluster: clusters.Cluster) -> None:
        for number in overtaken.reasons(cluster, self.unfinished()):
            entry = self.queue[number]
            if entry.runs:
                entry.job = dataclasses.replace(entry.job, opcodes=entry.job.opcodes[: entry.step + 1])
            else:
                entry.ended = "canceled"
        self._cancel_dependants()
        assert not overtaken.reasons(cluster, self.unfinished())

    def _go_on(self, entry: Submitted) -> None:
        if entry.runs:
            self._end(entry.left[0])
            entry.runs, entry.step = False, entry.step + 1
            entry.ended = "" if entry.left else "done"
            return
        if "instance" in entry.left[0].params:
            self._look_at_slots(entry)
        elif entry.left[0].params.get("offline") and any(
            entry.left[0].params["node"] in one.nodes for one in self.cluster.instances.values()
        ):
            entry.ended = "done"  # Nothing is done to a node that holds instances again.
            return
        self._start(entry.left[0])
        entry.runs = True

    def _look_at_slots(self, entry: Submitted) -> None:
        limit = self.cluster.maintenance.settings.moves_per_node
        moving = [one for one in self._open() if one.runs and "instance" in one.left[0].params and one is not entry]
        assert all(one.left[0].params["instance"] != entry.left[0].params["instance"] for one in moving)
        alike = [one for one in moving if self._is_urgent(one) == self._is_urgent(entry)]
        for node in self._nodes(entry):
            assert sum(node in self._nodes(one) for one in alike) + 1 <= limit

    def _is_urgent(self, entry: Submitted) -> bool:
        return worlds.is_urgent(dataclasses.replace(entry.job, opcodes=entry.left), self.cluster)

    def _nodes(self, entry: Submitted) -> set[str]:
        return worlds.nodes_of(dataclasses.replace(entry.job, opcodes=entry.left), self.cluster)

    def _undo(self, opcode: work.Opcode) -> None:
        instance = self.cluster.instances[str(opcode.params["instance"])]
        if opcode.kind == "replace_disks":
            self.disk[str(opcode.params["new"])] += holdings.disk_per_copy(instance)
        else:
            self.memory[str(opcode.params["target"])] += holdings.memory_in_use(instance)
            self._arriving[str(opcode.params["target"])].remove(instance)
