"""The score of a cluster before and after instances have moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import columns, oracle, scoring, state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..models import model


@dataclass(frozen=True)
class Scores:
    """The components before and after, by name."""

    before: Mapping[str, float]
    after: Mapping[str, float]

    @property
    def initial(self) -> float:
        return oracle.total(self.before)

    @property
    def final(self) -> float:
        return oracle.total(self.after)


def scores(found: model.Model, ends: Mapping[str, Sequence[str]], *, group: str | None = None) -> Scores:
    """The scores of all nodes, or a group's; `ends` has the nodes of what moves, all by name, the primary first."""
    now = state.build(found)
    where = scoring.scope(now, group=group)
    before = scoring.components(now, where)
    for name, nodes in ends.items():
        first, *others = (now.nodes.index[node] for node in nodes)
        now.move(now.by_instance[name], primary=first, secondary=others[0] if others else columns.NOWHERE)
    return Scores(before, scoring.components(now, where))
