"""Going through a sequence on a pair, whatever the pair is made of, and what is seen after every step."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_generations import bare, relation

from . import sequences

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Generation, Side

NODES = ("node1", "node2")
RESOURCE = "sequence-disk0"
RECORDED = Path(__file__).with_name("recorded.json")
"""What the guests answered, by the names of the sequences."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "promote": ("primary",),
    "promote --force": ("primary", "--force"),
    "demote": ("secondary",),
    "outdate": ("outdate",),
    "detach": ("detach",),
    "attach": ("attach",),
    "invalidate": ("invalidate",),
    "connect": ("connect",),
    "connect --discard-my-data": ("connect", "--discard-my-data"),
    "disconnect": ("disconnect",),
    "pause-sync": ("pause-sync",),
    "resume-sync": ("resume-sync",),
    "down": ("down",),
    "up": ("up",),
    "adjust": ("adjust",),
    "create-md": ("create-md", "--force"),
    "allow two primaries": ("net-options", "--allow-two-primaries=yes"),
    "forbid two primaries": ("net-options", "--allow-two-primaries=no"),
}
"""What drbdadm is called with for a step, before the name of the resource."""
DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class Replica:
    """One node's replica; `side` is None while the resource is down, `writes` None where they cannot be read."""

    is_on: bool
    side: Side | None = None
    generation: Generation | None = None
    writes: tuple[int, ...] | None = None

    @property
    def text(self) -> str:
        """Roles, connection, disks and replication in a line."""
        if not self.is_on:
            return "off"
        if self.side is None or not self.side.volumes:
            return "down"
        (volume,) = self.side.volumes
        words = [
            f"{self.side.role.value}/{self.side.peer_role.value}",
            self.side.connection.value,
            f"{volume.disk.value}/{volume.peer_disk.value}",
            volume.replication.value,
        ]
        return " ".join([*words, "paused"] if volume.paused_by_user else words)


class Pair(Protocol):
    """A healthy pair whose primary is node1, on two nodes that can be driven."""

    def drbdadm(self, node: str, *arguments: str) -> str:
        """Run drbdadm on the resource; returns the class of its refusal, or `DONE`."""

    def write(self, node: str, number: int) -> str:
        """Write a number to its own block of the device; returns `DONE` or `FAILED`."""

    def act(self, node: str, deed: str) -> str:
        """Do what no command of DRBD does: power-off, boot, reboot, lose-disk, return-disk."""

    def set_link(self, *, is_cut: bool) -> None:
        """Cut or restore the link of the pair."""

    def set_resync(self, *, is_slow: bool) -> None:
        """Have a resync advance, or not."""

    def settled(self) -> dict[str, Replica]:
        """Both replicas, once they do not change by themselves any more."""


@dataclass
class Story:
    """A sequence that is gone through."""

    pair: Pair
    known: dict[str, Generation] = field(default_factory=dict)
    writes: int = 0

    def play(self, steps: Iterable[str]) -> list[dict[str, Any]]:
        """What is seen before the first step and after each."""
        seen = [self._look("", DONE)]
        seen += [self._look(step, self._do(step)) for step in steps]
        return seen

    def _do(self, step: str) -> str:
        if step in {"cut", "restore"}:
            self.pair.set_link(is_cut=step == "cut")
            return DONE
        if step in {"slow", "fast"}:
            self.pair.set_resync(is_slow=step == "slow")
            return DONE
        node, _, deed = step.partition(" ")
        assert node in NODES, step
        if deed == "write":
            self.writes += 1
            return self.pair.write(node, self.writes)
        if deed in COMMANDS:
            return self.pair.drbdadm(node, *COMMANDS[deed])
        return self.pair.act(node, deed)

    def _look(self, step: str, outcome: str) -> dict[str, Any]:
        found = self.pair.settled()
        read = {node: one.generation for node, one in found.items() if one.generation is not None}
        old = {node: bare(one.current) for node, one in self.known.items()}
        new = [node for node, one in read.items() if bare(one.current) != old.get(node, bare(one.current))]
        self.known.update(read)
        seen: dict[str, Any] = {"step": step, "outcome": outcome}
        seen.update({node: found[node].text for node in NODES})
        seen["relation"] = relation(read["node1"], read["node2"]).name.lower() if len(read) == len(NODES) else None
        seen["new generation"] = new
        seen["crashed"] = [node for node, one in read.items() if one.crashed_primary]
        seen["writes"] = {node: found[node].writes for node in NODES}
        return seen


def recorded() -> dict[str, list[dict[str, Any]]]:
    """What the guests answered."""
    content: dict[str, list[dict[str, Any]]] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return content


def record(content: dict[str, list[dict[str, Any]]]) -> None:
    """Keep what the guests answered, a step a line, in the order of the sequences."""
    parts = []
    for name in (name for name in sequences.SEQUENCES if name in content):
        rows = ",\n".join(f"  {json.dumps(seen)}" for seen in content[name])
        parts.append(f" {json.dumps(name)}: [\n{rows}\n ]")
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")
