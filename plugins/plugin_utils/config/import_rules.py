"""What a configuration must keep to be imported: the rules of values that people type, and that no host invents.

They hold at an import only. A configuration that is on disk is loaded if it can be represented, so that a daemon always
starts with what it wrote; `refusals` tells what an import of it would refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.domain.values import control_characters, errors, ip_addresses, value_rules
from ..cluster import cluster as clusters
from ..cluster import job_filters, tagging
from ..settings import addresses, host_variables, instance_making, instance_policy, parameter_rules
from . import document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ...module_utils.domain.values.value_rules import Rule
    from ..cluster import incidents

MOST_LISTED, LONGEST = 20, 300
"""Findings that a refusal lists, and the characters of each."""
_COUNT = value_rules.number(0, value_rules.MOST, whole=True)
_TIME = value_rules.number(0, 253_402_300_799, whole=False)
"""Unix seconds until the end of the year 9999: no calendar goes further."""
_JOB = value_rules.number(0, 10**11, whole=True)
_UUID = value_rules.text(value_rules.UUID, "a UUID in lower case")
_LINE = value_rules.text(r"[^\x00-\x1f\x7f]{0,10000}", "one line of text")
_GENERATION = value_rules.text(r"([0-9a-f]{16})?", "16 hex digits")
_STAMPS: Mapping[str, Rule] = {"serial_no": _COUNT, "ctime": _TIME, "mtime": _TIME}
_NODE_LIFE: Mapping[str, Rule] = {
    "off_confirmed": _TIME,
    "off_stated_by": _LINE,
    "off_read": value_rules.flag,
    "off_since": _TIME,
    "powered_on_at": _TIME,
    "alive_at": _TIME,
}
_MERGED = frozenset({"group", "hostvars", "ipolicy", *parameter_rules.LIMITS, *parameter_rules.NDPARAMS})
"""Fields that are no plain values of their object: each is looked at by itself."""


def load(data: bytes, *, is_lab: bool) -> clusters.Cluster:
    """The cluster of a document that is to be imported, at a lab's controller or another one.

    Raises:
        InvalidInput: it cannot be represented, or has values that could not be set; the text lists object and field.
    """
    cluster = document.load(data)
    found = refusals(cluster, is_lab=is_lab)
    if found:
        listed = "\n".join(found[:MOST_LISTED])
        more = f"\nand {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
        raise errors.InvalidInput(
            f"the document has values that cannot be set; correct them, then import it again:\n{listed}{more}"
        )
    return cluster


def refusals(cluster: clusters.Cluster, *, is_lab: bool) -> list[str]:
    """What a lab's controller or another one would refuse of this configuration, a line for each value."""
    return [*findings(cluster), *(() if is_lab else _simulated(cluster))]


def _simulated(cluster: clusters.Cluster) -> Iterator[str]:
    """What only a lab's nodes run."""
    for instance in cluster.instances.values():
        if instance.hypervisor == instance_making.SIMULATED:
            reason = f"{instance_making.SIMULATED} is for labs, and this cluster is none: use kvm"
            yield from _lines(_named("instance", instance), [f"hypervisor: {reason}"])


def findings(cluster: clusters.Cluster) -> list[str]:
    """What an import of this configuration would refuse, a line for each value: object, field and reason."""
    return [
        *_lines("the cluster", _of_cluster(cluster)),
        *_lines("the settings", _by_rules(cluster.maintenance.settings, parameter_rules.SETTINGS)),
        *_of_maintenance(cluster),
        *(
            line
            for group in cluster.nodegroups.values()
            for line in _lines(_named("node group", group), _of_group(cluster, group))
        ),
        *_of_nodes(cluster),
        *(
            line
            for instance in cluster.instances.values()
            for line in _lines(_named("instance", instance), _of_instance(instance))
        ),
        *(
            line
            for uuid, job_filter in cluster.filters.items()
            for line in _lines(f"filter {uuid}", _of_filter(uuid, job_filter))
        ),
    ]


def _named(kind: str, entry: clusters.Group | clusters.Node | clusters.Instance) -> str:
    return f"{kind} {entry.name[:100] or entry.uuid[:100] or 'without a name'}"


def _lines(place: str, problems: Iterable[str]) -> Iterator[str]:
    for problem in problems:
        line = f"{place}: {problem}"
        yield control_characters.escaped(line if len(line) <= LONGEST else f"{line[:LONGEST]} ...")


def _problem(check: Callable[..., object], *values: Any) -> Iterator[str]:
    """Why a rule rejects these values, if it does."""
    try:
        check(*values)
    except errors.RoundsmanError as error:
        yield str(error)


def _by_rules(entry: Any, rules: Mapping[str, Rule]) -> Iterator[str]:
    for name, rule in rules.items():
        try:
            rule(name, getattr(entry, name))
        except errors.InvalidInput as error:
            yield str(error)


def _plain(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    return {**{name: rule for name, rule in rules.items() if name not in _MERGED}, **_STAMPS}


_CLUSTER, _GROUP, _NODE = map(_plain, (parameter_rules.CLUSTER, parameter_rules.GROUP, parameter_rules.NODE))


def _common(entry: clusters.Parameters | clusters.Group | clusters.Node) -> Iterator[str]:
    """The UUID, the parameters of nodes and the tags of an object."""
    yield from _problem(_UUID, "uuid", entry.uuid)
    for name, value in entry.ndparams.items():
        if name in parameter_rules.NDPARAMS:
            yield from _problem(parameter_rules.NDPARAMS[name], f"ndparams.{name}", value)
            if value == parameter_rules.DEFAULT:
                yield f"ndparams.{name}: is {value!r}: leave it out to inherit it"
        else:
            yield f"ndparams: there is no parameter {name[:100]!r}"
    yield from _tags(entry.tags)


def _tags(tags: Iterable[str]) -> Iterator[str]:
    for tag in tags:
        for problem in _problem(tagging.check_tag, tag):
            yield f"tags: {problem}"


def _of_cluster(cluster: clusters.Cluster) -> Iterator[str]:
    own = cluster.cluster
    yield from _by_rules(own, _CLUSTER)
    yield from _common(own)
    yield from _problem(addresses.version, "primary_ip_version", own.primary_ip_version)
    yield from _problem(instance_policy.check, own.ipolicy)
    yield from _by_rules(cluster, _STAMPS)


def _of_group(cluster: clusters.Cluster, group: clusters.Group) -> Iterator[str]:
    yield from _by_rules(group, _GROUP)
    yield from _common(group)
    try:
        instance_policy.check(group.ipolicy, over=cluster.cluster.ipolicy)
    except errors.InvalidInput as error:
        yield str(error)


def _of_nodes(cluster: clusters.Cluster) -> Iterator[str]:
    owners: dict[str, str] = {}
    for node in cluster.nodes.values():
        yield from _lines(_named("node", node), [*_of_node(cluster, node), *_doubled(node, owners)])
    for node, other in addresses.doubled_places(cluster.nodes.values()):
        text = f"SSH reaches {other.name} at {addresses.place_text(node)}, too"
        yield from _lines(_named("node", node), [f"hostvars.ansible_host: {text}"])


def _of_node(cluster: clusters.Cluster, node: clusters.Node) -> Iterator[str]:
    problems = list(_by_rules(node, _NODE))
    yield from problems
    yield from _by_rules(node, _NODE_LIFE)
    yield from _common(node)
    for name, text in node.hostvars.items():
        for problem in _problem(host_variables.given, "hostvars", {name: text}):
            yield problem
        if text in {"", host_variables.DEFAULT}:
            yield f"hostvars.{name[:100]}: is {text!r}: leave it out"
    if not any(problem.startswith(("primary_ip", "secondary_ip")) for problem in problems):
        yield from _problem(addresses.check_families, cluster.cluster.primary_ip_version, node)


def _doubled(node: clusters.Node, owners: dict[str, str]) -> Iterator[str]:
    """The addresses that an earlier node has; `owners` gets those of this node."""
    for field, address in {"primary_ip": node.primary_ip, "secondary_ip": node.secondary_ip}.items():
        if address and ip_addresses.is_address(address) and not ip_addresses.is_loopback(address):
            owner = owners.setdefault(ip_addresses.normal(address), node.uuid)
            if owner != node.uuid:
                yield f"{field}: {address} is the address of another node, too"


def _of_instance(instance: clusters.Instance) -> Iterator[str]:
    for rule, field, value in instance_making.recorded(instance):
        try:
            rule(field, value)
        except errors.InvalidInput as error:
            yield str(error)
    yield from _by_rules(instance, _STAMPS)
    if len(set(instance.nodes)) != len(instance.nodes):
        yield "secondary_nodes: a node is there twice"
    for index, disk in enumerate(instance.disks):
        if disk.spindles is not None:
            yield from _problem(_COUNT, f"disks/{index}/spindles", disk.spindles)
    if instance.moving:
        yield from _problem(_UUID, "moving", instance.moving)
    if instance.parted is not None:
        yield from _problem(_TIME, "parted/since", instance.parted.since)
        yield from _problem(_TIME, "parted/last_in_sync", instance.parted.last_in_sync)
        yield from _problem(_UUID, "parted/node", instance.parted.node)
        for generation in instance.parted.generations:
            yield from _problem(_GENERATION, "parted/generations", generation)


def _of_maintenance(cluster: clusters.Cluster) -> Iterator[str]:
    maintenance = cluster.maintenance
    rules = {"round": _COUNT, **_STAMPS}
    yield from _lines("maintenance", _by_rules(maintenance, rules))
    yield from _lines("maintenance", _jobs("jobs", maintenance.jobs))
    for incident in maintenance.incidents:
        yield from _lines(f"incident {incident.uuid[:100]}", _of_incident(incident))
    for entry in maintenance.left_behind:
        yield from _lines(f"maintenance/left_behind of {entry.instance.name[:100]}", _of_left(entry))
    if maintenance.epo is not None:
        yield from _lines("maintenance/epo", _of_epo(maintenance.epo))


def _jobs(name: str, numbers: Iterable[int]) -> Iterator[str]:
    for number in numbers:
        yield from _problem(_JOB, name, number)


def _of_incident(incident: incidents.Incident) -> Iterator[str]:
    yield from _by_rules(incident, {"uuid": _UUID, "node": _UUID, "returned_at": _TIME, **_STAMPS})
    yield from _tags([incident.tag])
    yield from _jobs("jobs", incident.jobs)
    yield from _jobs("power_jobs", incident.power_jobs)


def _of_left(entry: clusters.LeftBehind) -> Iterator[str]:
    yield from _problem(_UUID, "node", entry.node)
    yield from _problem(_TIME, "since", entry.since)
    for generation in entry.generations:
        yield from _problem(_GENERATION, "generations", generation)
    yield from _of_instance(entry.instance)


def _of_epo(epo: Any) -> Iterator[str]:
    for field in ("nodes", "instances"):
        for uuid in getattr(epo, field):
            yield from _problem(_UUID, field, uuid)
    yield from _problem(_LINE, "by", epo.by)
    yield from _problem(_TIME, "since", epo.since)


def _of_filter(uuid: str, job_filter: job_filters.Filter) -> Iterator[str]:
    yield from _problem(_UUID, "uuid", uuid)
    if job_filter.uuid != uuid:
        yield f"uuid: is {job_filter.uuid[:100]}"
    yield from _problem(_JOB, "watermark", job_filter.watermark)
    told = {
        "priority": job_filter.priority,
        "predicates": [list(predicate) for predicate in job_filter.predicates],
        "action": job_filters.tell_action(job_filter),
    }
    yield from _problem(
        lambda: job_filters.make(told, uuid=uuid, watermark=job_filter.watermark, reason=job_filter.reason)
    )
