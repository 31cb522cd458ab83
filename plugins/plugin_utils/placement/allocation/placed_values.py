"""What the score takes deviations of, node by node, and what a new instance adds to it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..score import columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .newcomers import Newcomer
    from .openings import Openings

TWINS = {f"{name}_expected": name for name in ("memory", "disk", "vcpus", "spindles")}
"""The same once more, forthcoming instances counted: mostly equal."""
BOTH = ("disk", "disk_load", "spindles", "disk_expected", "spindles_expected")
"""What a secondary takes as well as a primary."""
ALONE = ("memory", "vcpus", "cpu_load", "memory_load", "net_load", "memory_expected", "vcpus_expected")
ROWS = (*BOTH, *ALONE, "reserved")
ROW = {name: number for number, name in enumerate(ROWS)}


class PlacedValues:
    """Of each kind of value (`ROWS`) and node what a part is taken of, and what an instance adds to the part.

    whole, first, second: kinds x nodes; first and second are what it adds as primary and as secondary.
    """

    def __init__(self, openings: Openings, newcomer: Newcomer) -> None:
        self._openings, self._newcomer = openings, newcomer
        shape = (len(ROWS), len(openings.numbers))
        self.whole, self.first, self.second = np.ones(shape), np.zeros(shape), np.zeros(shape)
        self._set_wholes()
        self._set_steps()
        self._without = self._nothing_there()
        self._speeds_differ = bool((openings.nodes.cpu_speed != 1).any())

    def _set_wholes(self) -> None:
        nodes = self._openings.nodes
        self.whole[ROW["memory"]] = self.whole[ROW["memory_expected"]] = nodes.t_mem
        self.whole[ROW["reserved"]] = nodes.t_mem
        self.whole[ROW["vcpus"]] = self.whole[ROW["vcpus_expected"]] = nodes.pcpus
        disk = np.where(nodes.exclusive, nodes.t_spindles, nodes.t_disk)
        self.whole[ROW["disk"]] = self.whole[ROW["disk_expected"]] = disk
        self.whole[ROW["spindles"]] = self.whole[ROW["spindles_expected"]] = nodes.spindle_limit

    def _nothing_there(self) -> Mapping[str, columns.Flags]:
        """By kind the nodes without any disk or spindles, whose values never change."""
        found = {}
        for name in ("disk", "spindles"):
            none = self.whole[ROW[name]] == 0
            for row in (name, f"{name}_expected") if none.any() else ():
                found[row] = none
                self.whole[ROW[row]][none] = 1.0
                self.first[ROW[row]][none] = self.second[ROW[row]][none] = 0.0
        return found

    def _set_steps(self) -> None:
        nodes, newcomer, size = self._openings.nodes, self._newcomer, self._newcomer.size
        if newcomer.on_volumes:
            disk = -np.where(nodes.exclusive, float(size.spindles or 0), float(size.disk))
            use = np.where(nodes.exclusive, 0.0, float(newcomer.spindle_use))
            for steps in (self.first, self.second):
                steps[ROW["disk"]] = steps[ROW["disk_expected"]] = disk
                steps[ROW["spindles"]] = steps[ROW["spindles_expected"]] = use
        self.first[ROW["memory"]] = -size.memory * newcomer.runs
        self.first[ROW["memory_expected"]] = -size.memory
        self.first[ROW["vcpus"]] = self.first[ROW["vcpus_expected"]] = size.vcpus
        for name, load in zip(columns.LOADS, newcomer.load, strict=True):
            self.first[ROW[f"{name}_load"]] = load
        self.second[ROW["disk_load"]] = newcomer.load[columns.DISK]

    def parts(self) -> columns.Numbers:
        """What is free or used of each kind on each node now."""
        nodes = self._openings.nodes
        parts = np.empty(self.whole.shape)
        for name in ("memory", "memory_expected", "vcpus", "vcpus_expected", "reserved"):
            parts[ROW[name]] = getattr(nodes, name)
        for name, load in zip(columns.LOADS, nodes.load, strict=True):
            parts[ROW[f"{name}_load"]] = load
        parts[ROW["disk"]] = np.where(nodes.exclusive, nodes.free_spindles, nodes.disk)
        parts[ROW["disk_expected"]] = np.where(nodes.exclusive, nodes.free_spindles_expected, nodes.disk_expected)
        parts[ROW["spindles"]], parts[ROW["spindles_expected"]] = nodes.spindles, nodes.spindles_expected
        for name, none in self._without.items():
            parts[ROW[name]][none] = 1.0 if name.startswith("disk") else 0.0
        return parts

    def values_of(self, parts: columns.Numbers) -> columns.Numbers:
        """The values of parts."""
        values: columns.Numbers = parts / self.whole
        if self._speeds_differ:
            values[ROW["vcpus"]] /= self._openings.nodes.cpu_speed
            values[ROW["vcpus_expected"]] /= self._openings.nodes.cpu_speed
        return values
