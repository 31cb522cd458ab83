"""Which of the queued jobs may begin now, and in which order: by priority, then number.

A job that is let in asks for its locks, and whoever holds locks without being at work stands in the way of others: so
only as many are let in before others as can be at work. One that waits for its locks is not among them and keeps nobody
out, until a thousand wait. A job is measured by the better ones only: a worse one never keeps it out.

Nothing here looks at all jobs: those that a rule holds, or whose bucket is full, stand aside until it changes.
"""

from __future__ import annotations

import bisect
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .rules import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.domain import job_filters

BLOCKED = 1000
"""How many better jobs may wait for locks before another one is let in."""
Place = tuple[int, int]
"""Priority and number: the order of jobs."""


@dataclass(frozen=True)
class Entry:
    """A queued job that may begin when its turn has come."""

    job: int
    priority: int
    lane: Lane
    buckets: tuple[job_filters.Bucket, ...] = ()

    @property
    def place(self) -> Place:
        return self.priority, self.job


@dataclass
class Schedule:
    """The queued jobs, and those that were let in."""

    _entries: dict[int, Entry] = field(default_factory=dict)
    _lines: dict[Lane, list[Place]] = field(default_factory=lambda: {lane: [] for lane in Lane})
    _aside: dict[str, list[Place]] = field(default_factory=dict)
    _stands: dict[int, str] = field(default_factory=dict)
    _inside: dict[int, Entry] = field(default_factory=dict)
    _ahead: dict[Lane, list[Place]] = field(default_factory=lambda: {lane: [] for lane in Lane})
    _blocked: list[Place] = field(default_factory=list)
    _tickets: dict[str, set[int]] = field(default_factory=dict)
    _mine: dict[int, tuple[job_filters.Bucket, ...]] = field(default_factory=dict)

    def __contains__(self, job: int) -> bool:
        return job in self._entries

    def put(self, entry: Entry) -> None:
        """A job is queued, again or with another priority."""
        self.drop(entry.job)
        self._entries[entry.job] = entry
        bisect.insort(self._lines[entry.lane], entry.place)

    def drop(self, job: int) -> None:
        """A job is not queued any more; a place in a bucket that it was called for is for the next one."""
        entry = self._entries.get(job)
        if entry is not None:
            self._take_out(entry)
            self._call_next(entry)

    def _take_out(self, entry: Entry) -> None:
        job = entry.job
        del self._entries[job]
        aside = self._stands.pop(job, None)
        line = self._lines[entry.lane] if aside is None else self._aside[aside]
        _remove(line, entry.place)
        if aside is not None and not line:
            del self._aside[aside]

    def take(self, widths: Mapping[Lane, int]) -> int | None:
        """Let in the next job that may begin; with each lane's number of jobs that may be before another one."""
        for lane, line in self._lines.items():
            while line and self._is_open(line[0], self._ahead[lane], width=widths[lane]):
                entry = self._entries[line[0][1]]
                full = self._full(entry)
                if full is None:
                    self._let_in(entry)
                    return entry.job
                self._stand_aside(entry, full)
        return None

    def waits(self, job: int) -> None:
        """A job that was let in waits for its locks: it keeps nobody out."""
        entry = self._inside.get(job)
        if entry is not None and _remove(self._ahead[entry.lane], entry.place):
            bisect.insort(self._blocked, entry.place)

    def goes_on(self, job: int) -> None:
        """A job has its locks."""
        entry = self._inside.get(job)
        if entry is not None and _remove(self._blocked, entry.place):
            bisect.insort(self._ahead[entry.lane], entry.place)

    def leaves(self, job: int) -> None:
        """A job that was let in is at work in a slot, or back in the queue, or has ended."""
        entry = self._inside.pop(job, None)
        if entry is not None and not _remove(self._ahead[entry.lane], entry.place):
            _remove(self._blocked, entry.place)

    def reprioritize(self, job: int, priority: int) -> None:
        """A job, queued or let in, has another priority."""
        if job in self._entries:
            self.put(dataclasses.replace(self._entries[job], priority=priority))
        elif job in self._inside:
            before = self._inside[job]
            after = self._inside[job] = dataclasses.replace(before, priority=priority)
            for line in (self._ahead[before.lane], self._blocked):
                if _remove(line, before.place):
                    bisect.insort(line, after.place)

    def queued(self) -> list[int]:
        """The jobs that are queued here, in no order."""
        return list(self._entries)

    def placed(self) -> list[int]:
        """The jobs that were let in or have begun: each has its places in buckets, if it needs any."""
        return list(self._mine)

    def reserve(self, job: int, buckets: tuple[job_filters.Bucket, ...]) -> None:
        """A job has begun already, and has its places in these buckets, and no others, even where they are full."""
        self.give_back(job)
        self._mine[job] = buckets
        for bucket in buckets:
            self._tickets.setdefault(bucket.name, set()).add(job)

    def give_back(self, job: int) -> None:
        """A job gives its places in buckets to others."""
        for bucket in self._mine.pop(job, ()):
            tickets = self._tickets[bucket.name]
            tickets.discard(job)
            if not tickets:
                del self._tickets[bucket.name]
            self._wake(bucket.name)

    def _is_open(self, place: Place, ahead: list[Place], *, width: int) -> bool:
        return bisect.bisect_left(ahead, place) < width and bisect.bisect_left(self._blocked, place) < BLOCKED

    def _full(self, entry: Entry) -> str | None:
        if entry.job in self._mine:
            return None
        full = (one for one in entry.buckets if len(self._tickets.get(one.name, ())) >= one.limit)
        return next((one.name for one in full), None)

    def _let_in(self, entry: Entry) -> None:
        self._take_out(entry)
        if entry.job not in self._mine:
            self.reserve(entry.job, entry.buckets)
        self._inside[entry.job] = entry
        bisect.insort(self._ahead[entry.lane], entry.place)

    def _stand_aside(self, entry: Entry, bucket: str) -> None:
        _remove(self._lines[entry.lane], entry.place)
        self._stands[entry.job] = bucket
        bisect.insort(self._aside.setdefault(bucket, []), entry.place)
        self._call_next(entry)

    def _call_next(self, entry: Entry) -> None:
        for bucket in entry.buckets:
            if len(self._tickets.get(bucket.name, ())) < bucket.limit:
                self._wake(bucket.name)

    def _wake(self, bucket: str) -> None:
        aside = self._aside.get(bucket)
        if aside:
            entry = self._entries[aside[0][1]]
            self._take_out(entry)
            self._entries[entry.job] = entry
            bisect.insort(self._lines[entry.lane], entry.place)


def _remove(line: list[Place], place: Place) -> bool:
    index = bisect.bisect_left(line, place)
    found = index < len(line) and line[index] == place
    if found:
        del line[index]
    return found
