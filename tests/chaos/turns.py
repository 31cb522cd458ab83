"""Which controller led when, and whose steps a journal has: once a later one acted on an instance, none of before does.

A copy of a controller numbers its jobs from a number of its own, so the opcode of an event says whose step it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import store as job_store
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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

    `owners` are the controllers that began their opcodes, where only one did: whose other steps are nobody can tell.
    """

    turns: list[Turn] = field(default_factory=list)
    shared: set[int] = field(default_factory=set)
    owners: dict[str, int] = field(default_factory=dict)

    def find_owners(self, roots: Iterable[Path]) -> None:
        """Find who began the opcodes of shared jobs, by the folders of the controllers in the order of their numbers.

        A copy has the moment at which the original began one; another moment says that it began it as well.
        """
        begun: dict[str, dict[float, int]] = {}
        for controller, root in enumerate(roots):
            kept = job_store.Store(tree.Tree(root).queue)
            jobs = [*kept.load().values(), *kept.newest_archived(kept.highest_id())]
            for job in jobs:
                for index, opcode in enumerate(job.opcodes if job.id in self.shared else ()):
                    if opcode.started:
                        begun.setdefault(f"{job.id}/{index}", {}).setdefault(opcode.started, controller)
        self.owners = {name: next(iter(found.values())) for name, found in begun.items() if len(found) == 1}

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
        if not (job.isdigit() and index):
            return None
        owner = self.owners.get(event["opcode"]) if int(job) in self.shared else int(job) // NUMBERS
        own = [turn for turn in self.turns if turn.controller == owner and turn.since <= event["ns"]]
        return max(own, key=lambda turn: turn.epoch, default=None)
