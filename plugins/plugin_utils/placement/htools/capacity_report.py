"""The capacity of a cluster and of each of its groups, under limits set at cluster, group or call (seed 004).

The answer of `OpComputeCapacity`: tiers of shrinking instances (htools' tiered specs) and how many of the standard size
fit. A group counts by itself as if it were alone; the cluster is all groups that take instances, filled together.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....module_utils.domain.values import errors
from ..allocation import newcomers, openings
from ..models import model
from ..score import state as states
from . import capacity, failures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_MISSING = {
    newcomers.Kind.MEMORY: "there is too little memory",
    newcomers.Kind.DISK: "there is too little disk",
    newcomers.Kind.VCPUS: "there are too few CPUs",
    newcomers.Kind.FAILURE: "the failure of a node would not be survived",
    newcomers.Kind.TAGS: "the exclusion tags leave no place",
    newcomers.Kind.DISKS: "it has too many disks",
    newcomers.Kind.SPINDLES: "there are too few spindles",
}


@dataclass(frozen=True)
class Limits:
    """What new instances may take at most; None is not set here. More than a policy allows is never allowed.

    max_inst_spec: memory and disk (MiB) and vcpus of the largest instance; max_disk_usage: share of a node's disk that
    may be in use, 0 to 1; max_cpu_ratio: vcpus for each CPU. Source: seed 004, capacity calculation.

    Raises:
        InvalidInput: a limit is out of range; the text names it.
    """

    max_inst_spec: tuple[int, int, int] | None = None
    default_template: model.Template | None = None
    max_cpu_ratio: float | None = None
    max_disk_usage: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no cluster can have."""
        if self.max_inst_spec is not None and min(self.max_inst_spec) < 1:
            raise errors.InvalidInput(f"max_inst_spec: {self.max_inst_spec}: each number must be at least 1")
        if self.max_cpu_ratio is not None and not 0 < self.max_cpu_ratio < math.inf:
            raise errors.InvalidInput(f"max_cpu_ratio: {self.max_cpu_ratio} is not more than 0")
        if self.max_disk_usage is not None and not 0 < self.max_disk_usage <= 1:
            raise errors.InvalidInput(f"max_disk_usage: {self.max_disk_usage} is not more than 0 and at most 1")

    def over(self, others: Limits) -> Limits:
        """These limits, and the others where nothing is set here."""
        mine = {name: value for name, value in vars(self).items() if value is not None}
        return replace(others, **mine)


@dataclass(frozen=True)
class Capacity:
    """What still fits: tiers, the largest first, and how many of the standard size; or why nothing is looked for.

    lack: why not even the smallest instance fits, '' where one does.
    """

    tiers: tuple[capacity.Tier, ...] = ()
    standard: int = 0
    refusal: str = ""
    lack: str = ""


@dataclass(frozen=True)
class Report:
    """The capacity of the cluster and, by UUID, of each group with the limits it was found under.

    ctime: when the state was that it was found for, seconds since the epoch.
    """

    cluster: Capacity
    groups: Mapping[str, tuple[Capacity, Limits]]
    ctime: float

    def document(self) -> dict[str, Any]:
        """The seed's JSON: `cluster`, `node_groups` and `ctime`, beside them `tiered` (as `cluster`) and `standard`."""
        tiers = _tiers(self.cluster)
        return {
            "cluster": tiers,
            "node_groups": {uuid: _group(*found) for uuid, found in self.groups.items()},
            "ctime": self.ctime,
            "tiered": tiers,
            "standard": self.cluster.standard,
        }


@dataclass(frozen=True)
class Question:
    """The limits in force, from the least specific to the most: of the cluster, of groups by UUID, of this call.

    accepts_existing: groups with a node that fails N+1 already count too; that node is not asked any more.
    """

    cluster: Limits = Limits()
    groups: Mapping[str, Limits] = field(default_factory=dict)
    call: Limits = Limits()
    accepts_existing: bool = False

    def of_group(self, uuid: str) -> Limits:
        """The limits for a group."""
        return self.call.over(self.groups.get(uuid, Limits())).over(self.cluster)


def compute(cluster: model.Model, question: Question, *, ctime: float) -> Report:
    """The capacity of a cluster as it is now; `ctime` is passed through.

    Without limits the policies say what is possible: the bounds of the instances' sizes, of which each maximum begins
    a series of tiers, the CPU ratio, and the first disk template of the cluster's policy.

    Raises:
        InvalidInput: no policy and no limit names a disk template.
    """
    return _Search(cluster, question).report(ctime)


def standard(cluster: model.Model, question: Question, *, most: int) -> int:
    """How many instances of the standard size fit in all groups together, counted up to `most`.

    Raises:
        InvalidInput: as `compute`.
    """
    return _Search(cluster, question).standard(most)


class _Search:
    """Everything that is found for one question; what two groups ask alike is looked for once."""

    def __init__(self, cluster: model.Model, question: Question) -> None:
        self._cluster, self._question = cluster, question
        self._state = states.build(cluster)
        self._limits = [self._complete(question.of_group(group.uuid), group.policy) for group in cluster.groups]
        self._found: dict[Any, Capacity] = {}

    def report(self, ctime: float) -> Report:
        groups = {
            group.uuid: (self._of_group(number), self._limits[number])
            for number, group in enumerate(self._cluster.groups)
        }
        return Report(self._of_cluster(), groups, ctime)

    def standard(self, most: int) -> int:
        """Like `_of_cluster`, without tiers."""
        policy = self._cluster.policy
        template = self._template(self._question.call.over(self._question.cluster), policy)
        allowed = self._allowed(template)
        return self._filling(allowed, policy, template).standard(_size(policy.std), most=most) if allowed else 0

    def _allowed(self, template: model.Template) -> tuple[int, ...]:
        groups = enumerate(self._cluster.groups)
        return tuple(number for number, group in groups if not self._refusal(number, group, template))

    def _template(self, limits: Limits, policy: model.Policy) -> model.Template:
        return self._complete(limits, policy).default_template or model.Template.DRBD

    def _complete(self, limits: Limits, policy: model.Policy) -> Limits:
        """Limits with what a policy says where nothing is set; the default template is the cluster's."""
        templates = self._cluster.policy.templates
        if limits.default_template is None and not templates:
            raise errors.InvalidInput("default_template: the cluster's policy allows no disk template at all")
        largest = policy.bounds[0][1] if policy.bounds else policy.std
        return Limits(
            limits.max_inst_spec or (largest.memory, largest.disk, largest.vcpus),
            limits.default_template or templates[0],
            limits.max_cpu_ratio or policy.vcpu_ratio,
            limits.max_disk_usage or 1.0,
        )

    def _of_cluster(self) -> Capacity:
        """All groups that take instances, each under its own limits."""
        policy, limits = self._cluster.policy, self._question.call.over(self._question.cluster)
        allowed = self._allowed(self._template(limits, policy))
        if not allowed:
            return Capacity(refusal="no group takes new instances")
        return self._capacity(allowed, policy, limits)

    def _of_group(self, number: int) -> Capacity:
        """One group alone."""
        group = self._cluster.groups[number]
        limits = self._question.of_group(group.uuid)
        refusal = self._refusal(number, group, self._template(limits, group.policy))
        return Capacity(refusal=refusal) if refusal else self._capacity((number,), group.policy, limits)

    @functools.cached_property
    def _fatal(self) -> list[int]:
        """The nodes that could not fail as it is: what has one node only would have no room elsewhere."""
        there, groups = openings.online_nodes(self._state), range(len(self._cluster.groups))
        return failures.Failures(self._state, there, groups=groups).all_fatal(there)

    def _refusal(self, number: int, group: model.Group, template: model.Template) -> str:
        if group.alloc_policy is model.AllocPolicy.UNALLOCABLE:
            return "it takes no new instances (unallocable)"
        nodes = self._state.nodes
        short = (nodes.group == number) & ~nodes.offline & (nodes.memory < nodes.reserved)
        if short.any() and not self._question.accepts_existing:
            names = ", ".join(nodes.names[node] for node in np.flatnonzero(short))
            return f"N+1 fails already: too little memory is free on {names}"
        if template.is_mirrored or self._question.accepts_existing:
            return ""
        fatal = [nodes.names[node] for node in self._fatal if nodes.group[node] == number]
        text = f"N+1 fails already: what is on {', '.join(fatal)} would have no room elsewhere"
        return text if fatal else ""

    def _capacity(self, allowed: tuple[int, ...], policy: model.Policy, limits: Limits) -> Capacity:
        key = (allowed, policy, limits)
        if key not in self._found:
            template = self._template(limits, policy)
            filling = self._filling(allowed, policy, template)
            lack = _lack(filling, policy, template)
            tiers = [tier for size in _largest(policy, limits) for tier in filling.tiered(size)]
            standard = self._filling(allowed, policy, template).standard(_size(policy.std))
            self._found[key] = Capacity(_merged(tiers), standard, lack="" if tiers or standard else lack)
        return self._found[key]

    def _filling(self, allowed: tuple[int, ...], policy: model.Policy, template: model.Template) -> capacity.Filling:
        nodes = self._state.nodes
        usage = np.array([limits.max_disk_usage for limits in self._limits], dtype=float)[nodes.group]
        groups = zip(self._cluster.groups, self._limits, strict=True)
        return capacity.Filling(
            self._state,
            newcomers.Newcomer(_size(policy.std), template, spindle_use=policy.std.spindle_use),
            policies=[
                _clipped(group.policy, limits, is_set=self._question.of_group(group.uuid)) for group, limits in groups
            ],
            allowed=np.isin(nodes.group, allowed),
            spare=nodes.t_disk - np.floor(usage * nodes.t_disk),
            may_fail=self._fatal if self._question.accepts_existing and not template.is_mirrored else (),
        )


def _lack(filling: capacity.Filling, policy: model.Policy, template: model.Template) -> str:
    """Why not even the smallest instance that the policy allows fits into an empty filling."""
    least = _size(policy.bounds[0][0] if policy.bounds else policy.std)
    if not filling.takers:
        return "no node takes instances"
    if not filling.has_places:
        return f"{template.value} needs two nodes of one group that take instances"
    kinds = [_MISSING[kind] for kind in filling.barred(least)]
    told = f"{least.memory} MiB of memory, {least.disk} MiB of disk, {least.vcpus} vcpus"
    return f"for the smallest ({told}) {' and '.join(kinds) or 'no place is left'}"


def _clipped(policy: model.Policy, limits: Limits, *, is_set: Limits) -> model.Policy:
    """A group's policy under its limits."""
    bounds = policy.bounds
    if is_set.max_inst_spec is not None:
        memory, disk, vcpus = is_set.max_inst_spec
        bounds = tuple(
            (
                least,
                replace(
                    most,
                    memory=min(most.memory, memory),
                    disk=min(most.disk, disk),
                    vcpus=min(most.vcpus, vcpus),
                ),
            )
            for least, most in bounds
        )
    return replace(policy, bounds=bounds, vcpu_ratio=limits.max_cpu_ratio or policy.vcpu_ratio)


def _largest(policy: model.Policy, limits: Limits) -> list[newcomers.Size]:
    """Where tiers begin: at the limit, or at each maximum of the policy."""
    sizes = [_size(most) for _, most in policy.bounds]
    if limits.max_inst_spec is None:
        return sizes
    spindles = sizes[0].spindles if sizes else policy.std.spindle_use
    return [newcomers.Size(*limits.max_inst_spec, spindles=spindles)]


def _size(spec: model.Spec) -> newcomers.Size:
    return newcomers.Size(spec.memory, spec.disk, spec.vcpus, spec.spindle_use)


def _merged(tiers: Sequence[capacity.Tier]) -> tuple[capacity.Tier, ...]:
    """Tiers of one size that follow each other are one."""
    found: list[capacity.Tier] = []
    for tier in tiers:
        if found and found[-1].size == tier.size:
            found[-1] = replace(tier, count=found[-1].count + tier.count)
        else:
            found.append(tier)
    return tuple(found)


def _tiers(found: Capacity) -> list[list[int]]:
    return [[tier.size.memory, tier.size.disk, tier.size.vcpus, tier.count] for tier in found.tiers]


def _group(found: Capacity, limits: Limits) -> dict[str, Any]:
    refusal = {"refusal": found.refusal} if found.refusal else {}
    return {
        "tspecs": _tiers(found),
        "standard": found.standard,
        "max_inst_spec": list(limits.max_inst_spec or ()),
        "default_template": limits.default_template.value if limits.default_template else None,
        "max_cpu_ratio": limits.max_cpu_ratio,
        "max_disk_usage": limits.max_disk_usage,
        **refusal,
    }
