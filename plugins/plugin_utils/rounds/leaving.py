"""The jobs of all evacuations of a round, in the order in which they are submitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..placement.plan import Move
    from . import moving


@dataclass(frozen=True)
class Evacuation:
    """What is submitted for a node (its name): jobs before its moves, the moves, and the opcodes once it is empty."""

    node: str
    incident: str
    first: tuple[work.Job, ...]
    moves: tuple[Move, ...]
    last: tuple[work.Opcode, ...]
    maker: moving.Jobs

    @property
    def has_begun(self) -> bool:
        """Whether anything is submitted for it."""
        return bool(self.first or self.moves or self.last)


def jobs_of(evacuations: Sequence[Evacuation]) -> tuple[work.Job, ...]:
    """First the failovers off nodes that are not reachable, then everything else: nothing is copied before them."""
    urgent = {each.incident: tuple(move for move in each.moves if each.maker.is_urgent(move)) for each in evacuations}
    early = {each.incident: _made(each, urgent[each.incident]) for each in evacuations if urgent[each.incident]}
    found = [job for jobs in early.values() for job in jobs]
    for each in evacuations:
        done = early.get(each.incident, each.first)
        left = [move for move in each.moves if move not in urgent[each.incident]]
        jobs = [each.maker.make(move) for move in left]
        found += jobs if each.incident in early else [*done, *jobs]
        if each.last:
            found.append(_end(each, [*done, *jobs]))
    return tuple(found)


def _made(evacuation: Evacuation, moves: Iterable[Move]) -> tuple[work.Job, ...]:
    return (*evacuation.first, *(evacuation.maker.make(move) for move in moves))


def _end(evacuation: Evacuation, jobs: Iterable[work.Job]) -> work.Job:
    name, after = evacuation.node, tuple(job.key for job in jobs)
    reason = f"evacuating {name}: it is empty"
    return work.Job(f"offline:{name}", evacuation.last, after=after, incident=evacuation.incident, reason=reason)
