"""What bars new instances from nodes as they are now: which places are left, and how many each kind of obstacle bars.

A place is a node or, for mirrored disks, an ordered pair of nodes of one group. Memory and disk are hard; N+1 is kept:
a node never gets less memory than what may start there when another one fails, unless that is so already. What bars a
place is the first obstacle in the order of Ganeti's htools: policy, primary, secondary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .newcomers import Kind, misfit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models import model
    from ..score import columns
    from .newcomers import Newcomer, Size
    from .openings import Openings

    Codes = columns.Indices

KINDS = tuple(Kind)
FREE = -1
MEMORY, DISK, VCPUS, TAGS, SPINDLES = (
    KINDS.index(kind) for kind in (Kind.MEMORY, Kind.DISK, Kind.VCPUS, Kind.TAGS, Kind.SPINDLES)
)


@dataclass(frozen=True, eq=False)
class Places:
    """The places with room: which nodes can be primary and, for mirrored disks, which pairs can (primaries x all)."""

    primaries: columns.Indices
    pairs: columns.Flags

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.pairs.any())


class Obstacles:
    """The limits of each node for instances that differ in size only; `changed` follows what nodes take in.

    policies: by the group's index; primaries, secondaries: the nodes that may be considered.
    """

    def __init__(
        self,
        openings: Openings,
        newcomer: Newcomer,
        *,
        policies: Sequence[model.Policy],
        primaries: columns.Flags,
        secondaries: columns.Flags,
    ) -> None:
        self.openings, self.newcomer, self.policies = openings, newcomer, policies
        self.mirrored = newcomer.template.is_mirrored
        nodes = openings.nodes
        twins = ("memory", "disk", "vcpus", "spindles", "free_spindles")
        self._forthcoming = any((getattr(nodes, name) != getattr(nodes, f"{name}_expected")).any() for name in twins)
        kinds = list(zip(openings.nodes.group.tolist(), openings.nodes.exclusive.tolist(), strict=True))
        self._kinds = sorted(set(kinds))
        self._kind = np.array([self._kinds.index(kind) for kind in kinds], dtype=np.int64)
        self._size: Size | None = None
        self._misfits: list[tuple[int, int]] = []
        self._use = newcomer.spindle_use * newcomer.on_volumes * ~nodes.exclusive
        self._exclusive = bool(newcomer.on_volumes and nodes.exclusive.any())
        self._on_volumes = newcomer.on_volumes
        self.weights = primaries.astype(np.int64)
        if self.mirrored:
            group = openings.nodes.group
            self.pairs = primaries[:, None] & secondaries[None, :] & (group[:, None] == group[None, :])
            np.fill_diagonal(self.pairs, val=False)
            self.weights = self.pairs.sum(axis=1)
            self.copies = np.empty(self.pairs.shape)
            self._find_copies(np.arange(len(primaries)))
        self._find_limits()

    def changed(self, *nodes: int) -> None:
        """Find the limits again after these nodes took an instance in."""
        self._find_limits()
        if self.mirrored:
            self._find_copies(np.array(nodes))

    def places(self, size: Size, *, any_policy: bool = False) -> Places:
        """The places with room for an instance of that size, whatever the policies say with `any_policy`."""
        rows = self._open(self._of_primaries(size, any_policy=any_policy))
        if not self.mirrored or not len(rows):
            return Places(rows, np.ones((len(rows), 1), dtype=bool))
        before, after = self._of_secondaries(size)
        pairs = self.pairs[rows] & ((before == FREE) & (after == FREE))
        pairs &= self._started(size) <= self.copies[rows]
        return Places(rows, pairs)

    def barred(self, size: Size) -> dict[Kind, int]:
        """By kind of obstacle how many places it bars."""
        first = self._of_primaries(size)
        barred = np.bincount(first + 1, weights=self.weights, minlength=len(KINDS) + 1)
        rows = self._open(first)
        if self.mirrored and len(rows):
            before, after = self._of_secondaries(size)
            kept = np.where(self._started(size) > self.copies[rows], MEMORY, after)
            codes = np.where(before == FREE, kept, before)
            barred += np.bincount(codes[self.pairs[rows]] + 1, minlength=len(KINDS) + 1)
        return dict(zip(KINDS, barred[1:].astype(int).tolist(), strict=True))

    def rows(self, size: Size) -> columns.Indices:
        """The nodes that could be primary, their secondaries aside."""
        return self._open(self._of_primaries(size))

    def _open(self, first: Codes) -> columns.Indices:
        return np.flatnonzero((first == FREE) & (self.weights > 0))

    def _find_limits(self) -> None:
        """The largest memory and disk that each node takes, MiB."""
        nodes, short, spare = self.openings.nodes, self.openings.short, self.openings.spare
        self.memory = nodes.memory - 1
        self.memory_kept = np.where(short, np.inf, nodes.memory - nodes.reserved - 1)
        self.disk = nodes.disk - np.maximum(1, spare)
        self._busy = nodes.spindles + self._use > nodes.spindle_limit
        self.memory_expected, self.disk_expected, self._busy_expected = self.memory, self.disk, self._busy
        if self._forthcoming:
            self.memory_expected = nodes.memory_expected - 1
            self.disk_expected = nodes.disk_expected - np.maximum(1, spare)
            self._busy_expected = nodes.spindles_expected + self._use > nodes.spindle_limit

    def _find_copies(self, secondaries: columns.Indices) -> None:
        """The largest memory of an instance of each primary (rows) that may start on each secondary (columns)."""
        nodes = self.openings.nodes
        kept = nodes.memory[secondaries] - nodes.peers.T[:, secondaries] - 1
        self.copies[:, secondaries] = np.where(self.openings.short[secondaries], np.inf, kept)

    def _of_primaries(self, size: Size, *, any_policy: bool = False) -> Codes:
        """By node what bars an instance from running there; the first obstacle is written last."""
        nodes = self.openings.nodes
        found = np.full(len(nodes.memory), FREE)
        if self._forthcoming:
            found[self._crowded(nodes.vcpus_expected + size.vcpus)] = VCPUS
            self._bar_disks(found, size, self.disk_expected, nodes.free_spindles_expected, self._busy_expected)
            found[size.memory > self.memory_expected] = MEMORY
        if self.newcomer.tags:
            found[self.conflicting()] = TAGS
        found[self._crowded(nodes.vcpus + size.vcpus)] = VCPUS
        found[size.memory > self.memory_kept] = MEMORY
        self._bar_disks(found, size, self.disk, nodes.free_spindles, self._busy)
        found[size.memory > self.memory] = MEMORY
        return found if any_policy else self._bar_misfits(found, size)

    def _bar_misfits(self, found: Codes, size: Size) -> Codes:
        if size is not self._size:
            newcomer = replace(self.newcomer, size=size)
            kinds = (misfit(newcomer, self.policies[group], exclusive=exclusive) for group, exclusive in self._kinds)
            self._misfits = [(number, KINDS.index(kind)) for number, kind in enumerate(kinds) if kind is not None]
            self._size = size
        for number, code in self._misfits:
            found[self._kind == number] = code
        return found

    def _started(self, size: Size) -> int:
        """The memory that the secondary keeps for when the primary fails, MiB."""
        return size.memory if self.newcomer.reserves else 0

    def _of_secondaries(self, size: Size) -> tuple[Codes, Codes]:
        """By node what bars the copy from it, before N+1 is looked at and after it; N+1 is a matter of both nodes."""
        nodes, memory = self.openings.nodes, self._started(size)
        before, after = np.full(len(nodes.memory), FREE), np.full(len(nodes.memory), FREE)
        if self._forthcoming:
            after[memory > self.memory_expected] = MEMORY
            self._bar_disks(after, size, self.disk_expected, nodes.free_spindles_expected, self._busy_expected)
        after[memory > self.memory] = MEMORY
        self._bar_disks(before, size, self.disk, nodes.free_spindles, self._busy)
        return before, after

    def _bar_disks(
        self, found: Codes, size: Size, limit: columns.Numbers, spindles: columns.Numbers, busy: columns.Flags
    ) -> None:
        if not self._on_volumes:
            return
        found[busy] = DISK
        if self._exclusive:
            wanted = np.inf if size.spindles is None else size.spindles
            found[self.openings.nodes.exclusive & (wanted > spindles)] = SPINDLES
        found[size.disk > limit] = DISK

    def _crowded(self, vcpus: columns.Numbers) -> columns.Flags:
        crowded: columns.Flags = np.asarray(vcpus / self.openings.nodes.pcpus > self.openings.nodes.vcpu_ratio)
        return crowded

    def conflicting(self) -> columns.Flags:
        """By node whether an instance with the same exclusion tag is primary there."""
        known = [self.openings.tags[tag] for tag in self.newcomer.tags if tag in self.openings.tags]
        return np.asarray((self.openings.nodes.tags[:, known] > 0).any(axis=1))
