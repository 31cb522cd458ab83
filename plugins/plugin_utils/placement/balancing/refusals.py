"""Which moves hbal's checks refuse, for a block of instances and all targets: True is allowed.

Each action is a sequence of steps, and each step is checked at the node that takes the instance. Live migration must be
allowed by tags; N+1 refuses a node that would come to fail; exclusion tags refuse a second primary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..score import columns, views
    from ..score import state as states
    from . import fitting


@dataclass(frozen=True, eq=False)
class Checks:
    """The checks as the state is now; `ignore_soft` waives the soft ones for all."""

    state: states.State
    online: columns.Indices
    fitting: fitting.Fitting
    ignore_soft: bool

    def failover(self, view: views.View, needed: columns.Numbers) -> columns.Flags:
        """`f`, for each row; an offline primary's disks need no room."""
        back = self.fitting.demoted.fits_again(view.rows, view.primary, forced=view.forced)
        back |= self.state.nodes.offline[view.primary]
        return self._promoted(view) & back & self._demoted_unharmed(view, needed, view.forced) & ~view.alone

    def replace_secondary(self, view: views.View, needed: columns.Numbers) -> columns.Flags:
        """`r:t`; the primary is taken anew, hard checks only."""
        forced = view.forced_secondary
        found = self._secondary_at_targets(view, needed, forced)
        nodes = self.state.nodes
        stands = (nodes.memory[view.primary] > 0) | ~view.real
        everyone = np.ones_like(forced)
        stands &= self.fitting.stays.fits_again(view.rows, view.primary, forced=everyone)
        found &= (stands & ~view.alone)[:, None]
        return found & view.elsewhere

    def replace_and_failover(self, view: views.View, needed: columns.Numbers) -> columns.Flags:
        """`r:t f`; that the primary is offline waives nothing at the target."""
        found = self._primary_at_targets(view, np.full(len(view.rows), self.ignore_soft))
        found &= self._migrates(view.primary)
        back = self.fitting.demoted.fits_again(view.rows, view.primary, forced=view.forced_secondary)
        found &= (back & ~view.alone)[:, None]
        found &= self._demoted_unharmed(view, needed, view.forced_secondary)
        return found & view.elsewhere

    def replace_primary(self, view: views.View, needed: columns.Numbers) -> columns.Flags:
        """`f r:t f`; the secondary must hold the instance for a moment, and `needed` is all that it keeps then."""
        nodes = self.state.nodes
        found = self._primary_at_targets(view, view.forced)
        found &= self._migrates(view.secondary)
        stays = self.fitting.stays.fits_again(view.rows, view.secondary, forced=view.forced)
        found &= (self._promoted(view) & stays & ~view.alone)[:, None]
        memory = nodes.memory[view.secondary]
        waived = view.forced | ~view.real | (memory <= view.freed)
        found &= (needed < memory[:, None]) | waived[:, None]
        return found & view.elsewhere

    def failover_and_replace(self, view: views.View, needed: columns.Numbers) -> columns.Flags:
        """`f r:t`."""
        found = self._secondary_at_targets(view, needed, view.forced)
        found &= (self._promoted(view) & ~view.alone)[:, None]
        return found & view.elsewhere

    def failover_to_any(self, view: views.View) -> columns.Flags:
        """`fa:t`, of instances without a secondary."""
        found = self._primary_at_targets(view, view.forced)
        found &= self._migrates(view.primary)
        found &= view.alone[:, None]
        return found & view.elsewhere

    def _primary_at_targets(self, view: views.View, forced: columns.Flags) -> columns.Flags:
        found = self.fitting.primary.fits(view.rows, self.online, forced=forced)
        if view.tagged is not None:
            found &= (view.tagged[:, self.online] == 0) | (forced | ~view.real)[:, None]
        return found

    def _secondary_at_targets(self, view: views.View, needed: columns.Numbers, forced: columns.Flags) -> columns.Flags:
        found = self.fitting.secondary.fits(view.rows, self.online, forced=forced)
        limit = np.where(self.fitting.failing, np.inf, self.state.nodes.memory - 1)
        unharmed = needed <= limit[self.online]
        waived = forced | ~view.real
        if waived.any():
            unharmed |= waived[:, None]
        found &= unharmed
        return found

    def _promoted(self, view: views.View) -> columns.Flags:
        """Whether the secondary may become primary, for each row."""
        nodes = self.state.nodes
        memory = nodes.memory[view.secondary]
        found = self.fitting.promoted.fits_again(view.rows, view.secondary, forced=view.forced)
        found &= nodes.receives[view.primary, view.secondary] & ~nodes.offline[view.secondary]
        waived = view.forced | ~view.real
        found &= (memory - view.started > view.freed) | (memory <= view.freed) | waived
        if view.tagged is not None:
            found &= (view.tagged[view.each, view.secondary] == 0) | waived
        return found

    def _demoted_unharmed(self, view: views.View, needed: columns.Numbers, forced: columns.Flags) -> columns.Flags:
        """Whether the primary may keep `needed` as secondary: it failed N+1 before, or does not then."""
        nodes = self.state.nodes
        memory = nodes.memory[view.primary] + view.started
        waived = forced | ~view.real | (memory <= nodes.reserved[view.primary])
        if needed.ndim > 1:
            return (needed < memory[:, None]) | waived[:, None]
        return (needed < memory) | waived

    def _migrates(self, source: columns.Indices) -> columns.Flags:
        return self.state.nodes.receives[source][:, self.online]
