"""Values by lock, and which of them overlap another lock: a set lock overlaps every lock of its level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from ...plugins.plugin_utils.cluster import locks

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = TypeVar("Value")


class Overlaps(Generic[Value]):
    """A mapping by lock; to look for what overlaps a single lock costs the same however many there are."""

    def __init__(self) -> None:
        self._levels: dict[str, dict[str, Value]] = {level: {} for level in locks.LEVELS}

    def get(self, lock: str) -> Value | None:
        return self._levels[locks.level(lock)].get(lock)

    def __setitem__(self, lock: str, value: Value) -> None:
        self._levels[locks.level(lock)][lock] = value

    def __delitem__(self, lock: str) -> None:
        del self._levels[locks.level(lock)][lock]

    def items(self) -> Iterator[tuple[str, Value]]:
        """All locks with their values, level by level."""
        for level in self._levels.values():
            yield from level.items()

    def overlapping(self, lock: str) -> Iterator[tuple[str, Value]]:
        """The locks here that overlap one, itself among them, with their values."""
        level = self._levels[locks.level(lock)]
        if locks.is_set(lock):
            yield from level.items()
            return
        for name in (locks.set_of(lock), lock):
            if name in level:
                yield name, level[name]
