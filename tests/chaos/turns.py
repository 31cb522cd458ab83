"""Which controller led when, and whose steps a journal has: once a later one acted on an instance, none of before does.

A copy of a controller numbers its jobs from a number of its own, so the opcode of an event says whose step it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.roundsman.cluster.daemon.lab.journals import Event

NUMBERS = 10_000
"""How many numbers of jobs each copy of a controller has for itself."""


@dataclass(frozen=True)
class Turn:
    """A controller led in an epoch of this number, and acted in it from a moment (ns) on, not before."""

    epoch: int
    controller: int
    since: int


@dataclass
class Turns:
    """The turns of all controllers; `shared` are the jobs (numbers) that had not ended when a controller was copied.

    Nobody can tell which of the two acts for such a job.
    """

    turns: list[Turn] = field(default_factory=list)
    shared: set[int] = field(default_factory=set)

    def overtaken(self, events: Iterable[Event]) -> list[str]:
        """The events of controllers of an earlier turn on instances on which one of a later turn has acted."""
        latest: dict[str, Turn] = {}
        wrong = []
        for event in events:
            turn = self._turn(event)
            if turn is None or "instance" not in event or event["event"] == "overwritten":
                continue
            name = event["instance"]
            before = latest.setdefault(name, turn)
            if turn.epoch >= before.epoch:
                latest[name] = turn
            elif turn.controller != before.controller:
                wrong.append(
                    f"{name} was {event['event']} on {event['node']} by opcode {event['opcode']} of the controller "
                    f"that led in epoch {turn.epoch}, after the one of epoch {before.epoch} had acted on it"
                )
        return wrong

    def _turn(self, event: Event) -> Turn | None:
        """The turn in which the controller led that ordered this, None where that is not known."""
        job, _, index = str(event.get("opcode", "")).partition("/")
        if not (job.isdigit() and index) or int(job) in self.shared:
            return None
        own = [turn for turn in self.turns if turn.controller == int(job) // NUMBERS and turn.since <= event["ns"]]
        return max(own, key=lambda turn: turn.epoch, default=None)
