"""What the nodes' journals prove: no instance was lost or ran twice, and each opcode ran once.

And what the controller's files prove: no lock without an owner, every incident in a state of its table.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import incidents, tree
from ...plugins.module_utils.hypervisor import fake
from ...plugins.module_utils.storage import simulated
from ...plugins.plugin_utils import livelocks, sealed_json
from ...plugins.plugin_utils.config import store
from ..jobs import driving, values
from ..jobs import store as job_store

if TYPE_CHECKING:
    from ...plugins.module_utils.domain import cluster as clusters
    from . import world

EXPECTED = {"migrate": ("handed over", "received"), "replace_disks": ("copy created", "copy removed")}


def check(lab: world.Lab) -> list[str]:
    """Everything that is wrong in a lab, one sentence each; an empty list is the proof.

    It reads the nodes' journals and files, the configuration and the jobs; it is meant for a lab at rest.
    """
    where = tree.Tree(lab.controller)
    cluster = store.read(where.config)
    jobs = job_store.Store(where.queue).load()
    events = _events(lab)
    return [
        *_instances(cluster, events),
        *_files(lab, cluster, jobs),
        *_opcodes(lab, cluster, jobs, events),
        *_repeated(jobs, events),
        *_repairs(lab, cluster, jobs),
        *_tags(cluster),
        *_incidents(cluster),
        *_locks(where, jobs),
    ]


def _events(lab: world.Lab) -> list[dict[str, Any]]:
    found = [{**entry, "node": node.name} for node in lab.nodes() for entry in node.journal()]
    return sorted(found, key=lambda entry: entry["ns"])


def _instances(cluster: clusters.Cluster, events: list[dict[str, Any]]) -> list[str]:
    wrong: list[str] = []
    runs: dict[str, set[str]] = {one.name: set() for one in cluster.instances.values()}
    for event in events:
        where = runs.setdefault(event["instance"], set())
        if event["event"] in {"started", "received"}:
            where.add(event["node"])
        elif event["event"] in {"stopped", "handed over"}:
            if event["node"] not in where:
                wrong.append(f"{event['instance']} was {event['event']} on {event['node']}, where it did not run")
            where.discard(event["node"])
        if len(where) > 1:
            wrong.append(f"{event['instance']} ran twice, on {' and '.join(sorted(where))} (opcode {event['opcode']})")
    for one in cluster.instances.values():
        expected = {cluster.node_name(one.primary_node)} if one.is_up else set()
        if runs[one.name] != expected:
            wrong.append(f"{one.name} runs on {sorted(runs[one.name])}, and the configuration says {sorted(expected)}")
    known = {one.name for one in cluster.instances.values()}
    return wrong + [
        f"{name} runs on {sorted(runs[name])}, and is not in the configuration"
        for name in sorted(runs.keys() - known)
        if runs[name]
    ]


def _files(lab: world.Lab, cluster: clusters.Cluster, jobs: dict[int, values.Job]) -> list[str]:
    left = _left_over(cluster, jobs)
    wrong: list[str] = []
    for one in cluster.instances.values():
        running = [node.name for node in lab.nodes() if (node.root / fake.RUNNING / f"{one.name}.json").exists()]
        copies = [node.name for node in lab.nodes() if (node.root / simulated.DISKS / f"{one.name}.json").exists()]
        if running != ([cluster.node_name(one.primary_node)] if one.is_up else []):
            wrong.append(f"{one.name} runs on {running} in truth")
        expected = {cluster.node_name(uuid) for uuid in one.nodes}
        if one.is_unfinished:
            expected &= set(copies)
        # What was left on a node while it did not answer stays there for as long as it does not.
        if expected - set(copies) or set(copies) - expected - _silent(lab) - left.get(one.uuid, set()):
            wrong.append(f"{one.name} has copies on {copies} in truth")
    return wrong


def _left_over(cluster: clusters.Cluster, jobs: dict[int, values.Job]) -> dict[str, set[str]]:
    """Where a replacement of disks that says that it broke off may have left a copy, by instance."""
    found: dict[str, set[str]] = {}
    for opcode in (opcode for job in jobs.values() for opcode in job.opcodes):
        if opcode.kind == "replace_disks" and opcode.started and opcode.status is not values.Status.SUCCESS:
            names = {cluster.node_name(opcode.params[key]) for key in ("old", "new")}
            found.setdefault(opcode.params["instance"], set()).update(names)
    return found


def _silent(lab: world.Lab) -> set[str]:
    return {node.name for node in lab.nodes() if not node.wire.exists()}


def _opcodes(
    lab: world.Lab, cluster: clusters.Cluster, jobs: dict[int, values.Job], events: list[dict[str, Any]]
) -> list[str]:
    seen = Counter((event["opcode"], event["event"]) for event in events)
    silent, broken_off = _silent(lab), _broken_off(jobs)
    wrong = []
    for job in jobs.values():
        for index, opcode in enumerate(job.opcodes):
            if opcode.status is not values.Status.SUCCESS or not opcode.run:
                continue
            for event in EXPECTED.get(opcode.kind, ()):
                times = seen[f"{job.id}/{index}", event]
                is_left = event == "copy removed" and cluster.node_name(opcode.params["old"]) in silent
                was_done = any(seen[name, event] for name in broken_off.get(_work(opcode), ()))
                if times != 1 and not ((is_left or was_done) and times == 0):
                    name = cluster.instance(opcode.params["instance"]).name
                    wrong.append(f"opcode {job.id}/{index} ({opcode.kind} {name}): {times} times {event}")
    return wrong


def _repeated(jobs: dict[int, values.Job], events: list[dict[str, Any]]) -> list[str]:
    """Whatever became of an opcode, nothing was done twice for it."""
    names = {f"{job.id}/{index}" for job in jobs.values() for index, _ in enumerate(job.opcodes)}
    seen = Counter((event["opcode"], event["instance"], event["event"], event["node"]) for event in events)
    return [
        f"opcode {name}: {instance} was {times} times {event} on {node}"
        for (name, instance, event, node), times in seen.items()
        if name in names and times > 1
    ]


def _work(opcode: values.Opcode) -> tuple[str, ...]:
    return opcode.kind, *(str(value) for _name, value in sorted(opcode.params.items()))


def _broken_off(jobs: dict[int, values.Job]) -> dict[tuple[str, ...], list[str]]:
    """The opcodes that began and did not succeed, by what they were to do: they may have done it nevertheless."""
    found: dict[tuple[str, ...], list[str]] = {}
    for job in jobs.values():
        for index, opcode in enumerate(job.opcodes):
            if opcode.started and opcode.status is not values.Status.SUCCESS:
                found.setdefault(_work(opcode), []).append(f"{job.id}/{index}")
    return found


def _repairs(lab: world.Lab, cluster: clusters.Cluster, jobs: dict[int, values.Job]) -> list[str]:
    done: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    for opcode in (opcode for job in jobs.values() for opcode in job.opcodes):
        if opcode.kind == "repair_command" and opcode.run:
            counted = done if opcode.status is values.Status.SUCCESS else doubtful
            counted[cluster.node_name(opcode.params["node"])] += 1
    return [
        f"the repair command ran {node.repairs()} times on {node.name}, and {done[node.name]} jobs say so"
        for node in lab.nodes()
        if not done[node.name] <= node.repairs() <= done[node.name] + doubtful[node.name]
    ]


def _tags(cluster: clusters.Cluster) -> list[str]:
    doubled = [
        (one.name, tag) for one in cluster.nodes.values() for tag, count in Counter(one.tags).items() if count > 1
    ]
    return [f"{name} has the tag {tag} more than once" for name, tag in doubled]


def _incidents(cluster: clusters.Cluster) -> list[str]:
    """What does not fit the table of states: jobs, tags, and the node of each incident."""
    wrong: list[str] = []
    for one in cluster.maintenance.incidents:
        tags = cluster.nodes[one.node].tags if one.node in cluster.nodes else ()
        status = one.repair_status
        told = f"incident {one.uuid} is {status.value}"
        if one.node not in cluster.nodes:
            wrong.append(f"{told}, and its node is not in the configuration")
        if (one.is_open or status is incidents.RepairStatus.CANCELED) and any(one.uuid in tag for tag in tags):
            wrong.append(f"{told}, and its node has its tag")
        if status is incidents.RepairStatus.NOTED and one.jobs:
            wrong.append(f"{told}, and has jobs")
        if status is incidents.RepairStatus.PENDING and not one.jobs:
            wrong.append(f"{told}, and has no jobs")
    known = {one.uuid for one in cluster.maintenance.incidents}
    return wrong + [
        f"{node.name} has the tag {tag} of an incident that is not there"
        for node in cluster.nodes.values()
        for tag in node.tags
        if tag.startswith((incidents.READY_TAG, incidents.FAILED_TAG)) and tag.rpartition(":")[2] not in known
    ]


def _locks(where: tree.Tree, jobs: dict[int, values.Job]) -> list[str]:
    """A lock belongs to a process that lives, or to a job that has not ended."""
    try:
        rows = json.loads(sealed_json.unseal(where.locks.read_bytes()))["held"]
    except FileNotFoundError:
        return []
    owners = {driving.owner(job.id).name for job in jobs.values() if not job.is_final}
    return [
        f"{lock} is held by {row['owner']}, which has ended"
        for row in rows
        for lock in row["locks"]
        if not (livelocks.is_alive(Path(row["livelock"])) if row["livelock"] else row["owner"] in owners)
    ]
