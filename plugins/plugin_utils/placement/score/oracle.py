"""Ganeti's score of a placement, written down plainly: the measure of every faster way to compute it.

All 20 components, from the model and who is where, from scratch. The components `_forth` and the exclusion tags know
forthcoming instances, the others do not. Source: the metrics of Ganeti's htools.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..models import tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..models import model

    Placement = Mapping[str, tuple[str, str]]

WEIGHTS = {
    "free_mem_cv": 0.5,
    "free_disk_cv": 0.5,
    "n1_cnt": 1.0,
    "reserved_mem_cv": 1.0,
    "offline_all_cnt": 4.0,
    "offline_pri_cnt": 16.0,
    "vcpu_ratio_cv": 0.5,
    "cpu_load_cv": 1.0,
    "mem_load_cv": 1.0,
    "disk_load_cv": 1.0,
    "net_load_cv": 1.0,
    "pri_tags_score": 2.0,
    "spindles_cv": 0.5,
    "free_mem_cv_forth": 0.5,
    "free_disk_cv_forth": 0.5,
    "vcpu_ratio_cv_forth": 0.5,
    "spindles_cv_forth": 0.5,
    "location_score": 1.0,
    "location_exclusion_score": 1.0,
    "reserved_mem_rtotal": 0.25,
}
"""The components in their order, and what each counts in the score."""


@dataclass
class _Held:
    """A node with its primaries and secondaries: as the source says (`first`), and as they are placed now."""

    node: model.Node
    policy: model.Policy
    first_primaries: list[model.Instance] = field(default_factory=list)
    first_secondaries: list[model.Instance] = field(default_factory=list)
    primaries: list[model.Instance] = field(default_factory=list)
    secondaries: list[model.Instance] = field(default_factory=list)
    reserved: Counter[str] = field(default_factory=Counter)


def score(cluster: model.Model, placement: Placement | None = None, *, group: str | None = None) -> float:
    """The sum of the weighted components; less is better."""
    return total(components(cluster, placement, group=group))


def total(values: Mapping[str, float]) -> float:
    """The sum of components by their weights."""
    return _sum(WEIGHTS[name] * value for name, value in values.items())


def components(
    cluster: model.Model, placement: Placement | None = None, *, group: str | None = None
) -> dict[str, float]:
    """By name the 20 components over the nodes of one group (its name) or all; without a placement, as it is now."""
    found = _held(cluster, placement or {}, group)
    online = [held for held in found if not held.node.offline]
    offline = [held for held in found if held.node.offline]
    values = _spread(online) | _of_tags(cluster, placement or {}, online)
    values["n1_cnt"] = _sum(_everyone(held) for held in online if free_memory(held) <= _reserved(held))
    values["reserved_mem_rtotal"] = _sum(_ratio(_reserved(held), held.node.t_mem) for held in online)
    values["offline_all_cnt"] = _sum(_everyone(held) for held in offline)
    values["offline_pri_cnt"] = _sum(len(_real(held.primaries)) for held in offline)
    return {name: values[name] for name in WEIGHTS}


def bound(cluster: model.Model, *, group: str | None = None) -> float:
    """What the reserved memory costs at the least, if the largest node were lost; no search goes below it."""
    found = _held(cluster, {}, group)
    memory = _sum(held.node.t_mem for held in found)
    smaller = memory - max((held.node.t_mem for held in found), default=0.0)
    if len(found) < 2 or smaller <= 0:  # noqa: PLR2004 - one node has nobody to reserve for
        return 0.0
    reserved = float(sum(held.reserved.total() for held in found))
    return WEIGHTS["reserved_mem_rtotal"] * (reserved / smaller - reserved / memory)


def _held(cluster: model.Model, placement: Placement, group: str | None) -> list[_Held]:
    groups = {each.uuid: each for each in cluster.groups}
    found = {node.name: _Held(node, groups[node.group].policy) for node in cluster.nodes}
    for instance in cluster.instances:
        found[instance.primary].first_primaries.append(instance)
        primary, secondary = placement.get(instance.name, (instance.primary, instance.secondary))
        found[primary].primaries.append(instance)
        if instance.secondary:
            found[instance.secondary].first_secondaries.append(instance)
        if secondary:
            found[secondary].secondaries.append(instance)
            found[secondary].reserved[primary] += instance.memory * instance.reserves_memory
    return [held for held in found.values() if group is None or groups[held.node.group].name == group]


def _spread(online: Sequence[_Held]) -> dict[str, float]:
    """The components that are a standard deviation over nodes."""
    loads = {
        "cpu_load_cv": [_sum(instance.load.cpu for instance in _real(held.primaries)) for held in online],
        "mem_load_cv": [_sum(instance.load.memory for instance in _real(held.primaries)) for held in online],
        "disk_load_cv": [
            _sum(instance.load.disk for instance in _real(held.primaries + held.secondaries)) for held in online
        ],
        "net_load_cv": [_sum(instance.load.net for instance in _real(held.primaries)) for held in online],
    }
    ratios = {
        "reserved_mem_cv": [_ratio(_reserved(held), held.node.t_mem) for held in online],
        "free_mem_cv": [_ratio(free_memory(held), held.node.t_mem) for held in online],
        "free_mem_cv_forth": [_ratio(_expected_memory(held), held.node.t_mem) for held in online],
    }
    for name, expected in (("", False), ("_forth", True)):
        ratios[f"free_disk_cv{name}"] = [_free_disk(held, expected=expected) for held in online]
        ratios[f"vcpu_ratio_cv{name}"] = [_vcpus(held, expected=expected) for held in online]
        ratios[f"spindles_cv{name}"] = [_spindles(held, expected=expected) for held in online]
    return {name: _deviation(values) for name, values in (loads | ratios).items()}


def free_memory(held: _Held) -> int:
    """What is free by the records, less what was missing when the cluster was read."""
    recorded = int(held.node.t_mem) - held.node.n_mem
    missing = recorded - _taken(held.first_primaries) - held.node.f_mem
    return recorded - _taken(held.primaries) - max(0, missing)


def _expected_memory(held: _Held) -> int:
    return held.node.f_mem + _taken(held.first_primaries) - sum(instance.memory for instance in held.primaries)


def _taken(instances: Iterable[model.Instance]) -> int:
    return sum(instance.memory for instance in instances if instance.takes_memory)


def _reserved(held: _Held) -> int:
    return max(held.reserved.values(), default=0)


def _free_disk(held: _Held, *, expected: bool) -> float:
    """Volumes, or spindles on exclusive storage; a node without any counts as free."""
    node = held.node
    first = _real(held.first_primaries + held.first_secondaries)
    now = held.primaries + held.secondaries if expected else _real(held.primaries + held.secondaries)
    if node.exclusive_storage:
        return _ratio(node.free_spindles + _own_spindles(first) - _own_spindles(now), node.spindles, without=1.0)
    return _ratio(node.f_disk + _disk(first) - _disk(now), node.t_disk, without=1.0)


def _disk(instances: Iterable[model.Instance]) -> int:
    return sum(instance.disk for instance in instances if instance.template.is_on_volumes)


def _own_spindles(instances: Iterable[model.Instance]) -> int:
    return sum(instance.spindles or 0 for instance in instances if instance.template.is_on_volumes)


def _vcpus(held: _Held, *, expected: bool) -> float:
    counted = [
        instance.vcpus
        for instance in (held.primaries if expected else _real(held.primaries))
        if not instance.is_offline
    ]
    return _ratio(_ratio(held.node.os_vcpus + sum(counted), held.node.pcpus), held.node.cpu_speed)


def _spindles(held: _Held, *, expected: bool) -> float:
    """How busy the disks are; with exclusive storage nobody shares them."""
    everyone = held.primaries + held.secondaries
    counted = everyone if expected else _real(everyone)
    used = sum(instance.spindle_use for instance in counted if instance.template.is_on_volumes)
    limit = held.policy.spindle_ratio * held.node.spindles
    return 0.0 if held.node.exclusive_storage else _ratio(used, limit)


def _of_tags(cluster: model.Model, placement: Placement, online: Sequence[_Held]) -> dict[str, float]:
    exclusion = {instance.name: mine for instance, mine in zip(cluster.instances, tags.exclusion(cluster), strict=True)}
    desired = {instance.name: mine for instance, mine in zip(cluster.instances, tags.desired(cluster), strict=True)}
    locations = {node.name: mine for node, mine in zip(cluster.nodes, tags.locations(cluster), strict=True)}
    locations[""] = frozenset()
    conflicts, placed, pairs = 0, 0, Counter[tuple[str, str]]()
    for held in online:
        mine = locations[held.node.name]
        conflicts += _repeated(Counter(tag for instance in held.primaries for tag in exclusion[instance.name]))
        for instance in _real(held.primaries):
            _, secondary = placement.get(instance.name, ("", instance.secondary))
            placed += len(mine & locations[secondary]) + len(desired[instance.name] - mine)
            pairs.update((location, tag) for location in mine for tag in exclusion[instance.name])
    return {
        "pri_tags_score": float(conflicts),
        "location_score": float(placed),
        "location_exclusion_score": float(_repeated(pairs)),
    }


def _repeated(counts: Counter[str] | Counter[tuple[str, str]]) -> int:
    return counts.total() - len(counts)


def _real(instances: Iterable[model.Instance]) -> list[model.Instance]:
    return [instance for instance in instances if not instance.forthcoming]


def _everyone(held: _Held) -> int:
    return len(_real(held.primaries)) + len(_real(held.secondaries))


def _ratio(part: float, whole: float, *, without: float = 0.0) -> float:
    return part / whole if whole else without


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation of a population, 0 of none."""
    if not values:
        return 0.0
    mean = _sum(values) / len(values)
    return math.sqrt(_sum((value - mean) ** 2 for value in values) / len(values))


def _sum(values: Iterable[float]) -> float:
    """Added one after the other, as the peer does: Python's own sum rounds better, and so differently."""
    found = 0.0
    for value in values:
        found += value
    return found
