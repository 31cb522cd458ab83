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
    cluster: model.Model,
    *,
    exclusion: list[tuple[str, ...]],
    tag_ids: dict[str, int],
    location_ids: dict[str, int],
) -> Instances:
    """The columns of a cluster's instances, in its order; `exclusion` are the exclusion tags of each."""
    found = cluster.instances
    index = {one.name: number for number, one in enumerate(cluster.nodes)} | {"": NOWHERE}
    real = np.array([not one.forthcoming for one in found], dtype=bool)
    memory = _numbers(one.memory for one in found)
    started = np.array([one.takes_memory for one in found], dtype=bool)
    keeps = np.array([one.reserves_memory for one in found], dtype=bool)
    kinds = {one: number for number, one in enumerate(model.Template)}
    template = np.array([kinds[one.template] for one in found], dtype=np.int64)
    on_volumes = _by_template(lambda one: one.is_on_volumes)[template]
    wants = tags.desired(cluster)
    desired = np.zeros((len(found), len(location_ids)), dtype=bool)
    for row, wanted in enumerate(wants):
        desired[row, [location_ids[tag] for tag in wanted if tag in location_ids]] = True
    return Instances(
        names=[one.name for one in found],
        memory=memory,
        started=memory * started,
        reserved=memory * keeps,
        kept=memory * np.array([one.auto_balance and not one.is_offline for one in found], dtype=bool),
        disk=_numbers(one.disk for one in found) * on_volumes,
        vcpus=_numbers(0 if one.is_offline else one.vcpus for one in found),
        spindle_use=_numbers(one.spindle_use for one in found) * on_volumes,
        spindles=_numbers(np.nan if one.spindles is None else one.spindles for one in found),
        own_spindles=_numbers(one.spindles or 0 for one in found) * on_volumes,
        load=_loads([one.load for one in found]),
        real=real,
        on_volumes=on_volumes,
        mirrored=_by_template(lambda one: one.is_mirrored)[template],
        movable=_by_template(lambda one: one.is_movable)[template],
        balanced=np.array([one.auto_balance for one in found], dtype=bool),
        tags=[_columns(mine, tag_ids) for mine in exclusion],
        desired=desired,
        wanted=_numbers(len(wanted) for wanted in wants),
        primary=np.array([index[one.primary] for one in found], dtype=np.int64),
        secondary=np.array([index[one.secondary] for one in found], dtype=np.int64),
    )


def nodes_of(cluster: model.Model, *, tag_ids: dict[str, int], location_ids: dict[str, int]) -> Nodes:
    """The columns of a cluster's nodes as if no instance were there; `disk` and the like are what is free now."""
    found = cluster.nodes
    count = len(found)
    groups = {one.uuid: number for number, one in enumerate(cluster.groups)}
    policies = [cluster.groups[groups[one.group]].policy for one in found]
    locations = np.zeros((count, len(location_ids)), dtype=bool)
    for row, mine in enumerate(tags.locations(cluster)):
        locations[row, [location_ids[tag] for tag in mine]] = True
    spindles = _numbers(one.spindles for one in found)
    return Nodes(
        names=[one.name for one in found],
        index={one.name: number for number, one in enumerate(found)},
        group=np.array([groups[one.group] for one in found], dtype=np.int64),
        offline=np.array([one.offline for one in found], dtype=bool),
        exclusive=np.array([one.exclusive_storage for one in found], dtype=bool),
        t_mem=_numbers(one.t_mem for one in found),
        t_disk=_numbers(one.t_disk for one in found),
        t_spindles=spindles,
        pcpus=_numbers(one.pcpus for one in found),
        cpu_speed=_numbers(one.cpu_speed for one in found),
        vcpu_ratio=_numbers(one.vcpu_ratio for one in policies),
        spindle_limit=_numbers(one.spindle_ratio for one in policies) * spindles,
        locations=locations,
        receives=_receives(cluster),
        memory=_numbers(int(one.t_mem) - one.n_mem for one in found),
        memory_expected=_numbers(one.f_mem for one in found),
        disk=_numbers(one.f_disk for one in found),
        disk_expected=_numbers(one.f_disk for one in found),
        free_spindles=_numbers(one.free_spindles for one in found),
        free_spindles_expected=_numbers(one.free_spindles for one in found),
        vcpus=_numbers(one.os_vcpus for one in found),
        vcpus_expected=_numbers(one.os_vcpus for one in found),
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
    return np.array([rule(one) for one in model.Template], dtype=bool)


def _loads(found: list[model.Load]) -> Numbers:
    return np.array([[getattr(one, name) for one in found] for name in LOADS], dtype=float)


def _columns(mine: tuple[str, ...], tag_ids: dict[str, int]) -> Indices:
    return np.array([tag_ids[tag] for tag in mine], dtype=np.int64) if mine else NO_TAGS


def _numbers(values: Iterable[float]) -> Numbers:
    return np.fromiter(values, dtype=float)


def _receives(cluster: model.Model) -> Flags:
    found = tags.migration(cluster)
    if not any(own for own, _ in found):
        return np.ones((len(found), len(found)), dtype=bool)
    return np.array([[own <= received for _, received in found] for own, _ in found], dtype=bool)
