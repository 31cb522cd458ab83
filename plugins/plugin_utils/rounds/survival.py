"""Survival: which failures of a node a plan makes worse (N+1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

if TYPE_CHECKING:
    from .room import Room


class Survival:
    """Compares what is missing for N+1 at the nodes a plan touches, before and after."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._before: dict[str, dict[str, int]] = {}

    def watch(self, nodes: Iterable[str]) -> None:
        """Remember nodes (UUIDs) as they are now, unless they are remembered already."""
        for uuid in nodes:
            if uuid in self._room.nodes and uuid not in self._before:
                self._before[uuid] = self._room.nodes[uuid].deficits()

    def lost(self) -> tuple[str, ...]:
        """The failures that were survived, or better survived, before: in words, ordered by name."""
        found = []
        for uuid, before in self._before.items():
            node = self._room.nodes[uuid]
            for peer, missing in node.deficits().items():
                if missing > before.get(peer, 0):
                    failing = self._room.nodes[peer]
                    text = (
                        f"{failing.name} may no longer fail: {node.name} has {node.spare} MiB free "
                        f"for the {node.reserved[peer]} MiB that would start there"
                    )
                    found.append((failing.rank, node.rank, text))
        return tuple(text for _, _, text in sorted(found))
