"""Bugs that few seeds find: for each the faults and the steps that find it soon (`FREQUENT=1`)."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation import case

if TYPE_CHECKING:
    from collections.abc import Mapping

STEPS = 12


@dataclass(frozen=True)
class Often:
    """The faults and the kinds of steps that find a bug; without kinds those of the seed.

    With `every` a step comes in each so many seconds, for what takes its time: agents are asked once a minute. `first`
    is the first seed that finds it, so that tests begin there.
    """

    faults: Mapping[str, float] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    every: float = 0.0
    first: int = 1

    def of_seed(self, seed: int) -> case.Case:
        """The case that a seed makes of it."""
        chances = random.Random(f"{seed}/every")
        steps = [self._step(step, chances) for step in case.of_seed(seed, steps=STEPS).steps]
        return case.Case(seed, tuple(steps), dict(self.faults))

    def _step(self, step: case.Step, chances: random.Random) -> case.Step:
        at = round((step.number + chances.random()) * self.every, 3) if self.every else step.at
        return dataclasses.replace(step, at=at, do=self.kinds[step.number % len(self.kinds)] if self.kinds else step.do)


TWO = {"agents": 1.0, "second-controller": 1.0, "question-lost": 0.2, "module-is-slow": 0.3}
FREQUENT: dict[str, Often] = {
    "changes_of_failed_dropped": Often(
        {"process-killed": 0.15, "look-fails": 0.4}, ("move", "failover"), every=5, first=6
    ),
    "lines_not_synced": Often({"power-loss-after-record": 0.5}),
    "failed_sync_forgotten": Often({"sync-fails": 0.03, "power-loss-after-failed-sync": 1.0}, ("tag",), first=5),
    "read_only_relies_on_disk": Often({"sync-fails": 0.1, "power-loss-after-failed-sync": 1.0}, ("tag",), first=18),
    "locks_of_plays_dropped": Often({}, ("play-by-hand", "tag", "kill")),
    "full_disk_ends_start": Often({"disk-full": 0.05, "kill-at-sync": 0.01}, ("move", "tag", "kill"), first=39),
    "return_unnoticed": Often({"agents": 1.0}, ("node-fails", "tag", "tag", "tag"), first=2),
    "lost_not_looked_for": Often({"process-killed": 0.1}, ("move", "failover")),
    "lost_move_fails": Often({"process-killed": 0.15}, ("report", "tag"), first=3),
    "book_before_disk": Often({"disk-full": 0.03}, ("move", "move", "kill")),
    "running_by_status": Often({}, ("move", "cancel", "kill")),
    "lone_job_unsynced": Often({"power-loss-at-sync": 0.01}, ("tag", "power-loss")),
    "reader_failed": Often({"agents": 1.0, "bmc-reader-fails": 0.3}, ("node-fails", "node-returns")),
    "numbers_not_promised": Often({"sync-fails": 0.1}, ("evacuate", "tag"), every=3, first=5),
    "commands_forgotten": Often(
        {"agents": 1.0, "fences": 1.0, "process-hangs": 0.3},
        ("node-fails", "untag", "untag", "kill", "untag", "untag"),
        every=30,
    ),
    "round_overtaken": Often({"disk-full": 0.1}, ("report", "delay", "delay", "delay"), every=5, first=4),
    "word_taken_back": Often(
        {"loss-noticed-late": 1.0},
        ("link-breaks", "report-all", "node-fails", "power-off-silent", "fail-over-silent"),
        every=5,
        first=15,
    ),
    "refused_move_fails": Often({}, ("report", "move", "drain-node"), every=2, first=10),
    "off_dated_anew": Often({}, ("node-isolated", "power-off-silent", "clock", "fail-over-silent"), every=30, first=10),
    "isolated_fences": Often(
        {"agents": 1.0, "bmc-lies": 0.4, "fences": 1.0},
        (*("node-fails",) * 4, *("untag",) * 8),
        every=10,
        first=5,
    ),
    "rest_of_run_lives": Often({"process-killed": 0.15, "module-outlives-play": 1.0}, ("move", "failover"), every=5),
    "reading_outlives_silence": Often(
        {"agents": 1.0, "bmc-lies": 0.4, "fences": 1.0},
        (*("node-fails",) * 4, *("untag",) * 8),
        every=10,
        first=6,
    ),
    "plan_of_silence": Often(
        {"agents": 1.0},
        ("pause-rounds", "report", "report", "ask-plan", "node-hangs", *("untag",) * 4, *("ask-plan",) * 3),
        every=15,
        first=6,
    ),
    "look_not_settled": Often(
        {"process-killed": 0.15, "kill-after-record": 0.7, "look-fails": 0.4},
        ("failover", "move", "failover", "node-returns", "node-fails"),
        every=8,
        first=8,
    ),
    "same_number": Often({**TWO, "controllers-start-together": 1.0}, ("tag",), every=10, first=28),
    "majority_of_all": Often(
        {"agents": 1.0}, ("node-fails", "power-off-silent", "node-fails", "power-loss"), every=90, first=15
    ),
    "compared_before_lock": Often(
        {**TWO, "module-is-slow": 0.6, "process-killed": 0.2}, ("move", "failover", "move"), every=20, first=2
    ),
    "epoch_not_synced": Often({"agents": 1.0}, ("move", "node-reboots", "power-loss"), every=30),
    "answer_of_before": Often({**TWO, "question-lost": 0.25}, ("move", "failover", "move"), every=20, first=22),
    "off_not_read": Often(
        TWO,
        ("node-fails", "power-off-silent", "node-returns", "report-all", "move-many", "move-many"),
        every=25,
        first=4,
    ),
    "epoch_used_again": Often(TWO, ("move", "kill", "failover"), every=60, first=4),
    "boot_not_compared": Often(
        {"agents": 1.0, "process-killed": 0.1}, ("move", "node-reboots", "failover"), every=20, first=10
    ),
}
