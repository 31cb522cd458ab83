"""Who waits for locks: each request stands in the line of every lock that it wants, by priority, then arrival."""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.cluster.locks import Mode
from . import overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .holders import Owner

Place = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Request:
    """Locks wanted together, such as `{"instance/UUID": Mode.EXCLUSIVE}`."""

    owner: Owner
    wants: Mapping[str, Mode]
    priority: int
    arrival: int
    number: int
    purpose: str
    since: float

    @property
    def place(self) -> Place:
        return self.priority, self.arrival, self.number


class Waiting:
    """The requests that wait; those that want a lock exclusively stand in a second line too, without the others."""

    def __init__(self) -> None:
        self._requests: dict[Owner, Request] = {}
        self._lines: overlaps.Overlaps[list[Request]] = overlaps.Overlaps()
        self._exclusive: overlaps.Overlaps[list[Request]] = overlaps.Overlaps()

    def __contains__(self, owner: Owner) -> bool:
        return owner in self._requests

    def request_of(self, owner: Owner) -> Request | None:
        """What an owner waits for."""
        return self._requests.get(owner)

    def in_order(self) -> list[Request]:
        """All requests, in the order in which they are served."""
        return sorted(self._requests.values(), key=_place)

    def put(self, request: Request) -> None:
        """A request waits from now on."""
        self._requests[request.owner] = request
        for lock, mode in request.wants.items():
            for lines in self._lines_for(mode):
                line = lines.get(lock)
                if line is None:
                    line = lines[lock] = []
                bisect.insort(line, request, key=_place)

    def take_out(self, owner: Owner) -> Request | None:
        """An owner waits no more; returns what it waited for."""
        request = self._requests.pop(owner, None)
        if request is None:
            return None
        for lock, mode in request.wants.items():
            for lines in self._lines_for(mode):
                line = lines.get(lock)
                if line is None:
                    raise KeyError(lock)
                del line[bisect.bisect_left(line, request.place, key=_place)]
                if not line:
                    del lines[lock]
        return request

    def ahead(self, request: Request) -> Iterator[Request]:
        """The requests before one that clash with it."""
        for lock, mode in request.wants.items():
            lines = self._lines if mode is Mode.EXCLUSIVE else self._exclusive
            for _, line in lines.overlapping(lock):
                for earlier in line:
                    if earlier.place >= request.place:
                        break
                    yield earlier

    def group(self, priority: int, wants: Mapping[str, Mode]) -> Request | None:
        """The first of the waiting shared group that a new request joins, if there is one."""
        if not wants or Mode.EXCLUSIVE in wants.values():
            return None
        line = self._lines.get(next(iter(wants))) or []
        start = bisect.bisect_left(line, (priority, -1, -1), key=_place)
        while start < len(line) and line[start].priority == priority:
            if line[start].wants == wants:
                return line[start]
            start += 1
        return None

    def lines(self, freed: Mapping[str, Mode]) -> dict[str, list[Request]]:
        """The lines, by lock, of those who may go on because locks in these modes are free.

        Where something shared was let go of, only those are among them who want it exclusively.
        """
        shared = (line for lock in freed for line in self._exclusive.overlapping(lock))
        alone = (line for lock in freed if freed[lock] is Mode.EXCLUSIVE for line in self._lines.overlapping(lock))
        return dict(itertools.chain(shared, alone))

    def best_priority(self, wanted: Mapping[str, Mode]) -> int | None:
        """The best priority in the lines of these locks; costs a look at each of them."""
        lines = (line for lock in wanted for _, line in self._lines.overlapping(lock))
        return min((line[0].priority for line in lines), default=None)

    def _lines_for(self, mode: Mode) -> list[overlaps.Overlaps[list[Request]]]:
        return [self._lines, self._exclusive] if mode is Mode.EXCLUSIVE else [self._lines]


def _place(request: Request) -> Place:
    return request.place
