"""Where instances run as the nodes themselves say, compared with the configuration; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..module_utils import lab_drivers
from ..module_utils.hypervisor import drivers, virsh
from . import replica_evidence
from .cluster import locks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..module_utils.domain.disks import replicas
    from .cluster import cluster as clusters

PRIMARY = "Primary"


@dataclass(frozen=True)
class Look:
    """What was seen on a node.

    `states` are the instances that are there, by name, and how they are; `writable` the DRBD resources that the node
    may write, `unread` those of which it cannot say that, with the reason; `trouble` says why not all could be seen,
    which is nothing wrong where the node `is_offline`.
    """

    states: Mapping[str, str] = field(default_factory=dict)
    writable: tuple[str, ...] = ()
    trouble: str = ""
    is_offline: bool = False
    unread: Mapping[str, str] = field(default_factory=dict)


class Difference(NamedTuple):
    """Something that differs between a node and the configuration; `instance` is '' for the node as a whole."""

    node: str
    instance: str
    text: str


def records(cluster: clusters.Cluster) -> dict[str, dict[str, Any]]:
    """What the configuration says of each instance, by name, as JSON values."""
    return {
        instance.name: {
            "primary": cluster.node_name(instance.primary_node),
            "up": instance.is_up and not instance.is_unfinished,
            "hypervisor": instance.hypervisor,
            "resources": list(replica_evidence.resources(instance)),
            # It may run there, too: nobody ends what may be its only guest.
            **({"moving": cluster.node_name(instance.moving)} if instance.moving else {}),
        }
        for instance in cluster.instances.values()
    }


def hypervisors(cluster: clusters.Cluster) -> list[str]:
    """The hypervisors of the instances."""
    return sorted({instance.hypervisor for instance in cluster.instances.values()})


def replicated(cluster: clusters.Cluster) -> list[str]:
    """The hypervisors of the instances with DRBD disks."""
    return sorted({instance.hypervisor for instance in cluster.instances.values() if instance.disk_template == "drbd"})


def seen(answers: Mapping[str, Sequence[Mapping[str, Any]]], *, is_offline: bool = False) -> Look:
    """What a node answered: `runs` of the module `instance_info`, `disks` of `drbd_info`, for each hypervisor.

    One that did not answer the former is not asked the latter.
    """
    runs = answers.get("runs", ())
    disks = () if any(answer.get("unreachable") for answer in runs) else answers.get("disks", ())
    troubles = [_trouble(answer, "states", dict, "instances") for answer in runs]
    troubles += [_trouble(answer, "sides", list, "disks") for answer in disks]
    told = [answer["states"] for answer in runs if isinstance(answer.get("states"), dict)]
    states = {name: str(state) for states in told for name, state in states.items()}
    sides = [side for answer in disks if isinstance(answer.get("sides"), list) for side in answer["sides"]]
    writable = tuple(str(side.get("resource")) for side in sides if side.get("role") == PRIMARY)
    unread = {str(name): str(why) for answer in disks for name, why in (answer.get("unread") or {}).items()}
    trouble = "; ".join(dict.fromkeys(filter(None, troubles)))
    return Look(states, writable, trouble, is_offline=is_offline, unread=unread)


def at_work(cluster: clusters.Cluster, held: Iterable[Mapping[str, str]]) -> list[str]:
    """The instances (names) that jobs or plays work on: what each of them has locked is given, with its mode."""
    exclusive = {lock for locked in held for lock, mode in locked.items() if mode == locks.Mode.EXCLUSIVE.value}
    if locks.set_of("instance/x") in exclusive:
        return sorted(instance.name for instance in cluster.instances.values())
    return sorted(instance.name for instance in cluster.instances.values() if f"instance/{instance.uuid}" in exclusive)


def second_copies(known: Mapping[str, Mapping[str, Any]], looks: Mapping[str, Look]) -> dict[str, list[str]]:
    """By node what it runs, or may write, of instances whose primary is another node, with what a person does."""
    found: dict[str, list[str]] = {}
    for difference in _second_copies(known, looks):
        found.setdefault(difference.node, []).append(difference.text)
    return found


def _second_copies(known: Mapping[str, Mapping[str, Any]], looks: Mapping[str, Look]) -> Iterable[Difference]:
    for node in looks:
        yield from _elsewhere(node, known, looks)
        yield from _writes(node, known, looks[node])
        yield from (each for each in _unread(node, known, looks[node]) if not _may_run_on(node, known[each.instance]))


def reported(cluster: clusters.Cluster, node: str, track: replicas.NodeTrack | None) -> list[str]:
    """What a node (UUID) may write, by its newest report, of instances whose primary is another node.

    A report from before the instance last changed does not count, and nor does a resource that has its peer: two that
    are connected write the same.
    """
    if track is None:
        return []
    alone = [
        name for (name, _), volume in track.volumes.items() if volume.fact is not None and _writes_alone(volume.fact)
    ]
    older = {instance.name for instance in cluster.instances.values() if instance.mtime < track.at.wall}
    known = {name: record for name, record in records(cluster).items() if name in older}
    name = cluster.node_name(node)
    return second_copies(known, {name: Look(writable=tuple(dict.fromkeys(alone)))}).get(name, [])


def _writes_alone(fact: replicas.ReplicaFact) -> bool:
    return fact.role.value == PRIMARY and not fact.is_connected


def wrong(known: Mapping[str, Mapping[str, Any]], looks: Mapping[str, Look]) -> list[Difference]:
    """Whatever differs between the nodes and the configuration."""
    found = [
        Difference(node, "", f"what runs on {node} is not known: {look.trouble}")
        for node, look in looks.items()
        if look.trouble and not look.is_offline
    ]
    found += _second_copies(known, looks)
    for node, look in looks.items():
        found += [each for each in _unread(node, known, look) if _may_run_on(node, known[each.instance])]
        for name in sorted(name for name in look.states if name not in known):
            found.append(Difference(node, name, f"{name} is on {node}, and the configuration has no such instance"))
    for name, record in known.items():
        if text := _missing(name, record, looks):
            found.append(Difference(record["primary"], name, text))
    return found


def to_look_again(
    differences: Iterable[Difference], known: Mapping[str, Mapping[str, Any]], looks: Mapping[str, Look]
) -> list[str]:
    """The nodes that a difference is about: where it was seen, and where the instance is or should be."""
    names = {difference.instance for difference in differences if difference.instance}
    about = {difference.node for difference in differences if difference.instance}
    about |= {known[name]["primary"] for name in names if name in known}
    return [node for node, look in looks.items() if node in about or names & set(look.states)]


def settled(
    differences: Iterable[Difference],
    before: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
    busy: Iterable[str],
) -> list[Difference]:
    """The differences of the second look that are no move in flight.

    `before` the second look there were `differing` instances, and `busy` ones that jobs worked on, and the
    configuration had `records` of them. Without it all differences count.
    """
    if not before:
        return list(differences)
    moving = {*before["busy"], *busy}
    return [
        difference
        for difference in differences
        if not difference.instance
        or (
            difference.instance in before["differing"]
            and difference.instance not in moving
            and before["records"].get(difference.instance) == records.get(difference.instance)
        )
    ]


def _may_run_on(node: str, record: Mapping[str, Any]) -> bool:
    return node in {record["primary"], record.get("moving")}


def _elsewhere(node: str, known: Mapping[str, Mapping[str, Any]], looks: Mapping[str, Look]) -> Iterable[Difference]:
    for name, state in sorted(looks[node].states.items()):
        if name not in known or _may_run_on(node, known[name]):
            continue
        primary = known[name]["primary"]
        there = looks[primary].states.get(name) if primary in looks and not looks[primary].trouble else None
        is_twice = "" if there is None else f", where it is {there} too"
        text = (
            f"{name} is {state} on {node}, and its primary is {primary}{is_twice}: decide which one has the right "
            f"data, then end this one on {node} with `{end_command(name, known[name]['hypervisor'])}`"
        )
        yield Difference(node, name, text)


def _writes(node: str, known: Mapping[str, Mapping[str, Any]], look: Look) -> Iterable[Difference]:
    owners = {resource: name for name, record in known.items() for resource in record["resources"]}
    for resource in sorted(look.writable):
        name = owners.get(resource, "")
        if name and not _may_run_on(node, known[name]):
            text = (
                f"{node} may write the disk {resource} of {name}, whose primary is {known[name]['primary']}: once "
                f"nothing on {node} uses it, run `drbdadm secondary {resource}` there"
            )
            yield Difference(node, name, text)


def _unread(node: str, known: Mapping[str, Mapping[str, Any]], look: Look) -> Iterable[Difference]:
    owners = {resource: name for name, record in known.items() for resource in record["resources"]}
    for resource, reason in sorted(look.unread.items()):
        if resource in owners:
            text = f"whether {node} may write the disk {resource} of {owners[resource]} is not known: {reason}"
            yield Difference(node, owners[resource], text)


def _missing(name: str, record: Mapping[str, Any], looks: Mapping[str, Look]) -> str:
    """What is wrong with an instance where it should run, unless it runs elsewhere or nobody could look."""
    look, node = looks.get(record["primary"]), record["primary"]
    if look is None or look.trouble or any(name in other.states for key, other in looks.items() if key != node):
        return ""
    state = look.states.get(name)
    if record["up"] and state is None and look.is_offline:
        steps = f"run `roundsman node online {node}`, then `roundsman instance start {name}`"
        return f"{name} does not run on its primary {node}, which is offline, and should: {steps}"
    if record["up"] and state is None:
        return f"{name} does not run on its primary {node}, and should: run `roundsman instance start {name}`"
    if record["up"] and state != drivers.RUNNING:
        return f"{name} should run on its primary {node}, and is {state}"
    if not record["up"] and state is not None:
        end = f"`roundsman instance stop {name}`"
        if look.is_offline:
            end = f"`{end_command(name, record['hypervisor'])}` there, because {node} is offline"
        return f"{name} is {state} on {node}, and should be down: run {end}"
    return ""


def _trouble(answer: Mapping[str, Any], key: str, shape: type, what: str) -> str:
    """Why an answer does not tell; one whose list is missing, or is none, never means that there is nothing."""
    if answer.get("unreachable"):
        return "it does not answer"
    if isinstance(answer.get(key), shape):
        return ""
    return f"its answer does not say which {what} are there" if key in answer else str(answer.get("msg", "no message"))


def end_command(name: str, hypervisor: str) -> str:
    """What a person runs on a node to end a guest there, whatever the configuration says; below a lab's node's root."""
    if hypervisor == lab_drivers.NAME:
        return f"rm -f var/lib/roundsman/fake/{{running,paused,migrating}}/{name}.json"
    return virsh.by_hand("destroy", name)
