"""What people ask all planners beside the rounds, for one cluster after the other: commands, and allocators' requests.

Which nodes, instances and options are asked about is chosen by chance, from the number of the cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import troubled_clusters
from tests.golden.planning import product, texts
from tests.troubled_clusters import Case, Luck

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

Asked = Callable[[Path, Case], Iterator[str]]
LARGEST = ("--max-inst-spec", "8192,102400,2")


def evacuations(root: Path, case: Case) -> Iterator[str]:
    """Nodes are left by hand: all of one, only primaries, only secondaries, two at once without live migration."""
    luck, nodes = _luck(case, 1), _nodes(case)
    first, second, *_ = luck.shuffled(nodes)
    other = luck.pick(
        (
            ("evacuate", second, "--mode", "primary-only", "--plan"),
            ("evacuate", second, "--mode", "secondary-only", "--plan"),
            ("evacuate", first, second, "--failover", "--plan"),
        )
    )
    yield from _answers(root, case, ("evacuate", first, "--plan"), other)


def groups(root: Path, case: Case) -> Iterator[str]:
    """Instances leave their group, all of it or a few, with targets, with nodes and without."""
    luck, known = _luck(case, 2), sorted(entry.name for entry in case.cluster.nodegroups.values())
    name, other = luck.pick(known), luck.pick(known)
    some = luck.shuffled([entry.name for entry in case.cluster.instances.values()])[:3]
    nodes = luck.shuffled(_nodes(case))
    commands: list[tuple[str, ...]] = [("group", "drain", name, "--plan")]
    if len(known) > 1:
        commands.append(("group", "drain", name, "--to", other, "--failover", "--plan"))
        commands.append(("instance", "change-group", some[0], "--plan"))
        commands.append(("instance", "change-group", some[1], "--to", other, "--plan"))
        commands.append(("instance", "change-group", some[2], "--primary", nodes[0], "--secondary", nodes[1], "--plan"))
    yield from _answers(root, case, *commands)


def balances(root: Path, case: Case) -> Iterator[str]:
    """A group is balanced: as ours does it, as Ganeti's hbal does it, and with limits."""
    luck, known = _luck(case, 3), sorted(entry.name for entry in case.cluster.nodegroups.values())
    name, node = luck.pick(known), luck.pick(_nodes(case))
    limits = (
        ("--no-disk-moves",),
        ("--max-moves", "2"),
        ("--no-instance-moves",),
        ("--evacuate-offline",),
        ("--offline", node),
        ("--price", "0"),
        ("--min-gain", "0.5"),
    )
    which = ("--group", name) if len(known) > 1 else ()
    # Our search takes long: only half of the clusters have it.
    ours = [("balance", *which), ("balance", "--group", name, *luck.pick(limits))] if case.number // 20 % 2 == 0 else []
    yield from _answers(root, case, *ours, ("balance", *which, "--like-hbal"))


def outages(root: Path, case: Case) -> Iterator[str]:
    """Which nodes can be rebooted together, and which failures are survived."""
    luck, nodes = _luck(case, 4), _nodes(case)
    kinds = ("--offline-maintenance", "--ignore-non-redundant", "--skip-non-redundant")
    first, second, *_ = luck.shuffled(nodes)
    yield from _answers(
        root, case, ("rolling",), ("rolling", luck.pick(kinds)), ("n1",), ("n1", "--fail", first, "--fail", second)
    )


def capacities(root: Path, case: Case) -> Iterator[str]:
    """How many instances still fit: with the limits of the call, and in words."""
    yield from _answers(root, case, ("capacity", *LARGEST))
    more = ("--max-cpu-ratio", "2", "--max-disk-usage", "0.5", "--accept-existing")
    yield from _answers(root, case, ("capacity", *LARGEST, *more), form="commands")


def emergencies(root: Path, case: Case) -> Iterator[str]:
    """What an emergency power off of some nodes, of a group or of all would do, and its return."""
    luck, nodes = _luck(case, 6), _nodes(case)
    group = luck.pick(sorted(entry.name for entry in case.cluster.nodegroups.values()))
    some = luck.shuffled(nodes)[:2]
    commands = [("cluster", "epo", *some), ("cluster", "epo", "--groups", group), ("cluster", "epo", "--all")]
    commands += [("cluster", "epo"), ("cluster", "epo", "--on"), ("cluster", "epo", "--on", some[0])]
    if case.cluster.maintenance.epo is None:
        commands = [luck.pick(commands[:3]), luck.pick(commands[3:])]
    yield from _answers(root, case, *((*entry, "--dry-run") for entry in commands))


def singles(_root: Path, case: Case) -> Iterator[str]:
    """Where one instance, or its replica, goes when nobody says where."""
    for instance in _luck(case, 7).shuffled(list(case.cluster.instances.values()))[:6]:
        yield from product.single(case.cluster, instance)


def allocations(root: Path, case: Case) -> Iterator[str]:
    """An allocator's requests: places for new instances, other places for those that are there."""
    known = _planned(case.cluster)
    for request in _requests(known, _luck(case, 8)):
        yield f"$ roundsman-iallocator {texts.value(request)}"
        yield from texts.document(product.allocate(root / "request.json", known, request))


def _requests(cluster: clusters.Cluster, luck: Luck) -> Iterator[dict[str, Any]]:
    groups = list(cluster.nodegroups.values())
    yield {"type": "allocate", **_newcomer(1, luck, group=luck.pick(groups).name if luck.chance(0.3) else None)}
    yield {"type": "multi-allocate", "instances": [_newcomer(number, luck, group=None) for number in (1, 2, 3)]}
    instances = luck.shuffled(list(cluster.instances.values()))
    if not instances:
        return
    first = instances[0]
    away = [cluster.node_name(uuid) for uuid in first.secondary_nodes or (first.primary_node,)]
    yield {"type": "relocate", "name": first.name, "required_nodes": 1, "relocate_from": away}
    primaries = [entry.name for entry in cluster.primaries(first.primary_node)]
    secondaries = [entry.name for entry in cluster.secondaries(first.primary_node)]
    for mode, names in (("all", primaries + secondaries), ("primary-only", primaries), ("secondary-only", secondaries)):
        yield {"type": "node-evacuate", "instances": names, "evac_mode": mode}
    targets = [entry.uuid for entry in groups if luck.chance(0.6)]
    yield {"type": "change-group", "instances": [entry.name for entry in instances[:3]], "target_groups": targets}
    alone = next((entry.name for entry in instances if not entry.secondary_nodes), first.name)
    yield {"type": "allocate-secondary", "name": alone}


def _newcomer(number: int, luck: Luck, *, group: str | None) -> dict[str, Any]:
    template, disk = (
        luck.pick(("drbd", "drbd", "drbd", "plain", "sharedfile", "blockdev")),
        luck.pick((1024, 20480, 204800)),
    )
    return {
        "name": f"new{number}",
        "memory": luck.pick((1024, 4096, 16384)),
        "vcpus": luck.between(1, 10),
        "disks": [{"size": disk, "mode": "rw"}],
        "disk_space_total": disk,
        "disk_template": template,
        "tags": ["dns-a"] if luck.chance(0.2) else [],
        "nics": [],
        "os": "debian",
        "hypervisor": "kvm",
        "spindle_use": 1,
        "required_nodes": 2 if template == "drbd" else 1,
        "group_name": group,
    }


ASKED: dict[str, tuple[Asked, int, int]] = {
    "evacuations": (evacuations, 0, 4),
    "groups": (groups, 1, 2),
    "balances": (balances, 2, 4),
    "outages": (outages, 3, 4),
    "capacities": (capacities, 0, 8),
    "emergencies": (emergencies, 1, 4),
    "singles": (singles, 0, 2),
    "allocations": (allocations, 4, 8),
}
"""What is asked, with the first of the clusters and the distance to the next: each theme has its turn."""


def _planned(cluster: clusters.Cluster) -> clusters.Cluster:
    """The cluster without what cannot be put into a request: unknown disk templates, and pairs without a secondary."""
    known = {
        uuid: entry
        for uuid, entry in cluster.instances.items()
        if entry.disk_template not in troubled_clusters.UNKNOWN
        and (entry.disk_template != "drbd" or entry.secondary_nodes)
    }
    return dataclasses.replace(cluster, instances=known)


def _answers(root: Path, case: Case, *commands: tuple[str, ...], form: str = "json") -> Iterator[str]:
    product.configure(root, case.cluster)
    for words in commands:
        yield from texts.command(words, *product.command(root, [*words, "-o", form]))


def _luck(case: Case, purpose: int) -> Luck:
    return Luck(1000 * purpose + case.number)


def _nodes(case: Case) -> list[str]:
    return [entry.name for entry in case.cluster.nodes.values()]
