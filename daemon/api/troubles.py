"""What is not in order, with what a person does about it: the first lines of `roundsman status`, the page, `explain`.

Each trouble has a code that stays as it is (docs/operating.md). An instance that a job is at work on is no trouble yet:
the job may be what ends it. A job that has not begun is named, and hides nothing. For a node that a job is at work on
the step is to wait for the job.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.agent import copies as agents
from ...plugins.plugin_utils import out_of_sync, split_brains
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.cluster import incidents
from ...plugins.plugin_utils.silent_nodes import dead_nodes
from . import at_work, replica_views, unheard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..jobs.queue import Queue
    from ..maintenance.reports import Intake
    from .snapshots import Snapshot


class Code(Enum):
    """What kinds of trouble there are, the most urgent first."""

    INSTANCE_DOWN = "instance-down"
    SPLIT_BRAIN = "split-brain"
    MIGRATION_UNFINISHED = "migration-unfinished"
    NODE_SILENT = "node-silent"
    NODE_OFF = "node-off"
    DISK_FAILED = "disk-failed"
    DEGRADED = "degraded"
    REPORTS_REJECTED = unheard.REJECTED
    NO_REPORT = unheard.NO_REPORT
    INCIDENT_FAILED = "incident-failed"
    COPY_OLD = "copy-old"


URGENCY = {code.value: place for place, code in enumerate(Code)}


@dataclass(frozen=True)
class Trouble:
    """One thing that is not in order: the instance or node (name) that it is about, and the nodes (names) it shows on.

    `step` is what a person does, without a full stop; '' where Roundsman acts by itself.
    """

    code: str
    subject: str
    nodes: tuple[str, ...]
    text: str
    step: str


def found(
    seen: Snapshot,
    intake: Intake,
    queue: Queue,
    *,
    verdicts: Mapping[str, dead_nodes.Verdict],
    copies: Sequence[Mapping[str, Any]] = (),
) -> list[Trouble]:
    """All troubles, the most urgent first; `verdicts` are about silent nodes (UUIDs), `copies` are `Copying.listed`.

    The cost is O(nodes + instances).
    """
    cluster = seen.cluster
    if cluster.maintenance.epo is not None:
        return []
    busy, working = replica_views.in_jobs(queue), at_work.by_object(queue)
    of_instances = [
        *_down(seen, intake, busy),
        *_unfinished(cluster, intake, queue),
        *_failed_disks(seen, intake, busy),
        *_degraded(cluster, intake, busy),
    ]
    all_found = [
        *_unless_queued(of_instances, cluster, queue),
        *_nodes(seen, intake, verdicts, working),
        *_failed_incidents(cluster, working),
        *_old_copies(copies),
    ]
    return sorted(all_found, key=lambda trouble: (URGENCY[trouble.code], clusters.natural(trouble.subject)))


def _down(seen: Snapshot, intake: Intake, busy: set[str]) -> Iterator[Trouble]:
    for name, node in replica_views.all_down(seen, intake, busy=busy).items():
        text = f"{name} should run on {node}, and is down"
        yield Trouble(Code.INSTANCE_DOWN.value, name, (node,), text, f"start it: `roundsman instance start {name}`")


def _unfinished(cluster: clusters.Cluster, intake: Intake, queue: Queue) -> Iterator[Trouble]:
    for entry in replica_views.all_moving(cluster, intake, queue):
        places = cluster.instance(entry["instance"]).places
        nodes = tuple(cluster.node_name(uuid) for uuid in places)
        yield Trouble(Code.MIGRATION_UNFINISHED.value, entry["instance"], nodes, entry["text"], entry["step"])


def _nodes(
    seen: Snapshot, intake: Intake, verdicts: Mapping[str, dead_nodes.Verdict], working: Mapping[str, int]
) -> Iterator[Trouble]:
    cluster = seen.cluster
    for node in cluster.nodes.values():
        is_asked, why = clusters.reachable(cluster, node), unheard.find(cluster, node, intake)
        verdict = verdicts.get(node.uuid)
        is_judged = verdict is not None and bool(verdict.reason)
        if why is not None and not is_judged:
            trouble = Trouble(why.code, node.name, (node.name,), why.text, why.step)
            yield _unless_at_work(trouble, [working[node.uuid]] if node.uuid in working else [])
            continue
        if is_asked and not intake.is_silent(node.uuid):
            continue
        hangs, primaries = replica_views.hangs(node, intake), seen.holdings.primaries(node.uuid)
        found = dead_nodes.by_hand(cluster, node, primaries=primaries, hangs=hangs)
        jobs = sorted({working[uuid] for uuid in (node.uuid, *(held.uuid for held in primaries)) if uuid in working})
        if is_asked:
            yield _unless_at_work(_silent(cluster, node, found, verdict, hangs=hangs), jobs)
        elif found is not None:
            trouble = Trouble(Code.NODE_OFF.value, node.name, (node.name,), found.what, found.step)
            yield _unless_at_work(trouble, jobs)


def _unless_queued(found: list[Trouble], cluster: clusters.Cluster, queue: Queue) -> Iterator[Trouble]:
    """Troubles of instances; where a job is about one and has not begun, the step is to see why."""
    jobs = sorted(queue.jobs.items(), reverse=True) if found else []
    queued = {uuid: number for number, job in jobs if not job.has_begun and not job.is_final for uuid in job.names}
    names = {cluster.instances[uuid].name: number for uuid, number in queued.items() if uuid in cluster.instances}
    for trouble in found:
        if number := names.get(trouble.subject):
            how = f"`roundsman jobs info {number}`, `roundsman locks list` and `roundsman filter list`"
            step = f"job {number} is about it and has not begun: see what it waits for with {how}"
            yield dataclasses.replace(trouble, step=step)
        else:
            yield trouble


def _unless_at_work(trouble: Trouble, jobs: Sequence[int]) -> Trouble:
    """The trouble without its own step where jobs are at work on its subject: a person waits for the first of them."""
    if not jobs:
        return trouble
    return dataclasses.replace(trouble, step=f"wait, job {jobs[0]} is at it: `roundsman jobs watch {jobs[0]}`")


def _silent(
    cluster: clusters.Cluster,
    node: clusters.Node,
    found: dead_nodes.ByHand | None,
    verdict: dead_nodes.Verdict | None,
    *,
    hangs: bool,
) -> Trouble:
    if verdict is not None and verdict.reason:
        text, step = verdict.reason, verdict.unblock
    else:
        what = found.what if found is not None else f"{node.name} does not answer"
        text = f"{what}{_left_alone(cluster)}"
        first = f"see on its console what hangs on {node.name}" if hangs else f"restore the network link of {node.name}"
        step = found.step if found is not None else first
    return Trouble(Code.NODE_SILENT.value, node.name, (node.name,), text, step)


def _left_alone(cluster: clusters.Cluster) -> str:
    """That nothing is done about silent nodes, by which setting; or ''."""
    settings = cluster.maintenance.settings
    if not settings.dead_after:
        return "; Roundsman does nothing about it, because `dead_after` is 0"
    if settings.dead_node_policy == "none":
        return "; Roundsman does nothing about it, because `dead_node_policy` is none"
    return ""


def _failed_disks(seen: Snapshot, intake: Intake, busy: set[str]) -> Iterator[Trouble]:
    for entry in replica_views.all_failed_disks(seen, intake):
        if entry.instance.uuid not in busy:
            name = entry.instance.name
            yield Trouble(Code.DISK_FAILED.value, name, (entry.node,), entry.text, entry.step)


def _degraded(cluster: clusters.Cluster, intake: Intake, busy: set[str]) -> Iterator[Trouble]:
    for instance in cluster.instances.values():
        if instance.parted is None or instance.uuid in busy:
            continue
        nodes = tuple(cluster.node_name(uuid) for uuid in instance.nodes)
        if split := split_brains.text(instance, split_brains.sides(cluster, instance, intake.tracks)):
            yield Trouble(Code.SPLIT_BRAIN.value, instance.name, nodes, split, "choose whose writes are discarded")
            continue
        text, step = out_of_sync.parted_text(cluster, instance), out_of_sync.parted_step(cluster, instance)
        yield Trouble(Code.DEGRADED.value, instance.name, nodes, text, step)


def _failed_incidents(cluster: clusters.Cluster, working: Mapping[str, int]) -> Iterator[Trouble]:
    for incident in cluster.maintenance.incidents:
        node = cluster.nodes.get(incident.node)
        if incident.repair_status is not incidents.RepairStatus.FAILED or node is None or incident.tag not in node.tags:
            continue
        why = f": {incident.reason}" if incident.reason else ""
        text = f"what {node.name} asked for ({incident.action.value}) has failed{why}"
        step = f"see why with `roundsman explain {node.name}`, fix that, then retry with {incident.acknowledgement}"
        trouble = Trouble(Code.INCIDENT_FAILED.value, node.name, (node.name,), text, step)
        yield _unless_at_work(trouble, [working[node.uuid]] if node.uuid in working else [])


def _old_copies(copies: Sequence[Mapping[str, Any]]) -> Iterator[Trouble]:
    """The copies of the configuration that are not the newest; the health of their nodes is another matter.

    A node that is off can get none, and is not missed while another one gets them.
    """
    has_one = any(
        entry["problem"] is None and entry["serial_no"] is not None and not entry["is_off"] for entry in copies
    )
    for entry in copies:
        if entry["problem"] is None or (entry["is_off"] and has_one):
            continue
        node, kept = entry["node"], "no copy of the configuration is known to be on"
        if entry["serial_no"] is not None:
            kept = f"version {entry['serial_no']} is the last copy of the configuration on"
        text = f"{kept} {node}: {entry['problem']}"
        step = (
            f"make the agent of {node} answer, or take it out of `configuration_copies` in roundsmand.json and remove "
            f"/{agents.FILE} there"
        )
        if entry["is_off"]:
            text = f"{kept} {node}, which is off"
            step = (
                f"power it on with `roundsman node power on {node}`, or name another node in `configuration_copies` in "
                "roundsmand.json"
            )
        yield Trouble(Code.COPY_OLD.value, node, (), text, step)
