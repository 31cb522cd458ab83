"""Ganeti's allocator protocol, version 2, from the caller's side: a request to write, an answer to read.

What the protocol has no word for is lost: that an instance is not auto balanced, its load, and what kind of disks and
interfaces it has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ....module_utils.domain.values import errors
from ..allocation import allocator
from ..models import policies
from . import allocator_json, json_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..models import model
    from .json_fields import Field

# With any real hypervisor an allocator may claim to know better what a node itself takes.
HYPERVISOR = "fake"
LONGEST = 500
"""Of a reason so many characters are kept: hail prints whole groups with their policies."""
STATES: Mapping[str, str] = {
    "ADMIN_offline": "offline",
    "ADMIN_down": "down",
    "USER_down": "down",
    "ERROR_down": "down",
}
ACTIONS: Mapping[str, allocator.Action] = {name: action for action, name in allocator_json.OPCODES.items()}


def write(found: model.Model, request: allocator.Request, *, cluster_name: str = "cluster") -> str:
    """The request's text.

    Raises:
        Refused: a new instance has a primary or secondary already, which the protocol cannot say.
    """
    promised = dict.fromkeys((node.name for node in found.nodes), 0)
    running = dict(promised)
    for instance in found.instances:
        promised[instance.primary] += instance.memory
        running[instance.primary] += instance.memory * instance.takes_memory
    nodes = {
        node.name: {**_node(node), "i_pri_memory": promised[node.name], "i_pri_up_memory": running[node.name]}
        for node in found.nodes
    }
    whole = {
        "version": allocator_json.VERSION,
        "cluster_name": cluster_name,
        "cluster_tags": list(found.tags),
        "enabled_hypervisors": [HYPERVISOR],
        "ipolicy": policies.written(found.policy),
        "nodegroups": {group.uuid: _group(group) for group in found.groups},
        "nodes": nodes,
        "instances": {instance.name: _placed(instance) for instance in found.instances},
        "request": _request(request),
    }
    return json.dumps(whole)


def _group(group: model.Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "alloc_policy": group.alloc_policy.value,
        "networks": list(group.networks),
        "ipolicy": policies.written(group.policy),
        "tags": list(group.tags),
    }


def _node(node: model.Node) -> dict[str, Any]:
    return {
        "tags": list(node.tags),
        "primary_ip": "",
        "secondary_ip": "",
        "offline": node.offline or not node.is_known,
        "drained": False,
        "master_candidate": node.master,
        "master_capable": True,
        "vm_capable": True,
        "group": node.group,
        "ndparams": {"exclusive_storage": node.exclusive_storage, "spindle_count": node.spindles},
        "total_memory": int(node.t_mem),
        "reserved_memory": node.n_mem,
        "free_memory": node.f_mem,
        "total_disk": int(node.t_disk),
        "free_disk": node.f_disk,
        "total_spindles": node.spindles,
        "free_spindles": node.free_spindles,
        "total_cpus": int(node.pcpus),
        "reserved_cpus": node.os_vcpus,
    }


def _placed(instance: model.Instance) -> dict[str, Any]:
    nodes = [instance.primary, instance.secondary] if instance.secondary else [instance.primary]
    return {
        **_instance(instance, (instance.disk,)),
        "admin_state": STATES.get(instance.status, "up"),
        "forthcoming": instance.forthcoming,
        "nodes": nodes,
    }


def _instance(instance: model.Instance, disks: tuple[int, ...]) -> dict[str, Any]:
    # How the spindles are spread over the disks is not known, nor of interest to anyone: all are the first one's.
    spindles = [instance.spindles, *(0 for _ in disks[1:])] if instance.spindles is not None else [None] * len(disks)
    return {
        "tags": list(instance.tags),
        "vcpus": instance.vcpus,
        "memory": instance.memory,
        "spindle_use": instance.spindle_use,
        "os": "",
        "nics": [{"mac": "auto", "ip": None, "network": network} for network in instance.networks],
        "disks": [{"size": size, "mode": "rw", "spindles": each} for size, each in zip(disks, spindles, strict=True)],
        "disk_template": instance.template.value,
        "disk_space_total": instance.disk,
        "hypervisor": HYPERVISOR,
    }


def _request(request: allocator.Request) -> dict[str, Any]:
    match request:
        case allocator.Allocate(wanted):
            return {"type": "allocate", **_wanted(wanted)}
        case allocator.MultiAllocate(several):
            return {"type": "multi-allocate", "instances": [_wanted(each) for each in several]}
        case allocator.AllocateSecondary(name):
            return {"type": "allocate-secondary", "name": name}
        case allocator.Relocate(name, away_from):
            return {"type": "relocate", "name": name, "required_nodes": 1, "relocate_from": list(away_from)}
        case allocator.Evacuate(names, scope):
            return {"type": "node-evacuate", "instances": list(names), "evac_mode": scope.value}
        case allocator.ChangeGroup(names, targets):
            return {"type": "change-group", "instances": list(names), "target_groups": list(targets)}


def _wanted(wanted: allocator.Wanted) -> dict[str, Any]:
    given = wanted.instance.primary or wanted.instance.secondary
    if given:
        raise errors.Refused(f"{wanted.instance.name}: external allocators cannot be given that it is on {given}")
    found = {
        **_instance(wanted.instance, wanted.disks or (wanted.instance.disk,)),
        "name": wanted.instance.name,
        "required_nodes": 1 + wanted.instance.template.is_mirrored,
        "group_name": wanted.group or None,
    }
    return found if wanted.only is None else {**found, "restrict-to-nodes": list(wanted.only)}


def read(text: str, request: allocator.Request) -> allocator.Result:
    """What an allocator answered.

    Raises:
        InvalidInput: the answer is not one to this request, or cannot be read.
        Refused: it says that it failed, and why.
    """
    whole = json_fields.document(text, name="the allocator's answer")
    info = _told(whole.get("info"))
    if not whole.get("success").flag():
        if isinstance(request, (allocator.Allocate, allocator.AllocateSecondary, allocator.Relocate)):
            return allocator.Result(unplaced=(allocator.Unplaced(_name(request), {"": info}),), info=info)
        raise errors.Refused(f"the allocator failed: {info}")
    result = whole.get("result")
    match request:
        case allocator.MultiAllocate():
            return _several(result, info)
        case allocator.Evacuate() | allocator.ChangeGroup():
            return _moves(result, info)
        case allocator.AllocateSecondary(name):
            return allocator.Result((allocator.Placement(name, (result.name(),)),), info=info)
        case allocator.Relocate(name):
            return allocator.Result((allocator.Placement(name, _nodes(result, 1)),), info=info)
        case allocator.Allocate(wanted):
            count = 1 + wanted.instance.template.is_mirrored
            return allocator.Result((allocator.Placement(wanted.instance.name, _nodes(result, count)),), info=info)


def _told(info: Field) -> str:
    return info.text().removeprefix("Request failed: ").removeprefix("Request successful: ")[:LONGEST]


def _name(request: allocator.Allocate | allocator.AllocateSecondary | allocator.Relocate) -> str:
    return request.wanted.instance.name if isinstance(request, allocator.Allocate) else request.instance


def _nodes(result: Field, count: int) -> tuple[str, ...]:
    if len(result.each()) != count:
        raise result.wrong(f"a list of {count} names")
    return tuple(node.name() for node in result.each())


def _parts(field: Field, count: int, expected: str) -> list[Field]:
    if len(field.each()) != count:
        raise field.wrong(expected)
    return field.each()


def _several(result: Field, info: str) -> allocator.Result:
    """Of those without a place Ganeti wants the names, and hail gives names and reasons."""
    placed, failed = _parts(result, 2, "the placed and the others")
    placements = []
    for entry in placed.each():
        name, nodes = _parts(entry, 2, "a name and its nodes")
        placements.append(allocator.Placement(name.name(), nodes.texts()))
    unplaced = []
    for entry in failed.each():
        name, text = _parts(entry, 2, "a name and a reason") if isinstance(entry.value, list) else (entry, None)
        unplaced.append(allocator.Unplaced(name.name(), {"": info if text is None else _told(text)}))
    return allocator.Result(tuple(placements), tuple(unplaced), info)


def _moves(result: Field, info: str) -> allocator.Result:
    moved, failed, jobs = _parts(result, 3, "the moved, the others and jobs")
    steps, after = _jobs(jobs)
    placements = []
    for entry in moved.each():
        name, group, nodes = _parts(entry, 3, "a name, its group and its nodes")
        instance = name.name()
        before = after.get(instance, ())
        placements.append(allocator.Placement(instance, nodes.texts(), group.text(), steps.get(instance, ()), before))
    unplaced = []
    for entry in failed.each():
        name, text = _parts(entry, 2, "a name and a reason")
        unplaced.append(allocator.Unplaced(name.name(), {"": _told(text)}))
    return allocator.Result(tuple(placements), tuple(unplaced), info)


def _jobs(jobs: Field) -> tuple[dict[str, tuple[allocator.Step, ...]], dict[str, tuple[str, ...]]]:
    """By instance its steps, and the instances whose jobs have to be done before."""
    found = [_job(job) for job in jobs.each()]
    steps: dict[str, tuple[allocator.Step, ...]] = {}
    after: dict[str, tuple[str, ...]] = {}
    for index, (name, taken, waits) in enumerate(found):
        before = tuple(found[index + each][0] for each in waits if 0 <= index + each < index)
        steps[name] = steps.get(name, ()) + taken
        after[name] = after.get(name, ()) + before
    return steps, after


def _job(job: Field) -> tuple[str, tuple[allocator.Step, ...], list[int]]:
    """The instance of a job, its steps, and which jobs before it has to wait for (-1 is the last before it)."""
    if not job.each():
        raise job.wrong("opcodes")
    name = job.each()[0].get("instance_name").name()
    steps, waits = [], []
    for opcode in job.each():
        if opcode.get("instance_name").value != name:
            raise opcode.wrong(f"an opcode of {name}")
        steps.append(_step(opcode))
        depends = opcode.find("depends")
        waits += [pair.each()[0].whole(least=None) for pair in depends.each() if pair.each()] if depends else []
    return name, tuple(steps), waits


def _step(opcode: Field) -> allocator.Step:
    kind = opcode.get("OP_ID")
    action = ACTIONS.get(kind.text())
    if action is None:
        raise kind.wrong("one of " + ", ".join(ACTIONS))
    node = opcode.find("remote_node" if action is allocator.Action.REPLACE_SECONDARY else "target_node")
    return allocator.Step(action, "" if node is None else node.text())
