"""Who holds which locks, in which mode and what for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.cluster.locks import Mode
from . import overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Owner:
    """Who holds or wants locks: a name to show, and the livelock whose end ends the ownership ('' for a job)."""

    name: str
    livelock: str = ""


@dataclass(frozen=True)
class Holding:
    """What for, and since when (unix seconds), an owner holds locks."""

    purpose: str = ""
    since: float = 0.0


class Holders:
    """Everybody who holds something; who holds a lock exclusively is found at once, however many share others."""

    def __init__(self) -> None:
        self.holdings: dict[Owner, Holding] = {}
        self._mine: dict[Owner, dict[str, Mode]] = {}
        self._held: overlaps.Overlaps[dict[Owner, Mode]] = overlaps.Overlaps()
        self._alone: overlaps.Overlaps[Owner] = overlaps.Overlaps()

    def __contains__(self, owner: Owner) -> bool:
        return owner in self._mine

    def owners(self) -> set[Owner]:
        """Everybody who holds something."""
        return set(self._mine)

    def locks_of(self, owner: Owner) -> Mapping[str, Mode]:
        """What an owner holds."""
        return self._mine.get(owner, {})

    def by_lock(self) -> dict[str, dict[Owner, Mode]]:
        """Every lock that is held, with its holders."""
        return dict(self._held.items())

    def hold(self, owner: Owner, wants: Mapping[str, Mode], holding: Holding) -> None:
        """Write down what an owner holds from now on; of who holds something already the holding stays."""
        for lock, mode in wants.items():
            holders = self._held.get(lock)
            if holders is None:
                holders = self._held[lock] = {}
            elif self._alone.get(lock) == owner:
                del self._alone[lock]
            holders[owner] = self._mine.setdefault(owner, {})[lock] = mode
            if mode is Mode.EXCLUSIVE:
                self._alone[lock] = owner
        if owner in self._mine:
            self.holdings.setdefault(owner, holding)

    def share(self, owner: Owner, lock: str) -> None:
        """Write down that an owner only shares a lock that it holds."""
        self.hold(owner, {lock: Mode.SHARED}, self.holdings[owner])

    def let_go(self, owner: Owner, lock: str) -> None:
        """Write down that an owner holds a lock no more."""
        mine, holders = self._mine[owner], self._held.get(lock)
        if holders is None:
            raise KeyError(lock)
        del holders[owner]
        if not holders:
            del self._held[lock]
        if mine.pop(lock) is Mode.EXCLUSIVE:
            del self._alone[lock]
        if not mine:
            del self._mine[owner]
            self.holdings.pop(owner, None)

    def clashing(self, owner: Owner, wants: Mapping[str, Mode]) -> Iterator[Owner]:
        """The others who hold something with which these wants clash."""
        for lock, mode in wants.items():
            if mode is Mode.EXCLUSIVE:
                for _, holders in self._held.overlapping(lock):
                    yield from (holder for holder in holders if holder != owner)
            else:
                yield from (holder for _, holder in self._alone.overlapping(lock) if holder != owner)
