"""What may be set of an instance, checked, and the changes that make one or give one other parameters.

Memory and sizes of disks are in MiB. An instance that is made is down and unfinished until its disks are there.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from ...module_utils.domain.values import errors, value_rules
from ...module_utils.domain.values import hvparams as hypervisor_rules
from ..cluster import changes, membership, tagging
from ..cluster import cluster as clusters
from . import all_problems, parameters

if TYPE_CHECKING:
    from ...module_utils.domain.values.value_rules import Rule

TEMPLATES = ("drbd", "plain", "file", "sharedfile", "diskless")
"""The disk templates of which Roundsman makes disks itself."""
SIMULATED = "fake"
"""The hypervisor of labs."""
HYPERVISORS = ("kvm", SIMULATED)
MOST_DISKS, MOST_NICS = 16, 8
MOST_NAME = 100
"""Characters of a name: names of DRBD resources and volumes are longer by some, and end at 127."""
MOST_ADOPTED = 64
"""Disks, and network interfaces, of an instance that was there before its cluster."""
TEMPLATE_MARKS = ("{{", "{%", "{#")
NIC_FIELDS = ("network", "mac", "link")


def name(field: str, value: Any) -> str:
    """The name of an instance, which is a name of files, of DRBD resources and of domains, too."""
    if isinstance(value, str) and len(value) > MOST_NAME:
        raise errors.InvalidInput(f"{field}: the name has {len(value)} characters: use at most {MOST_NAME}")
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise errors.InvalidInput(f"{field}: {value!r} is no name of an instance: use letters, digits and . _ -")
    return value


def hvparams(field: str, value: Any) -> dict[str, str]:
    """Parameters of the hypervisor: texts by name; None as text is to be as if never given.

    What Ansible would take for a template is refused, because plays get these texts as they are.
    """
    if not isinstance(value, dict):
        raise errors.InvalidInput(f"{field}: expected an object with string values, got {value!r}")
    for key, text in value.items():
        if not isinstance(key, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", key):
            raise errors.InvalidInput(f"{field}: {key!r} is no name of a parameter")
        if text is not None and not isinstance(text, str):
            raise errors.InvalidInput(f"{field}.{key}: {text!r} is no text")
        if text and any(mark in text for mark in TEMPLATE_MARKS):
            raise errors.InvalidInput(f"{field}.{key}: it looks like a template of Ansible: it has one of {{{{ {{% {{#")
    return dict(value)


def sizes(field: str, value: Any) -> tuple[int, ...]:
    """The sizes of disks."""
    if not isinstance(value, (list, tuple)) or len(value) > MOST_DISKS:
        raise errors.InvalidInput(f"{field}: {value!r} is no list of at most {MOST_DISKS} sizes in MiB")
    return tuple(_COUNT(field, size) for size in value)


def nics(field: str, value: Any) -> tuple[clusters.Nic, ...]:
    """Network interfaces, each an object with `network`, `mac` and `link` or some of them."""
    if not isinstance(value, (list, tuple)) or len(value) > MOST_NICS:
        raise errors.InvalidInput(f"{field}: {value!r} is no list of at most {MOST_NICS} network interfaces")
    return tuple(_nic(f"{field}/{index}", nic) for index, nic in enumerate(value))


def tags(field: str, value: Any) -> tuple[str, ...]:
    """Tags, each once."""
    if not isinstance(value, (list, tuple)):
        raise errors.InvalidInput(f"{field}: {value!r} is no list of tags")
    for tag in value:
        tagging.check_tag(str(tag))
    return tuple(dict.fromkeys(str(tag) for tag in value))


_COUNT = value_rules.number(1, value_rules.MOST, whole=True)
_SIZE = value_rules.number(0, value_rules.MOST, whole=True)
_MINOR = value_rules.number(0, 2**20 - 1, whole=True)
_UUID = value_rules.text(value_rules.UUID, "a UUID in lower case")
_PATH = value_rules.text(
    r"(?=.{1,4000}\Z)(/(?!\.\.?(/|\Z))[^\x00-\x1f\x7f-\x9f/{}\"'`$\\;|&<>*?]+)+",
    "an absolute path without special characters",
)
_VOLUME = value_rules.text(
    r"[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}/[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}", "a logical volume, as in vg/name"
)
check_resource = value_rules.text(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,126}", "the name of a DRBD resource")
_DISK_NAMES: Mapping[str, Rule] = {"drbd": check_resource, "plain": _VOLUME, "file": _PATH, "sharedfile": _PATH}
_TEMPLATE, _HYPERVISOR = value_rules.one_of(*TEMPLATES), value_rules.one_of(*HYPERVISORS)
_STATE = value_rules.one_of("up", "down")
_NO_NAME = value_rules.text("", "empty, as an instance without disks has no names of them")
_LINK = value_rules.text(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}|", "the name of a bridge")
_NETWORK = value_rules.text(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,252}|", "the name of a network")
_MAC = value_rules.text(r"([0-9a-f]{2}(:[0-9a-f]{2}){5})?", "a MAC address, as in 52:54:00:12:34:56")
CHANGEABLE: Mapping[str, Rule] = {
    "memory": _COUNT,
    "vcpus": _COUNT,
    "auto_balance": value_rules.flag,
    "spindle_use": value_rules.number(0, 10**6, whole=True),
    "hvparams": hvparams,
}
"""What may be changed of an instance; memory, vcpus and hvparams take effect when it starts the next time."""
GIVEN: Mapping[str, Rule] = {
    "name": name,
    "disk_template": _TEMPLATE,
    "disks": sizes,
    "nics": nics,
    "hypervisor": _HYPERVISOR,
    "tags": tags,
    **CHANGEABLE,
}
"""What is given of a new instance."""


def draft(cluster: clusters.Cluster, uuid: str, fields: Mapping[str, Any]) -> clusters.Instance:
    """A new instance that has no nodes yet; its disks have no minors.

    Raises:
        InvalidInput: a value is missing or not accepted, or the name or an address of an interface is taken.
    """
    required: dict[str, Any] = {"name": None, "disk_template": None, "memory": None}
    given = parameters.checked({**required, "disks": (), **fields}, GIVEN)
    given.setdefault("hypervisor", usual_hypervisor(cluster))
    given["hvparams"] = {key: text for key, text in given.get("hvparams", {}).items() if text is not None}
    problems = all_problems.Problems()
    with problems.noting():
        parameters.refuse_taken(given["name"], cluster.instances, but=uuid, kind="instance")
    with problems.noting():
        _refuse_unlike_template(given["disk_template"], given["disks"])
    with problems.noting():
        _refuse_known_address(cluster, given.get("nics", ()))
    with problems.noting():
        hypervisor_rules.check(given["hypervisor"], given["hvparams"])
    problems.refuse()
    given["disks"] = tuple(clusters.Disk(size) for size in given["disks"])
    given["tags"] = tuple(dict.fromkeys([*given.get("tags", ()), clusters.UNFINISHED]))
    return clusters.Instance(uuid, primary_node="", admin_state="down", **given)


def _refuse_unlike_template(template: str, disks: Sequence[int]) -> None:
    if bool(disks) is (template == "diskless"):
        raise errors.InvalidInput(f"disks: an instance has {'none' if disks else 'some'} when it is {template}")


def _refuse_known_address(cluster: clusters.Cluster, given: Sequence[clusters.Nic]) -> None:
    known = {nic.mac: instance.name for instance in cluster.instances.values() for nic in instance.nics if nic.mac}
    for nic in given:
        if nic.mac in known:
            raise errors.InvalidInput(f"nics: {known[nic.mac]} has the address {nic.mac} already")


def reserve(cluster: clusters.Cluster, instance: clusters.Instance, nodes: Sequence[str]) -> list[changes.Change]:
    """The change that gives a draft its nodes (UUIDs, the primary first) and its DRBD devices their minors.

    Raises:
        InvalidInput: it has another number of nodes than its disk template.
    """
    wanted = 2 if instance.disk_template == "drbd" else 1
    if len(set(nodes)) != wanted or len(nodes) != wanted:
        raise errors.InvalidInput(f"nodes: an instance with the disk template {instance.disk_template} has {wanted}")
    placed = dataclasses.replace(instance, primary_node=nodes[0], secondary_nodes=tuple(nodes[1:]))
    if instance.disk_template == "drbd":
        free = free_minors(cluster, len(instance.disks))
        disks = tuple(dataclasses.replace(disk, minor=free[index]) for index, disk in enumerate(instance.disks))
        placed = dataclasses.replace(placed, disks=disks)
    return [membership.InstanceStands(placed)]


def adopt(cluster: clusters.Cluster, instance: clusters.Instance) -> list[changes.Change]:
    """The change that puts an instance on record that was there before its cluster knew of it.

    Raises:
        InvalidInput: its name or its UUID is known, or a value of it breaks the rule that a typed value has to keep.
    """
    check_recorded(instance)
    parameters.refuse_taken(instance.name, cluster.instances, but="", kind="instance")
    if instance.uuid in cluster.instances:
        raise errors.InvalidInput(f"uuid: {cluster.instances[instance.uuid].name} has the UUID {instance.uuid} already")
    return [membership.InstanceStands(instance)]


def check_recorded(instance: clusters.Instance) -> None:
    """Refuse values that nobody could have typed: of an adopted instance, which a host tells, or of a document.

    Raises:
        InvalidInput: the text names the field.
    """
    for rule, field, value in recorded(instance):
        rule(field, value)


def recorded(instance: clusters.Instance) -> Iterator[tuple[Rule, str, Any]]:
    """Each value of an instance on record with its field and the rule that a typed value has to keep."""
    yield name, "name", instance.name
    yield _UUID, "uuid", instance.uuid
    yield _TEMPLATE, "disk_template", instance.disk_template
    yield _HYPERVISOR, "hypervisor", instance.hypervisor
    yield _STATE, "admin_state", instance.admin_state
    for field in ("memory", "vcpus", "spindle_use"):
        yield CHANGEABLE[field], field, getattr(instance, field)
    yield _at_most_adopted, "disks", instance.disks
    yield _at_most_adopted, "nics", instance.nics
    for index, disk in enumerate(instance.disks):
        yield _SIZE, f"disks/{index}/size", disk.size
        if disk.name:
            yield _DISK_NAMES.get(instance.disk_template, _NO_NAME), f"disks/{index}/name", disk.name
        if disk.minor is not None:
            yield _MINOR, f"disks/{index}/minor", disk.minor
    for index, nic in enumerate(instance.nics):
        yield _nic, f"nics/{index}", {"network": nic.network, "mac": nic.mac, "link": nic.link}
    for tag in instance.tags:
        yield _tag, "tags", tag
    if instance.hvparams:
        yield hvparams, "hvparams", dict(instance.hvparams)
        for key, text in instance.hvparams.items():
            yield _hvparam_of(instance.hypervisor), "hvparams", {key: text}


def _tag(field: str, value: str) -> None:
    try:
        tagging.check_tag(value)
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{field}: {error}") from error


def _at_most_adopted(field: str, value: Sequence[Any]) -> None:
    if len(value) > MOST_ADOPTED:
        raise errors.InvalidInput(f"{field}: an instance has at most {MOST_ADOPTED} of them")


def _hvparam_of(hypervisor: str) -> Rule:
    return lambda _field, value: hypervisor_rules.check(hypervisor, value)


def modify(cluster: clusters.Cluster, known: str, fields: Mapping[str, Any]) -> list[changes.Change]:
    """The change that gives an instance other parameters; an hvparam that is None is as if never given.

    Raises:
        NotFound: there is no such instance. InvalidInput: a value is not accepted.
    """
    instance = cluster.instance(known)
    given = parameters.checked(fields, CHANGEABLE)
    if "hvparams" in given:
        asked = {key: text for key, text in given["hvparams"].items() if text is not None}
        hypervisor_rules.check(instance.hypervisor, asked)
        stands = {**instance.hvparams, **given["hvparams"]}
        given["hvparams"] = {key: text for key, text in stands.items() if text is not None}
    return [membership.InstanceStands(dataclasses.replace(instance, **given))]


def usual_hypervisor(cluster: clusters.Cluster) -> str:
    """The hypervisor of a new instance for which none is named: that of all others, else kvm."""
    found = {instance.hypervisor for instance in cluster.instances.values()}
    return found.pop() if len(found) == 1 else HYPERVISORS[0]


def free_minors(cluster: clusters.Cluster, count: int) -> list[int]:
    """The lowest numbers that no DRBD device of the cluster has, nor any that was left behind on a node."""
    left = (entry.instance for entry in cluster.maintenance.left_behind)
    instances = (*cluster.instances.values(), *left)
    taken = {disk.minor for instance in instances for disk in instance.disks if disk.minor is not None}
    return [minor for minor in range(len(taken) + count) if minor not in taken][:count]


def _nic(place: str, value: Any) -> clusters.Nic:
    if not isinstance(value, dict) or set(value) - set(NIC_FIELDS):
        raise errors.InvalidInput(f"{place}: {value!r} is no object with some of {', '.join(NIC_FIELDS)}")
    mac = value.get("mac") or ""
    return clusters.Nic(
        _NETWORK(f"{place}/network", value.get("network") or ""),
        _MAC(f"{place}/mac", mac.lower() if isinstance(mac, str) else mac),
        _LINK(f"{place}/link", value.get("link") or ""),
    )
