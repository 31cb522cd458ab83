"""What becomes of a failover from a node that cannot be asked: all combinations, by a table written from the rule."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re

import pydantic
import pytest
from ansible_collections.roundsman.cluster.daemon.cli import durations
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import possible_loss
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.possible_loss import Disk, Question, Verdict
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract
from hypothesis import given
from hypothesis import strategies as st

G, OTHER = 0x10, 0x20
ASKED = 1_700_000_100.0
DISK = Disk("r0", "UpToDate", age=70.0, current=G, bitmap=0, recorded=G)
QUESTION = Question("web1", "node1", "node2", ASKED, 5000.0, (DISK,), since_off=60.0, limit=50.0, confirm="look again")
"""The source was known to be off 60 s before the survivor answered, and seen in sync 10 s before that.

A survivor says Connected for 20 s after a cut, so that a sight shows only that the pair was in sync 20 s before.
"""

SIGHTS = {
    # How long ago the source was seen, and how much was lost where it was known to be off 60 s ago.
    "seen 10 s before the off": (70.0, 30.0),
    "seen at the limit before the off": (90.0, 50.0),
    "seen above the limit before the off": (91.0, 51.0),
    "seen while DRBD did not notice yet": (41.0, 1.0),
    "seen at the end of that": (40.0, 0.0),
    "seen after that": (39.0, None),
    "never seen": (None, None),
    "seen in the future": (-1.0, None),
    "seen before the boot": (5001.0, None),
    "seen at no time": (math.nan, None),
}
REPLICAS = {
    "of that generation": (dataclasses.replace(DISK), True),
    "promoted since": (dataclasses.replace(DISK, current=OTHER, bitmap=G), True),
    "not on record": (dataclasses.replace(DISK, current=OTHER, recorded=None), True),
    "of another generation": (dataclasses.replace(DISK, current=OTHER), False),
    "of no known generation": (dataclasses.replace(DISK, current=None, bitmap=None), False),
    "outdated": (dataclasses.replace(DISK, state="Outdated"), False),
    "inconsistent": (dataclasses.replace(DISK, state="Inconsistent"), False),
    "consistent": (dataclasses.replace(DISK, state="Consistent"), False),
    "down": (dataclasses.replace(DISK, state=""), False),
}
LIMITS = {"a limit": (50.0, None), "no loss": (0.0, None), "a person's": (0.0, 51.0), "a person's 0": (50.0, 0.0)}


@pytest.mark.parametrize("age", [1e10, 1e12, 1e300])
def test_an_age_that_no_calendar_has_is_none_whatever_uptime_a_node_claims(age: float) -> None:
    """Its date is no text: a lying node ended the daemon, and the play that asked it."""
    disk = dataclasses.replace(DISK, age=age)
    for uptime in (1e300, math.inf):
        found = possible_loss.judge(dataclasses.replace(QUESTION, uptime=uptime, disks=(disk,)))
        assert (found.verdict, found.seconds) == (Verdict.UNKNOWN, None)


def expected(
    sight: str, replica: str, limit: str, *, is_connected: bool, word: bool, is_stated: bool, is_unfinished: bool
) -> tuple[Verdict, float | None]:
    """The row of the table, read from the issue: not one line of it is shared with the rule."""
    _, lost = SIGHTS[sight]
    if sight == "seen after that":
        number: float | None = 0.0
    else:
        number = lost
    if is_unfinished or not REPLICAS[replica][1] or word:
        return Verdict.REFUSE, number
    if is_connected or sight == "seen after that":
        return Verdict.CONFIRM, number
    if lost is None:
        return Verdict.UNKNOWN, None
    if limit == "a person's":
        return Verdict.GO, lost
    if limit == "a limit" and lost <= 50 and not is_stated:
        return Verdict.GO, lost
    return Verdict.ASK, lost


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("replica", REPLICAS)
def test_the_table(sight: str, replica: str) -> None:
    either = (False, True)
    for limit, is_connected, word, is_stated, is_unfinished in itertools.product(
        LIMITS, either, either, either, either
    ):
        seconds, accepted = LIMITS[limit]
        disk = dataclasses.replace(REPLICAS[replica][0], age=SIGHTS[sight][0], is_connected=is_connected)
        asked = dataclasses.replace(
            QUESTION,
            disks=(disk,),
            limit=seconds,
            accepted=accepted,
            word=90.0 if word else 0.0,
            stated_by="alice" if is_stated else "",
            unfinished="replace-disks has not ended" if is_unfinished else "",
        )
        found = possible_loss.judge(asked)
        row = expected(
            sight,
            replica,
            limit,
            is_connected=is_connected,
            word=word,
            is_stated=is_stated,
            is_unfinished=is_unfinished,
        )
        assert (found.verdict, found.seconds) == row, asked
        assert bool(found.reason) is bool(found.unblock) is (found.verdict is not Verdict.GO)
        assert "\n" not in found.reason + found.unblock


@pytest.mark.parametrize(
    ("since_off", "verdict"),
    [(0.0, Verdict.WAIT), (20.0, Verdict.WAIT), (20.5, Verdict.CONFIRM), (500.0, Verdict.CONFIRM)],
)
def test_a_survivor_that_is_still_connected_is_waited_for_as_long_as_drbd_needs_to_notice(
    since_off: float, verdict: Verdict
) -> None:
    disk = dataclasses.replace(DISK, is_connected=True, age=3.0)
    found = possible_loss.judge(dataclasses.replace(QUESTION, disks=(disk,), since_off=since_off))
    assert found.verdict is verdict


def test_a_source_that_is_not_known_to_be_off_is_no_source_and_its_loss_grows() -> None:
    running = dataclasses.replace(QUESTION, since_off=None)
    found = possible_loss.judge(dataclasses.replace(running, limit=90.0))
    assert (found.verdict, found.seconds, found.seen_off) == (Verdict.WAIT, 90.0, 0.0)
    found = possible_loss.judge(running)
    assert (found.verdict, found.seconds) == (Verdict.ASK, 90.0)
    assert "node1 is not known to be off" in found.reason
    assert "--max-loss 210s`" in found.unblock, "with a margin, because it may write until it is off"


def test_the_oldest_disk_is_the_number_and_the_newest_one_shows_that_the_source_lived() -> None:
    old = dataclasses.replace(DISK, age=85.0)
    found = possible_loss.judge(dataclasses.replace(QUESTION, disks=(old, DISK)))
    assert (found.verdict, found.seconds) == (Verdict.GO, 45.0)
    assert (found.last_in_sync, found.seen_off) == (ASKED - 105, ASKED - 60)
    new = dataclasses.replace(DISK, age=1.0)
    assert possible_loss.judge(dataclasses.replace(QUESTION, disks=(old, new))).verdict is Verdict.CONFIRM
    unseen = dataclasses.replace(DISK, age=None)
    assert possible_loss.judge(dataclasses.replace(QUESTION, disks=(DISK, unseen))).verdict is Verdict.UNKNOWN
    bad = dataclasses.replace(DISK, state="Outdated")
    assert possible_loss.judge(dataclasses.replace(QUESTION, disks=(DISK, bad))).verdict is Verdict.REFUSE
    assert possible_loss.judge(dataclasses.replace(QUESTION, disks=())).verdict is Verdict.REFUSE


@pytest.mark.parametrize(("lost", "is_stated"), [(51.0, False), (86400.0, False), (86401.0, False), (25.0, True)])
def test_the_command_that_accepts_the_loss_is_one_that_succeeds(lost: float, *, is_stated: bool) -> None:
    disk = dataclasses.replace(DISK, age=40.0 + lost)
    asked = dataclasses.replace(QUESTION, disks=(disk,), uptime=1e6, stated_by="alice" if is_stated else "")
    found = possible_loss.judge(asked)
    assert (
        f"may lack the writes of the last {lost:.0f} s: node2 was last known to be in sync with node1 at"
        in found.reason
    )
    assert ("known to be off since 2023-11-14 22:14:00 UTC by the word of alice" in found.reason) is is_stated
    command = re.search(r"`roundsman instance failover web1 --max-loss (\S+)`", found.unblock)
    if lost > 86400:
        assert command is None
        assert "`roundsman instance failover web1 --ignore-consistency`" in found.unblock
        return
    assert command is not None
    seconds = pydantic.TypeAdapter(contract.Loss).validate_python(durations.seconds(command[1], what="--max-loss"))
    assert possible_loss.judge(dataclasses.replace(asked, accepted=seconds)).verdict is Verdict.GO


@pytest.mark.parametrize("later", [0.0, 20.0, 60.0, possible_loss.MARGIN])
@pytest.mark.parametrize(
    ("since_off", "age", "answered", "passed"),
    [
        (30.0, 500.0, None, 0.0),
        (0.0, 500.0, None, 0.0),
        (30.0, 500.0, 490.0, 0.0),
        (30.0, 500.0, 100.0, 0.0),
        (None, 500.0, None, 0.0),
        (None, 500.0, None, 300.0),
    ],
)
def test_the_command_suffices_where_its_play_fences_the_source_anew(
    since_off: float | None, age: float, answered: float | None, passed: float, later: float
) -> None:
    """The off of a play that was refused is on no record: that of the next one counts, and comes later."""
    disk = dataclasses.replace(DISK, age=age, answered=answered)
    asked = dataclasses.replace(QUESTION, disks=(disk,), since_off=since_off, is_recorded=False, passed=passed)
    found = possible_loss.judge(asked)
    command = re.search(r"`roundsman instance failover web1 --max-loss (\S+)s`", found.unblock)
    assert found.verdict is Verdict.ASK
    assert command is not None
    # By then the source is not asked any more, and what it answered counts no more.
    again = dataclasses.replace(DISK, age=age + passed + later + 30.0, answered=None)
    second = dataclasses.replace(asked, asked=ASKED + passed + later + 30.0, disks=(again,), since_off=30.0, passed=0.0)
    assert possible_loss.judge(dataclasses.replace(second, accepted=float(command[1]))).verdict is Verdict.GO


def test_what_the_source_itself_answered_in_this_failover_is_as_good_as_a_sight_and_needs_no_margin() -> None:
    for age, answered, seconds in ((70.0, 65.0, 5.0), (None, 65.0, 5.0), (70.0, 500.0, 30.0)):
        disk = dataclasses.replace(DISK, age=age, answered=answered)
        found = possible_loss.judge(dataclasses.replace(QUESTION, disks=(disk,)))
        assert (found.verdict, found.seconds) == (Verdict.GO, seconds)


def test_a_generation_from_before_counts_where_it_was_seen_in_sync_later() -> None:
    resynced = dataclasses.replace(DISK, current=OTHER, ancestors=(0x30, G))
    assert possible_loss.judge(dataclasses.replace(QUESTION, disks=(resynced,))).verdict is Verdict.GO


def test_what_was_not_off_is_confirmed_again_and_what_did_not_end_is_ended() -> None:
    seen = dataclasses.replace(QUESTION, disks=(dataclasses.replace(DISK, age=5.0),))
    found = possible_loss.judge(seen)
    assert found.unblock == "look again"
    assert found.reason == (
        "node2 saw node1 at 2023-11-14 22:14:55 UTC, although node1 was known to be off since 2023-11-14 22:14:00 UTC"
    )
    made = dataclasses.replace(QUESTION, unfinished="replace-disks has not ended", finish="finish it")
    found = possible_loss.judge(made)
    assert found.reason == "the replica of web1 on node2 is not known to be in sync: replace-disks has not ended"
    assert found.unblock.startswith("node1 back in service, then finish it, or `roundsman instance failover web1 ")


AGES = st.one_of(st.none(), st.floats(-10, 6000), st.just(math.inf))


@given(
    ages=st.lists(AGES, min_size=1, max_size=3),
    since_off=st.floats(0, 6000),
    limit=st.integers(0, 86400),
    accepted=st.one_of(st.none(), st.integers(0, 86400)),
)
def test_nothing_that_runs_loses_more_than_is_stated_or_more_than_is_allowed(
    ages: list[float | None], since_off: float, limit: int, accepted: int | None
) -> None:
    disks = tuple(dataclasses.replace(DISK, age=age) for age in ages)
    asked = dataclasses.replace(QUESTION, disks=disks, since_off=since_off, limit=float(limit), accepted=accepted)
    found = possible_loss.judge(asked)
    if found.verdict is not Verdict.GO:
        return
    allowed = limit if accepted is None else accepted
    assert found.seconds is not None
    for age in ages:
        assert age is not None
        # The last write that both have was made no earlier than 20 s before the sight.
        assert max(0.0, age + 20 - since_off) <= found.seconds <= allowed


def test_a_bitmap_that_has_no_generation_is_none_that_was_recorded() -> None:
    disk = Disk("web1", "UpToDate", age=70.0, current=16, bitmap=0, recorded=0)
    asked = Question("web1", "node2", "node3", 1000.0, 1e6, (disk,), since_off=60.0, limit=120)
    assert possible_loss.judge(asked).verdict is Verdict.REFUSE
