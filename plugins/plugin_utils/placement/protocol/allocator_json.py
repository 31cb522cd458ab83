"""Ganeti's allocator protocol, version 2, from the allocator's side: a request to read, an answer to write.

Source: Ganeti's documentation of its allocators, and hail, whose rules stand where that is silent: a node that is
offline or not vm_capable comes without numbers, one that is drained takes nothing, the groups' policies count and not
the cluster's, and of KVM nodes, which report as their own what their instances take, 4096 MiB count as their own. All
amounts are MiB.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ....module_utils.domain.values import errors
from ..allocation import allocator
from ..models import model
from . import allocator_policies, json_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .json_fields import Field

VERSION = 2
KVM = "kvm"
KVM_NODE_MEMORY = 4096
STATUSES: Mapping[str, str] = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}


def read(text: str) -> tuple[model.Model, allocator.Request]:
    """The cluster and what is asked.

    Raises:
        InvalidInput: a key is missing, a value is of the wrong type or names what is not there; with its place.
    """
    whole = json_fields.document(text, name="the request")
    version = whole.find("version")
    if version is not None and version.value != VERSION:
        raise version.wrong(f"version {VERSION} of the protocol")
    asked = whole.get("request")
    found = _model(whole)
    kind = asked.get("type")
    reader = READERS.get(kind.text())
    if reader is None:
        raise kind.wrong("one of " + ", ".join(READERS))
    return found, reader(asked, found)


def _model(whole: Field) -> model.Model:
    groups = tuple(_group(uuid, group) for uuid, group in whole.get("nodegroups").items())
    hypervisors = whole.get("enabled_hypervisors").texts()
    uuids = {group.uuid for group in groups}
    is_kvm = hypervisors[:1] == (KVM,)
    nodes = tuple(_node(name, node, uuids, is_kvm=is_kvm) for name, node in whole.get("nodes").items())
    names = {node.name for node in nodes}
    return model.Model(
        groups=groups,
        nodes=nodes,
        instances=tuple(_placed(name, instance, names) for name, instance in whole.get("instances").items()),
        tags=whole.get("cluster_tags").texts(),
    )


def _group(uuid: str, group: Field) -> model.Group:
    return model.Group(
        name=group.get("name").name(),
        uuid=uuid,
        alloc_policy=group.get("alloc_policy").one_of(model.AllocPolicy),
        tags=group.get("tags").texts(),
        networks=group.get("networks").texts(),
        policy=allocator_policies.read(group.get("ipolicy")),
    )


def _node(name: str, node: Field, groups: set[str], *, is_kvm: bool) -> model.Node:
    group = node.get("group")
    if group.text() not in groups:
        raise group.wrong("the UUID of a node group")
    capable, tags = node.find("vm_capable"), node.find("tags")
    is_live = not node.get("offline").flag() and (capable is None or capable.flag())
    parameters = node.get("ndparams")
    exclusive = parameters.get("exclusive_storage").flag()
    spindles = node.get("total_spindles") if exclusive and is_live else parameters.get("spindle_count")
    free = node.find("free_spindles")
    return model.Node(
        name=name,
        group=group.text(),
        t_mem=node.get("total_memory").real() if is_live else 0.0,
        n_mem=(KVM_NODE_MEMORY if is_kvm else node.get("reserved_memory").whole()) if is_live else 0,
        f_mem=node.get("free_memory").whole(least=None) if is_live else 0,
        t_disk=node.get("total_disk").real() if is_live else 0.0,
        f_disk=node.get("free_disk").whole(least=None) if is_live else 0,
        pcpus=node.get("total_cpus").real() if is_live else 0.0,
        offline=not is_live or node.get("drained").flag(),
        spindles=spindles.whole() if is_live or not exclusive else 0,
        tags=() if tags is None else tags.texts(),
        exclusive_storage=exclusive,
        free_spindles=free.whole(least=None) if is_live and free is not None else 0,
        os_vcpus=node.get("reserved_cpus").whole() if is_live else 0,
        is_known=is_live,
    )


def _placed(name: str, instance: Field, nodes: set[str]) -> model.Instance:
    places = instance.get("nodes")
    for place in places.each():
        if place.text() not in nodes:
            raise place.wrong("the name of a node")
    if not places.value:
        raise places.wrong("a list with at least a primary")
    primary, secondary = (*places.texts(), "")[:2]
    return _instance(name, instance, primary=primary, secondary=secondary)


def _instance(name: str, instance: Field, *, primary: str = "", secondary: str = "") -> model.Instance:
    state, forthcoming = instance.find("admin_state"), instance.find("forthcoming")
    if state is not None and state.text() not in STATUSES:
        raise state.wrong("one of " + ", ".join(STATUSES))
    spindles = [disk.find("spindles") for disk in instance.get("disks").each()]
    known = [each.whole() for each in spindles if each is not None]
    return model.Instance(
        name=name,
        memory=instance.get("memory").whole(),
        disk=instance.get("disk_space_total").whole(),
        vcpus=instance.get("vcpus").whole(),
        status=STATUSES["up" if state is None else state.text()],
        auto_balance=True,
        primary=primary,
        secondary=secondary,
        template=instance.get("disk_template").one_of(model.Template),
        tags=instance.get("tags").texts(),
        spindle_use=instance.get("spindle_use").whole(),
        spindles=sum(known) if spindles and len(known) == len(spindles) else None,
        forthcoming=forthcoming is not None and forthcoming.flag(),
        networks=_networks(instance),
    )


def _networks(instance: Field) -> tuple[str, ...]:
    nics = instance.find("nics")
    networks = [nic.find("network") for nic in nics.each()] if nics is not None else []
    return tuple(dict.fromkeys(each.text() for each in networks if each is not None))


def _wanted(asked: Field, found: model.Model) -> allocator.Wanted:
    name = asked.get("name").name()
    if any(each.name == name for each in found.instances):
        raise asked.get("name").wrong("the name of a new instance")
    instance = _instance(name, asked)
    count = asked.get("required_nodes")
    if count.whole() != 1 + instance.template.is_mirrored:
        raise count.wrong(f"{1 + instance.template.is_mirrored}, as {instance.template.value} needs,")
    group, only = asked.find("group_name"), asked.find("restrict-to-nodes")
    if group is not None and group.text() not in {each.name for each in found.groups}:
        raise group.wrong("the name of a node group")
    return allocator.Wanted(
        instance=instance,
        disks=tuple(disk.get("size").whole() for disk in asked.get("disks").each()),
        group="" if group is None else group.text(),
        only=None if only is None else only.texts(),
    )


def _allocate(asked: Field, found: model.Model) -> allocator.Allocate:
    return allocator.Allocate(_wanted(asked, found))


def _multi_allocate(asked: Field, found: model.Model) -> allocator.MultiAllocate:
    return allocator.MultiAllocate(tuple(_wanted(instance, found) for instance in asked.get("instances").each()))


def _allocate_secondary(asked: Field, found: model.Model) -> allocator.AllocateSecondary:
    return allocator.AllocateSecondary(_known(asked.get("name"), found))


def _relocate(asked: Field, found: model.Model) -> allocator.Relocate:
    count = asked.get("required_nodes")
    if count.whole() != 1:
        raise count.wrong("1")
    return allocator.Relocate(_known(asked.get("name"), found), asked.get("relocate_from").texts())


def _evacuate(asked: Field, found: model.Model) -> allocator.Evacuate:
    return allocator.Evacuate(_all_known(asked.get("instances"), found), asked.get("evac_mode").one_of(allocator.Scope))


def _change_group(asked: Field, found: model.Model) -> allocator.ChangeGroup:
    uuids = {group.uuid for group in found.groups}
    targets = asked.get("target_groups")
    for target in targets.each():
        if target.text() not in uuids:
            raise target.wrong("the UUID of a node group")
    return allocator.ChangeGroup(_all_known(asked.get("instances"), found), targets.texts())


def _known(name: Field, found: model.Model) -> str:
    if all(instance.name != name.text() for instance in found.instances):
        raise name.wrong("the name of an instance")
    return name.text()


def _all_known(names: Field, found: model.Model) -> tuple[str, ...]:
    known = {instance.name for instance in found.instances}
    for name in names.each():
        if name.text() not in known:
            raise name.wrong("the name of an instance")
    return names.texts()


READERS: Mapping[str, Callable[[Field, model.Model], allocator.Request]] = {
    "allocate": _allocate,
    "multi-allocate": _multi_allocate,
    "allocate-secondary": _allocate_secondary,
    "relocate": _relocate,
    "node-evacuate": _evacuate,
    "change-group": _change_group,
}


def write(request: allocator.Request, result: allocator.Result) -> str:
    """The answer to a request; one without room for a single instance is no success, all else is one.

    Raises:
        Refused: a single instance has neither a placement nor a refusal.
    """
    if isinstance(request, (allocator.Evacuate, allocator.ChangeGroup)):
        return _answer(_info(result, "moved"), [_moved(result), _refused(result), _jobs(result)])
    if isinstance(request, allocator.MultiAllocate):
        placed = [[placement.instance, list(placement.nodes)] for placement in result.placements]
        return _answer(_info(result, "allocated"), [placed, [unplaced.instance for unplaced in result.unplaced]])
    if not result.placements:
        raise errors.Refused(result.unplaced[0].text if result.unplaced else result.info or "no answer was found")
    primary, *others = result.placements[0].nodes
    info = result.info or "placed"
    if isinstance(request, allocator.AllocateSecondary):
        return _answer(info, [primary, *others][-1])
    if isinstance(request, allocator.Relocate):
        return _answer(info, others or [primary])
    return _answer(info, [primary, *others])


def refused(text: str) -> str:
    """The answer that there is none."""
    return json.dumps({"success": False, "info": f"Request failed: {text}", "result": []})


def _answer(info: str, result: Any) -> str:
    return json.dumps({"success": True, "info": f"Request successful: {info}", "result": result})


def _info(result: allocator.Result, done: str) -> str:
    return result.info or f"{len(result.placements)} instances {done}, {len(result.unplaced)} not"


def _moved(result: allocator.Result) -> list[list[Any]]:
    return [[placement.instance, placement.group, list(placement.nodes)] for placement in result.placements]


def _refused(result: allocator.Result) -> list[list[str]]:
    return [[unplaced.instance, unplaced.text] for unplaced in result.unplaced]


def _jobs(result: allocator.Result) -> list[list[dict[str, Any]]]:
    """One job for each instance that moves; jobs name those they wait for by how many jobs before they are."""
    moving = [placement for placement in result.placements if placement.steps]
    number = {placement.instance: index for index, placement in enumerate(moving)}
    jobs = []
    for index, placement in enumerate(moving):
        opcodes = [_opcode(placement.instance, step) for step in placement.steps]
        before = sorted(number[name] for name in placement.after)
        if before:
            opcodes[0]["depends"] = [[each - index, ["success"]] for each in before]
        jobs.append(opcodes)
    return jobs


def _opcode(instance: str, step: allocator.Step) -> dict[str, Any]:
    opcode: dict[str, Any] = {"OP_ID": OPCODES[step.action], "instance_name": instance}
    if step.action is allocator.Action.REPLACE_SECONDARY:
        return {**opcode, "mode": "replace_new_secondary", "disks": [], "remote_node": step.node}
    if step.action is allocator.Action.MIGRATE:
        # A stopped instance cannot migrate, and hypervisors may be of different versions while nodes are upgraded.
        opcode |= {"allow_failover": True, "ignore_hvversions": True}
    return opcode | ({"target_node": step.node} if step.node else {})


OPCODES: Mapping[allocator.Action, str] = {
    allocator.Action.MIGRATE: "OP_INSTANCE_MIGRATE",
    allocator.Action.FAILOVER: "OP_INSTANCE_FAILOVER",
    allocator.Action.REPLACE_SECONDARY: "OP_INSTANCE_REPLACE_DISKS",
}
