"""The columns of a state: what is known of each node and each instance, as NumPy arrays.

Nodes and instances are indices in the model's order, -1 is no node. All amounts are float64 and whole (MiB, counts) but
for loads. "Expected" columns count forthcoming instances too, the others do not. Source: Ganeti's htools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..models import model, tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Indices = NDArray[np.int64]
    Flags = NDArray[np.bool_]

NOWHERE = -1
NO_TAGS = np.empty(0, dtype=np.int64)
LOADS = ("cpu", "memory", "disk", "net")
DISK = LOADS.index("disk")


@dataclass(eq=False, slots=True)
class Instances:
    """What each of the I instances takes, none of which changes, and where it is, which does.

    memory: what it is defined with; started: that while it takes it, else 0; reserved: what its secondary keeps for it;
    kept: the same of a forthcoming one too; disk, spindle_use: on volumes of its nodes, else 0; vcpus: 0 when
    ADMIN_offline; spindles: on exclusive storage, NaN when not known; own_spindles: the same, 0 when not known or
    without volumes; load: 4 x I, cpu, memory, disk, net; real: not forthcoming; balanced: moved without being asked
    (auto_balance); tags: exclusion tags of each, columns of `Nodes.tags`; desired: I x locations; wanted: how many
    locations it wants.
    """

    names: list[str]
    memory: Numbers
    started: Numbers
    reserved: Numbers
    kept: Numbers
    disk: Numbers
    vcpus: Numbers
    spindle_use: Numbers
    spindles: Numbers
    own_spindles: Numbers
    load: Numbers
    real: Flags
    on_volumes: Flags
    mirrored: Flags
    movable: Flags
    balanced: Flags
    tags: list[Indices]
    desired: Flags
    wanted: Numbers
    primary: Indices
    secondary: Indices


@dataclass(eq=False, slots=True)
class Nodes:
    """The N nodes: what they are (first block), and what is left or used on each (second block).

    locations: N x locations; receives[n, m]: whether instances may move live from n to m.
    memory: free for instances, what is missing at the start kept aside; disk, free_spindles: free; vcpus, spindles:
    used; load: 4 x N; primaries, secondaries: counts of real instances. peers[n, q]: memory (MiB) that would start on
    n if q failed; reserved: the largest of row n, reserved_for: its q, reserved_next: the largest of the others.
    tags: N x tags, primaries with that exclusion tag; real_tags: the real ones of them; location_score: shared and
    unsatisfied locations of primaries.
    """

    names: list[str]
    index: dict[str, int]
    group: Indices
    offline: Flags
    exclusive: Flags
    t_mem: Numbers
    t_disk: Numbers
    t_spindles: Numbers
    pcpus: Numbers
    cpu_speed: Numbers
    vcpu_ratio: Numbers
    spindle_limit: Numbers
    locations: Flags
    receives: Flags

    memory: Numbers
    memory_expected: Numbers
    disk: Numbers
    disk_expected: Numbers
    free_spindles: Numbers
    free_spindles_expected: Numbers
    vcpus: Numbers
    vcpus_expected: Numbers
    spindles: Numbers
    spindles_expected: Numbers
    load: Numbers
    primaries: Numbers
    secondaries: Numbers
    peers: Numbers
    reserved: Numbers
    reserved_for: Indices
    reserved_next: Numbers
    tags: Numbers
    real_tags: Numbers
    location_score: Numbers


def instances_of(
    cluster: model.Model, steering: tags.Steering, *, tag_ids: dict[str, int], location_ids: dict[str, int]
) -> Instances:
    """The columns of a cluster's instances, in its order."""
    found = cluster.instances
    index = {node.name: number for number, node in enumerate(cluster.nodes)} | {"": NOWHERE}
    real = np.array([not instance.forthcoming for instance in found], dtype=bool)
    memory = _numbers(instance.memory for instance in found)
    started = np.array([instance.takes_memory for instance in found], dtype=bool)
    keeps = np.array([instance.reserves_memory for instance in found], dtype=bool)
    kinds = {kind: number for number, kind in enumerate(model.Template)}
    template = np.array([kinds[instance.template] for instance in found], dtype=np.int64)
    on_volumes = _by_template(lambda kind: kind.is_on_volumes)[template]
    desired = np.zeros((len(found), len(location_ids)), dtype=bool)
    for row, wanted in enumerate(steering.desired):
        desired[row, [location_ids[tag] for tag in wanted if tag in location_ids]] = True
    return Instances(
        names=[instance.name for instance in found],
        memory=memory,
        started=memory * started,
        reserved=memory * keeps,
        kept=memory * np.array([instance.auto_balance and not instance.is_offline for instance in found], dtype=bool),
        disk=_numbers(instance.disk for instance in found) * on_volumes,
        vcpus=_numbers(0 if instance.is_offline else instance.vcpus for instance in found),
        spindle_use=_numbers(instance.spindle_use for instance in found) * on_volumes,
        spindles=_numbers(np.nan if instance.spindles is None else instance.spindles for instance in found),
        own_spindles=_numbers(instance.spindles or 0 for instance in found) * on_volumes,
        load=_loads([instance.load for instance in found]),
        real=real,
        on_volumes=on_volumes,
        mirrored=_by_template(lambda kind: kind.is_mirrored)[template],
        movable=_by_template(lambda kind: kind.is_movable)[template],
        balanced=np.array([instance.auto_balance for instance in found], dtype=bool),
        tags=[_columns(mine, tag_ids) for mine in steering.exclusion],
        desired=desired,
        wanted=_numbers(len(wanted) for wanted in steering.desired),
        primary=np.array([index[instance.primary] for instance in found], dtype=np.int64),
        secondary=np.array([index[instance.secondary] for instance in found], dtype=np.int64),
    )


def nodes_of(
    cluster: model.Model, steering: tags.Steering, *, tag_ids: dict[str, int], location_ids: dict[str, int]
) -> Nodes:
    """The columns of a cluster's nodes as if no instance were there; `disk` and the like are what is free now."""
    found = cluster.nodes
    count = len(found)
    groups = {group.uuid: number for number, group in enumerate(cluster.groups)}
    policies = [cluster.groups[groups[node.group]].policy for node in found]
    locations = np.zeros((count, len(location_ids)), dtype=bool)
    for row, mine in enumerate(steering.locations):
        locations[row, [location_ids[tag] for tag in mine]] = True
    spindles = _numbers(node.spindles for node in found)
    return Nodes(
        names=[node.name for node in found],
        index={node.name: number for number, node in enumerate(found)},
        group=np.array([groups[node.group] for node in found], dtype=np.int64),
        offline=np.array([node.offline for node in found], dtype=bool),
        exclusive=np.array([node.exclusive_storage for node in found], dtype=bool),
        t_mem=_numbers(node.t_mem for node in found),
        t_disk=_numbers(node.t_disk for node in found),
        t_spindles=spindles,
        pcpus=_numbers(node.pcpus for node in found),
        cpu_speed=_numbers(node.cpu_speed for node in found),
        vcpu_ratio=_numbers(policy.vcpu_ratio for policy in policies),
        spindle_limit=_numbers(policy.spindle_ratio for policy in policies) * spindles,
        locations=locations,
        receives=_receives(steering.migration),
        memory=_numbers(int(node.t_mem) - node.n_mem for node in found),
        memory_expected=_numbers(node.f_mem for node in found),
        disk=_numbers(node.f_disk for node in found),
        disk_expected=_numbers(node.f_disk for node in found),
        free_spindles=_numbers(node.free_spindles for node in found),
        free_spindles_expected=_numbers(node.free_spindles for node in found),
        vcpus=_numbers(node.os_vcpus for node in found),
        vcpus_expected=_numbers(node.os_vcpus for node in found),
        spindles=np.zeros(count),
        spindles_expected=np.zeros(count),
        load=np.zeros((len(LOADS), count)),
        primaries=np.zeros(count),
        secondaries=np.zeros(count),
        peers=np.zeros((count, count)),
        reserved=np.zeros(count),
        reserved_for=np.zeros(count, dtype=np.int64),
        reserved_next=np.zeros(count),
        tags=np.zeros((count, len(tag_ids))),
        real_tags=np.zeros((count, len(tag_ids))),
        location_score=np.zeros(count),
    )


def _by_template(rule: Callable[[model.Template], bool]) -> Flags:
    return np.array([rule(template) for template in model.Template], dtype=bool)


def _loads(found: list[model.Load]) -> Numbers:
    return np.array([[getattr(load, name) for load in found] for name in LOADS], dtype=float)


def _columns(mine: tuple[str, ...], tag_ids: dict[str, int]) -> Indices:
    return np.array([tag_ids[tag] for tag in mine], dtype=np.int64) if mine else NO_TAGS


def _numbers(values: Iterable[float]) -> Numbers:
    return np.fromiter(values, dtype=float)


def _receives(found: list[tuple[frozenset[str], frozenset[str]]]) -> Flags:
    if not any(own for own, _ in found):
        return np.ones((len(found), len(found)), dtype=bool)
    return np.array([[own <= received for _, received in found] for own, _ in found], dtype=bool)
