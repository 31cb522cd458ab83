"""What is wrong in a lab, proved from outside: from the nodes' journals and files, never from what the daemon says.

The journals prove what happened to instances and their replicas (`journals.py`). The controller's configuration, jobs
and lock table are what that is compared with; `explain` is asked only whether a person is told the reason.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import tree
from ...plugins.plugin_utils import livelocks, sealed_json
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.cluster import incidents, left_replicas
from ...plugins.plugin_utils.config import store
from ..jobs import store as job_store
from ..jobs import values
from . import journals, losses, neglects, opcode_rules, outages, power_offs, sightings
from . import orders as ordering
from .simulator import fake, simulated, simulated_world

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from . import world

    Explain = Callable[[str], Mapping[str, Any]]

LOCKS_WRITTEN = 5.0
"""Seconds after the end of a job within which its locks are off the disk: a thread writes that."""
EXPECTED = {"migrate": ("handed over", "received"), "replace_disks": ("replica created", "replica removed")}
EXPLAINING = ("silent", "epo", "incidents", "refusals", "planned", "failing", "by_hand", "unheard", "failovers")
"""The fields of an explanation of which each alone says why something is not as it should be, or what to do."""
EXPLAINING_INCIDENTS = frozenset(EXPLAINING) - {"incidents", "by_hand", "unheard", "failovers"}
FAILED = frozenset({values.Status.ERROR, values.Status.CANCELED})


@dataclass(frozen=True)
class _Case:
    """What is judged: the simulated world, and what the controller's files say of it."""

    lab: world.Lab
    where: tree.Tree
    cluster: clusters.Cluster
    jobs: Mapping[int, values.Job]
    events: list[journals.Event]
    orders: ordering.Orders
    seen: sightings.Sightings
    policy: outages.Policy
    now: int
    explain: Explain | None

    @functools.cached_property
    def silent(self) -> set[str]:
        """The nodes that nobody reaches."""
        return {node.name for node in self.lab.nodes() if not node.answers()}


def check(lab: world.Lab, *, explain: Explain | None = None) -> list[str]:
    """Everything that is wrong in a lab at rest, one sentence each; an empty list is the proof.

    `explain` gives what `roundsman explain` prints of a node; without it open incidents are not asked for a reason.
    """
    case = _read(lab, journals.read(lab), explain, now=time.monotonic_ns())
    return [
        *_history(case),
        *_instances(case),
        *_files(case),
        *_opcodes(case),
        *_repairs(case),
        *_tags(case.cluster),
        *_incidents(case.cluster),
        *_unexplained(case),
        *_locks(case),
    ]


def lost(lab: world.Lab) -> list[losses.Lost]:
    """Every acknowledged write that is gone in a lab, allowed or not."""
    case = _read(lab, journals.read(lab), None, now=time.monotonic_ns())
    return losses.lost(case.events, case.orders, case.seen, case.policy.limits)


def check_journals(lab: world.Lab) -> list[str]:
    """What is wrong by the nodes' journals up to a moment ago, in a lab that may be at work."""
    # Events first: an opcode is in the queue before it does anything.
    now = time.monotonic_ns() - int(journals.UNSETTLED * 1e9)
    return _history(_read(lab, journals.read(lab, until=now), None, now=now))


def _read(lab: world.Lab, events: list[journals.Event], explain: Explain | None, *, now: int) -> _Case:
    where = tree.Tree(lab.controller)
    cluster = store.read(where.config)
    known = jobs(lab)
    names = {uuid: entry.name for kind in (cluster.nodes, cluster.instances) for uuid, entry in kind.items()}
    orders = ordering.orders(known.values(), names, audit_log=_audit_log(lab))
    seen = sightings.read(events, cluster.maintenance.settings, nodes=len(cluster.nodes))
    return _Case(lab, where, cluster, known, events, orders, seen, _policy(cluster), now, explain)


def _policy(cluster: clusters.Cluster) -> outages.Policy:
    limits = {
        instance.name: next(
            (float(limit) for limit in _limits(cluster, instance) if limit is not None), losses.MAX_LOSS
        )
        for instance in cluster.instances.values()
    }
    maintenance = cluster.maintenance
    return outages.Policy(maintenance.settings, limits, is_held=maintenance.epo is not None)


def _limits(cluster: clusters.Cluster, instance: clusters.Instance) -> tuple[int | None, int | None]:
    """The `failover_max_loss` of an instance's group and of the cluster: the first one that is set counts."""
    group = cluster.nodegroups[cluster.node(instance.primary_node).group]
    return group.failover_max_loss, cluster.cluster.failover_max_loss


def _wanted(cluster: clusters.Cluster) -> list[str]:
    """The instances that have to run."""
    return [instance.name for instance in cluster.instances.values() if instance.is_up]


def _audit_log(lab: world.Lab) -> str:
    """The lines of the audit logs of all controllers; a copy of a controller begins with those of the original."""
    lines: dict[str, None] = {}
    for root in lab.controllers:
        with contextlib.suppress(FileNotFoundError):
            lines.update(dict.fromkeys(tree.Tree(root).audit_log.read_text(errors="replace").splitlines()))
    # Those of one moment stay in order.
    ordered = sorted(lines, key=lambda line: line[: ordering.TIME]) if len(lab.controllers) > 1 else lines
    return "\n".join(ordered)


def jobs(lab: world.Lab) -> dict[int, values.Job]:
    """The jobs of the queues and of their archives; of a job that several controllers have the one that did most."""
    found: dict[int, values.Job] = {}
    for root in lab.controllers:
        kept = job_store.Store(tree.Tree(root).queue)
        queued = kept.load()
        # Read last: a job moves from the queue to the archive.
        archived = kept.newest_archived(kept.highest_id())
        for job in [*queued.values(), *archived]:
            found[job.id] = max(found.get(job.id, job), job, key=_done)
    return found


def _done(job: values.Job) -> tuple[int, int, bool]:
    """How much of a job is done: a copy of a controller has the jobs that the original had then."""
    succeeded = sum(opcode.status is values.Status.SUCCESS for opcode in job.opcodes)
    return succeeded, sum(bool(opcode.started) for opcode in job.opcodes), job.is_final


def _history(case: _Case) -> list[str]:
    return [
        *journals.running(case.events)[1],
        *losses.writes(case.events, case.orders, case.seen, case.policy.limits),
        *outages.wrong(case.events, case.orders, case.seen, case.policy, now=case.now, wanted=_wanted(case.cluster)),
        *power_offs.wrong(case.events, case.orders, case.seen),
        *opcode_rules.repeated(case.events, case.orders),
        *opcode_rules.returned(case.events, case.orders),
        *journals.resumed(case.events),
        *neglects.never_outdated(case.orders, case.seen, pairs=_pairs(case.cluster), now=case.now),
        *neglects.silent_targets(case.events, case.orders, case.seen),
    ]


def _pairs(cluster: clusters.Cluster) -> dict[str, tuple[str, str]]:
    """The primary and the secondary of each instance that has both, on nodes that are in service."""
    pairs = {}
    for instance in cluster.instances.values():
        nodes = [cluster.nodes[uuid] for uuid in instance.nodes if uuid in cluster.nodes]
        if len(nodes) == len(instance.nodes) == 2 and all(clusters.reachable(cluster, node) for node in nodes):  # noqa: PLR2004
            pairs[instance.name] = nodes[0].name, nodes[1].name
    return pairs


def _instances(case: _Case) -> list[str]:
    """Instances that do not run where the configuration says, though nothing tells a person why."""
    runs, _ = journals.running(case.events)
    wrong: list[str] = []
    for instance in case.cluster.instances.values():
        expected = _expected(case, instance)
        running = runs.get(instance.name, set())
        if running != expected and (running or not _is_explained(case, instance)):
            wrong.append(f"{instance.name} runs on {sorted(running)}, and the configuration says {sorted(expected)}")
    known = {instance.name for instance in case.cluster.instances.values()}
    return wrong + [
        f"{name} runs on {sorted(runs[name])}, and is not in the configuration"
        for name in sorted(runs.keys() - known)
        if runs[name]
    ]


def _expected(case: _Case, instance: clusters.Instance) -> set[str]:
    return {case.cluster.node_name(instance.primary_node)} if instance.is_up else set()


def _is_explained(case: _Case, instance: clusters.Instance) -> bool:
    """Whether a person is told why an instance is down: its node is not there, or a job failed at it afterwards."""
    node = case.cluster.node(instance.primary_node)
    if not clusters.reachable(case.cluster, node):
        return True
    if case.explain is not None and node.name in case.silent and _says_why(case.explain(node.name)):
        return True
    moves = (event for event in reversed(case.events) if event["event"] in fake.ARRIVALS | fake.DEPARTURES)
    last = next((event for event in moves if event["instance"] == instance.name), None)
    since = case.orders.at(last) if last is not None else 0.0
    return any(
        opcode.text and opcode.status in FAILED and opcode.ended >= since
        for opcode in case.orders.opcodes.values()
        if opcode.params.get("instance") == instance.uuid
    )


def _says_why(told: Mapping[str, Any]) -> bool:
    """Whether a node's explanation has a reason, a step or a verdict; that it did not answer once is none of them."""
    return any(told.get(field) for field in EXPLAINING)


def _unexplained(case: _Case) -> list[str]:
    """Open incidents of which nobody is told what they wait for."""
    maintenance = case.cluster.maintenance
    if case.explain is None or maintenance.is_held:
        return []
    waiting = [
        incident for incident in maintenance.incidents if incident.is_open and incident.node in case.cluster.nodes
    ]
    return [
        f"incident {incident.uuid} is {incident.repair_status.value}, and nothing explains it"
        for incident in waiting
        if not any(case.explain(case.cluster.node_name(incident.node)).get(field) for field in EXPLAINING_INCIDENTS)
    ]


def _replicas(root: Path) -> list[str]:
    """The instances that have files on a node as their disks."""
    return simulated.Replicas(root, opcode="").names()


def _files(case: _Case) -> list[str]:
    lab, cluster, left = case.lab, case.cluster, _left_over(case)
    replicas = {node.name: {*_replicas(node.root), *simulated_world.instances(node.root)} for node in lab.nodes()}
    wrong: list[str] = []
    for instance in cluster.instances.values():
        running = [node.name for node in lab.nodes() if (node.root / fake.RUNNING / f"{instance.name}.json").exists()]
        holders = [node for node, names in replicas.items() if instance.name in names]
        if set(running) != _expected(case, instance) and (running or not _is_explained(case, instance)):
            wrong.append(f"{instance.name} runs on {running} in truth")
        expected = {cluster.node_name(uuid) for uuid in instance.nodes}
        if instance.is_unfinished:
            expected &= set(holders)
        # What was left on a node while it did not answer is remembered, and stays there for as long as it does not.
        known = case.silent | left.get(instance.uuid, set())
        if expected - set(holders) or set(holders) - expected - known:
            wrong.append(f"{instance.name} has replicas on {holders} in truth")
    return wrong


def _left_over(case: _Case) -> dict[str, set[str]]:
    """Where a replica is left by instance: remembered, or by a replacement of disks that says that it broke off."""
    found: dict[str, set[str]] = {}
    for remembered in case.cluster.maintenance.left_behind:
        found.setdefault(remembered.instance.uuid, set()).add(case.cluster.node_name(remembered.node))
    for opcode in case.orders.opcodes.values():
        if opcode.kind == "replace_disks" and opcode.started and opcode.status is not values.Status.SUCCESS:
            names = {case.cluster.node_name(opcode.params[key]) for key in ("old", "new")}
            found.setdefault(opcode.params["instance"], set()).update(names)
    return found


def _opcodes(case: _Case) -> list[str]:
    """Opcodes that succeeded and did not do what they are for, or did it more than once."""
    orders = case.orders
    seen = Counter((event.get("opcode"), event["event"]) for event in case.events)
    broken_off = _broken_off(orders)
    runs, replicas = journals.runs_of(case.events), journals.replicas_of(case.events)
    wrong = []
    for name, opcode in orders.opcodes.items():
        if opcode.status is not values.Status.SUCCESS or not opcode.run:
            continue
        was_moot = _was_moot(opcode, orders, runs, replicas)
        for event in EXPECTED.get(opcode.kind, ()):
            times = seen[name, event]
            is_left = event == "replica removed" and _was_left(case, opcode)
            was_done = any(seen[other, event] for other in broken_off.get(_work(opcode), ()))
            if times != 1 and not ((is_left or was_done or was_moot) and times == 0):
                instance = orders.names.get(opcode.params["instance"], opcode.params["instance"])
                wrong.append(f"opcode {name} ({opcode.kind} {instance}): {times} times {event}")
    return wrong


def _was_left(case: _Case, opcode: values.Opcode) -> bool:
    """Whether a replaced replica is left on a node that did not answer, or was removed when that was back."""
    node, instance = opcode.params["old"], opcode.params["instance"]
    # It was removed when the node was back, or has become the instance's replica again.
    ends = {"remove_replica": "node", "replace_disks": "new"}
    is_over = any(
        later.kind in ends and (later.params["instance"], later.params[ends[later.kind]]) == (instance, node)
        for later in case.orders.opcodes.values()
        if later.started >= opcode.ended
    )
    return is_over or left_replicas.left_behind(case.cluster, instance, node) is not None


def _was_moot(opcode: values.Opcode, orders: ordering.Orders, runs: journals.Stays, replicas: journals.Stays) -> bool:
    """Whether what it was to do was true already, as after the import of an earlier configuration.

    Nor does a migration hand over an instance that was down all the time: its user stopped it after that was planned.
    """
    stays, key = (runs, "target") if opcode.kind == "migrate" else (replicas, "new")
    instance, node = (orders.names.get(opcode.params.get(parameter, ""), "") for parameter in ("instance", key))
    began, ended = ((moment - orders.clock_offset) * 1e9 for moment in (opcode.started, opcode.ended))
    if opcode.kind == "migrate" and opcode.started and not runs.was_anywhere(instance, since=began, until=ended):
        return True
    return stays.was_there(instance, node, since=began, until=ended)


def _work(opcode: values.Opcode) -> tuple[str, ...]:
    return opcode.kind, *(str(value) for _name, value in sorted(opcode.params.items()))


def _broken_off(orders: ordering.Orders) -> dict[tuple[str, ...], list[str]]:
    """The opcodes that began and did not succeed, by what they were to do: they may have done it nevertheless."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, opcode in orders.opcodes.items():
        if opcode.started and opcode.status is not values.Status.SUCCESS:
            found.setdefault(_work(opcode), []).append(name)
    return found


def _repairs(case: _Case) -> list[str]:
    done: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    for opcode in case.orders.opcodes.values():
        if opcode.kind == "repair_command" and opcode.run:
            counted = done if opcode.status is values.Status.SUCCESS else doubtful
            counted[case.cluster.node_name(opcode.params["node"])] += 1
    # Of jobs that have left the archive too nobody knows what they did.
    forgotten = math.inf if min(case.jobs, default=1) > 1 else 0
    return [
        f"the repair command ran {node.repairs()} times on {node.name}, and {done[node.name]} jobs say so"
        for node in case.lab.nodes()
        if not done[node.name] <= node.repairs() <= done[node.name] + doubtful[node.name] + forgotten
    ]


def _tags(cluster: clusters.Cluster) -> list[str]:
    doubled = [
        (node.name, tag) for node in cluster.nodes.values() for tag, count in Counter(node.tags).items() if count > 1
    ]
    return [f"{name} has the tag {tag} more than once" for name, tag in doubled]


def _incidents(cluster: clusters.Cluster) -> list[str]:
    """What does not fit the table of states: jobs, tags, and the node of each incident."""
    wrong: list[str] = []
    for incident in cluster.maintenance.incidents:
        tags = cluster.nodes[incident.node].tags if incident.node in cluster.nodes else ()
        status = incident.repair_status
        told = f"incident {incident.uuid} is {status.value}"
        if incident.node not in cluster.nodes:
            wrong.append(f"{told}, and its node is not in the configuration")
        if (incident.is_open or status is incidents.RepairStatus.CANCELED) and any(
            incident.uuid in tag for tag in tags
        ):
            wrong.append(f"{told}, and its node has its tag")
        if status is incidents.RepairStatus.NOTED and incident.jobs:
            wrong.append(f"{told}, and has jobs")
        if status is incidents.RepairStatus.PENDING and not incident.jobs:
            wrong.append(f"{told}, and has no jobs")
    known = {incident.uuid for incident in cluster.maintenance.incidents}
    return wrong + [
        f"{node.name} has the tag {tag} of an incident that is not there"
        for node in cluster.nodes.values()
        for tag in node.tags
        if tag.startswith((incidents.READY_TAG, incidents.FAILED_TAG)) and tag.rpartition(":")[2] not in known
    ]


def _locks(case: _Case) -> list[str]:
    """A lock belongs to a process that lives, or to a job that has not ended; it is off the disk a moment later."""
    newest = max((job.ended for job in case.jobs.values() if job.is_final), default=0.0)
    end = time.monotonic() + newest + LOCKS_WRITTEN - time.time()
    while (found := _left_locks(case)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _left_locks(case: _Case) -> list[str]:
    try:
        rows = json.loads(sealed_json.unseal(case.where.locks.read_bytes()))["held"]
    except FileNotFoundError:
        return []
    owners = {values.lock_owner(job.id).name for job in case.jobs.values() if not job.is_final}
    return [
        f"{lock} is held by {row['owner']}, which has ended"
        for row in rows
        for lock in row["locks"]
        if not (livelocks.is_alive(Path(row["livelock"])) if row["livelock"] else row["owner"] in owners)
    ]
