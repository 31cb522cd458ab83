"""The rows of a block of moves: the instances, where they are, and what is the same for all of their moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import columns

if TYPE_CHECKING:
    from . import counted, reserving
    from . import state as states


@dataclass(frozen=True, eq=False)
class View:
    """Rows of instances; without a secondary (`alone`) the primary stands in for it.

    elsewhere: rows x online nodes, whether the node is none of the instance's own.
    freed: what the secondary keeps (MiB) once the instance has left it; forced, forced_secondary: soft checks are
    waived because the primary or the secondary is offline; tagged: rows x N, how many of its exclusion tags a node has;
    lacking: rows x N, how many desired locations; pairs: rows x N, added to the score; None where no tags do that.
    """

    rows: columns.Indices
    primary: columns.Indices
    secondary: columns.Indices
    alone: columns.Flags
    elsewhere: columns.Flags
    real: columns.Flags
    started: columns.Numbers
    forced: columns.Flags
    forced_secondary: columns.Flags
    freed: columns.Numbers
    tagged: columns.Numbers | None
    lacking: columns.Numbers | None
    pairs: columns.Numbers | None

    @property
    def known_secondary(self) -> columns.Indices:
        """The secondary of each row, -1 for none."""
        return np.where(self.alone, columns.NOWHERE, self.secondary)

    @property
    def each(self) -> columns.Indices:
        """The numbers of the rows, to pick one node of each."""
        return np.arange(len(self.rows))


def view_rows(
    state: states.State,
    rows: columns.Indices,
    *,
    reserved: reserving.Reserving,
    counts: counted.Counted,
    ignore_soft: bool,
) -> View:
    """The rows as they are now."""
    nodes, held = state.nodes, state.instances
    primary = held.primary[rows]
    alone = held.secondary[rows] == columns.NOWHERE
    secondary = np.where(alone, primary, held.secondary[rows])
    has_places = bool(state.locations) or bool(held.wanted.any())
    return View(
        rows,
        primary,
        secondary,
        alone,
        _elsewhere(primary, secondary, online=counts.online, count=len(nodes.names)),
        real=held.real[rows],
        started=held.started[rows],
        forced=nodes.offline[primary] | ignore_soft,
        forced_secondary=nodes.offline[secondary] | ignore_soft,
        freed=reserved.freed(rows),
        tagged=counts.tags_at_nodes(rows) if state.tags else None,
        lacking=counts.unsatisfied(rows) if has_places else None,
        pairs=counts.pairs_at_nodes(rows) if state.tags and state.locations else None,
    )


def _elsewhere(
    primary: columns.Indices, secondary: columns.Indices, *, online: columns.Indices, count: int
) -> columns.Flags:
    place = np.full(count, len(online))
    place[online] = np.arange(len(online))
    found = np.ones((len(primary), len(online) + 1), dtype=bool)
    each = np.arange(len(primary))
    found[each, place[primary]] = False
    found[each, place[secondary]] = False
    return found[:, :-1]
