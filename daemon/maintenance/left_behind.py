"""Replicas that were left behind, or never finished: a job removes each once its node answers.

One that a rule keeps is asked for again only when a report or the configuration says something new of it. A node that
answers may hang all the same, so few are removed at a time.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.plugin_utils import replica_evidence
from ...plugins.plugin_utils.cluster import changes, left_replicas
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.opcodes import left_replica
from ..failures import Failures
from ..jobs import submission, values
from . import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from ..configuration import Configuration
    from ..jobs.queue import Queue
    from .reports import Intake

RETRY, LONGEST_RETRY = 300.0, 3600.0
"""Seconds after which a removal is tried again on a node where one failed: doubled with each failure, up to an hour."""
MOST_JOBS = 2
"""How many replicas are removed at the same time, and one on each node: a node that hangs holds one slot."""
PRIORITY = 10

Key = tuple[str, str]
"""The UUIDs of the instance and of the node."""


@dataclass(frozen=True)
class Tried:
    """The last job about a replica, when its end was seen by the monotonic clock, and what was known when it began."""

    job: int
    known: tuple[Any, ...]
    ended: float = math.inf
    is_kept: bool = False


@dataclass(frozen=True)
class Failed:
    """How many removals on a node have failed in a row, and when the last one did, by the monotonic clock."""

    times: int
    at: float


class LeftBehind(parts.Part):
    """Submits the jobs; `step` is called after each poll, report, job and change of the configuration."""

    name = "left-behind replicas"
    retried = "after the next poll or job"

    def __init__(
        self,
        configuration: Configuration,
        queue: Queue,
        intake: Intake,
        *,
        alive: Callable[[], Collection[str]],
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
        failures: Failures | None = None,
    ) -> None:
        super().__init__(failures or Failures())
        self._configuration = configuration
        self._queue = queue
        self._intake = intake
        self._alive = alive
        self._clock = clock
        self._monotonic = monotonic
        self._tried: dict[Key, Tried] = {}
        self._failed: dict[str, Failed] = {}

    async def step(self) -> None:
        """Submit a job for replicas whose node is back; drop what is no longer left behind."""
        if _in_use(self._configuration.current):
            await self._configuration.commit(_in_use)
        self._take_ends()
        cluster = self._configuration.current
        known = {_key(left): left for left in cluster.maintenance.left_behind}
        self._tried = {key: tried for key, tried in self._tried.items() if key in known or tried.ended == math.inf}
        # A node that went out of service may have been repaired.
        self._failed = {uuid: failed for uuid, failed in self._failed.items() if _is_in_service(cluster, uuid)}
        if not known:
            return
        at_work = self._queue.unfinished_opcodes()
        # The least recently tried is next, so that those of a node do not wait for the retries of one.
        for left in sorted(known.values(), key=self._last):
            if self._configuration.current.maintenance.is_held or self._queue.drained:
                return
            if _has_room(left, at_work) and self._is_back(cluster, left) and self._is_due(cluster, left):
                at_work.append(await self._submit(cluster, left))

    def _take_ends(self) -> None:
        """Note how the jobs ended: a node counts its failures until a removal there succeeds or is kept by a rule."""
        now = self._monotonic()
        for key, tried in self._tried.items():
            if tried.ended < math.inf or self._queue.unfinished([tried.job]):
                continue
            job = self._queue.jobs.get(tried.job)
            is_kept = job is not None and job.opcodes[0].result == left_replica.KEPT
            self._tried[key] = dataclasses.replace(tried, ended=now, is_kept=is_kept)
            failed = self._failed.pop(key[1], Failed(0, now))
            if job is not None and job.status is not values.Status.SUCCESS and not is_kept:
                self._failed[key[1]] = Failed(failed.times + 1, now)

    def _last(self, left: clusters.LeftBehind) -> float:
        tried = self._tried.get(_key(left))
        return -math.inf if tried is None else tried.ended

    def _is_back(self, cluster: clusters.Cluster, left: clusters.LeftBehind) -> bool:
        """Whether the node is in service and has answered since the replica was left there."""
        heard = self._intake.diagnosed.get(left.node)
        has_answered = left.node in self._alive() or (heard is not None and heard.accepted > left.since)
        return has_answered and _is_in_service(cluster, left.node)

    def _is_due(self, cluster: clusters.Cluster, left: clusters.LeftBehind) -> bool:
        """Whether none just failed on the node, and it is not kept by a rule while nothing is new."""
        now, failed, tried = self._monotonic(), self._failed.get(left.node), self._tried.get(_key(left))
        if failed is not None and now - failed.at < parts.pause(RETRY, times=failed.times, most=LONGEST_RETRY):
            return False
        if tried is None:
            return True
        if now - tried.ended < RETRY:
            return False
        return not tried.is_kept or tried.known != self._known(cluster, left)

    def _known(self, cluster: clusters.Cluster, left: clusters.LeftBehind) -> tuple[Any, ...]:
        """What the configuration and the newest reports say of the replica and of those that are in use."""
        instance = cluster.instances.get(left.instance.uuid)
        nodes = instance.nodes if instance is not None else ()
        facts = replica_evidence.newest(self._intake.tracks, (left.node, *nodes), left.instance)
        return nodes, instance is not None and instance.parted, facts

    async def _submit(self, cluster: clusters.Cluster, left: clusters.LeftBehind) -> values.Opcode:
        name, node = left.instance.name, cluster.node_name(left.node)
        opcode = values.Opcode("remove_replica", {"instance": left.instance.uuid, "node": left.node}, PRIORITY)
        now = self._clock()
        text = (
            f"replace-disks of {name} has ended early: its new replica on {node} is removed unless it is in use"
            if left.is_new
            else f"{node} answers again: the replica that {name} left there is removed"
        )
        job = values.Job(
            id=0,
            opcodes=(opcode,),
            reason=(values.Reason(submission.ROUNDS, text, int(now * 1e9)),),
            received=now,
            names={left.instance.uuid: name, left.node: node},
        )
        (submitted,) = await self._queue.submit([job])
        self._tried[_key(left)] = Tried(submitted.id, self._known(cluster, left))
        return opcode


def _in_use(cluster: clusters.Cluster) -> list[changes.Change]:
    """The entries whose node has a replica of the instance again, dropped; an imported backup may hold such."""
    found: list[changes.Change] = []
    for left in cluster.maintenance.left_behind:
        instance = cluster.instances.get(left.instance.uuid)
        if instance is not None and left.node in instance.nodes:
            found.append(left_replicas.ReplicaLeft(left.instance.uuid, left.node, present=False))
    return found


def _has_room(left: clusters.LeftBehind, at_work: Iterable[values.Opcode]) -> bool:
    """Whether few removals are at work, none on the node, and no opcode that the removal would only wait for."""
    removals = [opcode for opcode in at_work if opcode.kind == "remove_replica"]
    return (
        len(removals) < MOST_JOBS
        and all(removal.params.get("node") != left.node for removal in removals)
        and all(opcode.params.get("instance") != left.instance.uuid for opcode in at_work)
    )


def _key(left: clusters.LeftBehind) -> Key:
    return left.instance.uuid, left.node


def _is_in_service(cluster: clusters.Cluster, uuid: str) -> bool:
    node = cluster.nodes.get(uuid)
    return node is not None and clusters.reachable(cluster, node)
