"""How much a failover from a node that cannot be asked may lose, by the answer of the survivor, and whether it may run.

The survivor has the secondary's replica. It looks at its connections every few seconds, and says how long ago it last
saw the source, by its address for replication, in sync. The possible loss is

    when the source was known to be off - (when the survivor was asked - that age) + 20 s

of the oldest disk: DRBD notices up to 20 s late that a link is cut, and the source may write alone by then. The
failover is done unattended (docs/decisions/replica-evidence.md) when all of this holds:

1. the source is known to be off, by the word of its BMC. A person's word needs the same person's `--max-loss`;
2. each replica of the survivor is UpToDate, has the generation on record, or that one in its bitmap, and has a number;
3. the possible loss is within the limit. A survivor that is still connected is waited for, for as long as DRBD needs to
   notice a loss of power; after that, or where it saw the source later than that, the source was not off;
4. the source's own newest word of the pair is not that it is not connected;
5. no other step that may have moved the instance, or its data, is unfinished.

A limit, or what a person accepts, is about 1 and 3 only; what has no number only `--ignore-consistency` starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Optional, Tuple

from ...module_utils.domain.disks.drbd import Disk as State
from ...module_utils.domain.disks.replicas import OLDEST
from .replica_texts import clock

MAX_LOSS = 120
"""Seconds of writes that a failover which nobody ordered may lose, where neither group nor cluster says otherwise."""
MARGIN = 120
"""Seconds that a person's limit gets on top where no off of the source is on record: its loss grows until it is off."""
ANSWERING = 10
"""Seconds that it gets on top else: the number has the time in it that the survivor takes to answer."""
MOST_ACCEPTED = 86400
"""Seconds of writes that a person accepts to lose by a number, at most."""
NOTICED = 20.0
"""Seconds after a loss of a node, or of the link to it, in which DRBD notices it at the latest: it says Connected."""


class Verdict(Enum):
    """What becomes of a failover; all but `GO` refuse it."""

    GO = "go"
    WAIT = "wait"
    """It is asked again: the survivor is still connected, or the source is not known to be off yet."""
    ASK = "ask a person"
    """A person may accept the possible loss by its number."""
    CONFIRM = "confirm again"
    """The source was not off when it was known to be off."""
    UNKNOWN = "no number"
    """The survivor has restarted since, has no agent, or says what cannot be."""
    REFUSE = "refuse"
    """A rule is against it that no number lifts."""


_Refusal = Tuple[Verdict, str, str]


@dataclass(frozen=True)
class Disk:
    """One disk of the survivor as it answered; `text` names it, in DRBD's words.

    `age` is how many seconds ago it saw the source in sync, `answered` how many seconds ago the source itself said so
    in this failover, None for never. `recorded` is the generation that its replica had when that was last reported;
    None is not on record, or not known. `ancestors` are generations before the present one, where it saw the source in
    sync after that report: the pair may have parted and resynced between.
    """

    text: str
    state: str
    is_connected: bool = False
    age: Optional[float] = None
    answered: Optional[float] = None
    current: Optional[int] = None
    bitmap: Optional[int] = None
    recorded: Optional[int] = None
    ancestors: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Question:
    """A failover of an instance from a node that cannot be asked to the survivor; all names are for texts.

    `asked` is when the survivor answered (unix seconds), and `uptime` how many seconds it was up then. `since_off` has
    the seconds from when the source was first known to be off to that answer, None while it is not known. `limit` is
    how many seconds of writes may be lost, `accepted` how many a person gives up, None where nobody does. `word` is
    when the source said that the pair is not connected (unix seconds), 0 where it did not. `unfinished` says which step
    did not end, and `finish` what a person does about that; `confirm` is what a person does about a source that was not
    off, and `stated_by` who says that it is off, '' for its BMC. `option` is what the command that fails it over from
    the source needs, beside what accepts a loss. `is_recorded` says whether `since_off` counts for another failover:
    what a play found out itself is on no record. `passed` is how many seconds ago the survivor answered.
    """

    instance: str
    source: str
    target: str
    asked: float
    uptime: float
    disks: Tuple[Disk, ...]
    since_off: Optional[float]
    limit: float
    accepted: Optional[float] = None
    word: float = 0.0
    unfinished: str = ""
    finish: str = ""
    confirm: str = ""
    stated_by: str = ""
    option: str = ""
    is_recorded: bool = True
    passed: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What becomes of a failover, with the possible loss in seconds (None: no number), and the remedy if it is refused.

    `last_in_sync` and `seen_off` are unix times, 0 for never.
    """

    verdict: Verdict
    seconds: Optional[float] = None
    reason: str = ""
    unblock: str = ""
    last_in_sync: float = 0.0
    seen_off: float = 0.0

    @property
    def keeps_back(self) -> bool:
        """Whether a failover is not begun: what the survivor would answer to its play cannot allow it."""
        return self.verdict in {Verdict.ASK, Verdict.REFUSE}


def text(seconds: Optional[float]) -> str:
    """A possible loss in words; None is one without a number."""
    if seconds is None:
        return "possible loss: all writes since an unknown time"
    return f"possible loss: writes of the last {math.ceil(seconds)} s"


def judge(asked: Question) -> Answer:
    """Whether a failover may run unattended, or by what a person accepts, and how much it may lose."""
    age = _oldest(asked)
    seconds = None if age is None else max(0.0, age - (asked.since_off or 0.0))
    seen_off = 0.0 if asked.since_off is None else asked.asked - asked.since_off
    last = 0.0 if age is None else asked.asked - age

    verdict, reason, unblock = (
        _doubt(asked) or _not_off(asked) or _bounded(asked, seconds=seconds, last=last) or (Verdict.GO, "", "")
    )
    return Answer(verdict, seconds, reason, unblock, last, seen_off)


def _bounded(asked: Question, *, seconds: Optional[float], last: float) -> Optional[_Refusal]:
    """Why the possible loss is not accepted; None where it is."""
    if seconds is None:
        reason = f"{asked.target} cannot say when it last saw {asked.source} in sync"
        return Verdict.UNKNOWN, f"{_replica(asked)} is not known to be in sync: {reason}", _cure(asked)
    allowed = asked.limit if asked.accepted is None else asked.accepted
    by_hand = asked.accepted is not None or not asked.stated_by
    # A limit of 0 always asks, also where nothing was lost.
    if not (by_hand and allowed and seconds <= allowed):
        return Verdict.ASK, _too_much(asked, seconds, last, allowed), _acceptance(asked, seconds)
    return (
        None if asked.since_off is not None else (Verdict.WAIT, f"{asked.source} is not known to be off", asked.confirm)
    )


def _not_off(asked: Question) -> Optional[_Refusal]:
    """Why the source is not off, though it was known to be, or may not have been noticed yet; None where it is."""
    if asked.since_off is None:
        return None
    although = f"although {asked.source} was known to be off since {clock(asked.asked - asked.since_off)}"
    if any(disk.is_connected for disk in asked.disks):
        if asked.since_off <= NOTICED:
            reason = f"{asked.target} is still connected, because DRBD has not noticed yet that {asked.source} is off"
            return Verdict.WAIT, reason, "a retry in a few seconds"
        return Verdict.CONFIRM, f"{asked.target} is connected, {although}", asked.confirm
    youngest = min((age for disk in asked.disks if (age := _sight(asked, disk)) is not None), default=math.inf)
    if asked.since_off - youngest <= NOTICED:
        return None
    return (
        Verdict.CONFIRM,
        f"{asked.target} saw {asked.source} at {clock(asked.asked - youngest)}, {although}",
        asked.confirm,
    )


def _sight(asked: Question, disk: Disk) -> Optional[float]:
    """How long ago a disk was seen in sync; None where that is not known, or cannot be."""
    age = disk.age
    if age is None or not 0 <= age <= min(asked.uptime, OLDEST):
        return None
    return age


def _age(asked: Question, disk: Disk) -> Optional[float]:
    """How long ago a disk was in sync: a survivor may see a source that it has lost already, and that writes alone."""
    sight = _sight(asked, disk)
    ages = [age for age in (None if sight is None else sight + NOTICED, disk.answered) if age is not None]
    return min(ages, default=None)


def _oldest(asked: Question) -> Optional[float]:
    ages = [_age(asked, disk) for disk in asked.disks]
    known = [age for age in ages if age is not None]
    return max(known) if ages and len(known) == len(ages) else None


def _doubt(asked: Question) -> Optional[_Refusal]:
    """Why no number counts; None where one does."""
    texts = (asked.unfinished, *(_unfit(asked, disk) for disk in asked.disks), _own_word(asked))
    reason = next((text for text in texts if text), "")
    if not asked.disks:
        reason = reason or f"{asked.target} lists no disk of it"
    return (Verdict.REFUSE, f"{_replica(asked)} is not known to be in sync: {reason}", _cure(asked)) if reason else None


def _unfit(asked: Question, disk: Disk) -> str:
    if disk.state != State.UP_TO_DATE.value:
        return f"{disk.text} on {asked.target} is {disk.state or 'down'}"
    if disk.recorded is None or _has_generation(disk, disk.recorded):
        return ""
    current = "not known" if disk.current is None else f"{disk.current:016X}"
    known = f"{disk.recorded:016X} when the pair was in sync"
    return f"the generation of {disk.text} on {asked.target} is {current}, and was {known}"


def _own_word(asked: Question) -> str:
    return f"{asked.source} reported at {clock(asked.word)} that the pair is not in sync" if asked.word else ""


def _has_generation(disk: Disk, recorded: int) -> bool:
    """A failover that was killed after the promotion leaves a new generation, and the old one in the bitmap."""
    return disk.current == recorded or (bool(recorded) and recorded in (disk.bitmap, *disk.ancestors))


def _replica(asked: Question) -> str:
    return f"the replica of {asked.instance} on {asked.target}"


def _too_much(asked: Question, seconds: float, last: float, allowed: float) -> str:
    off = f"known to be off since {clock(asked.asked - asked.since_off)}" if asked.since_off is not None else ""
    power = off or "not known to be off"
    if off and asked.stated_by:
        power += f" by the word of {asked.stated_by}"
    limit = f"the limit is {allowed:.0f} s"
    if asked.stated_by and asked.accepted is None:
        limit = "a person's word needs a person's --max-loss"
    return (
        f"{_replica(asked)} may lack the writes of the last {math.ceil(seconds)} s: {asked.target} was last "
        f"known to be in sync with {asked.source} at {clock(last)}, and {asked.source} is {power}; {limit}"
    )


def _acceptance(asked: Question, seconds: float) -> str:
    """What a person does about a replica that may lack the writes of so long, and nothing else is against."""
    is_recorded = asked.since_off is not None and asked.is_recorded
    accepted = max(1, math.ceil(seconds if is_recorded else _until_now(asked, seconds)))
    # A source whose off is on no record may write on until the next failover has found it off.
    accepted += 0 if is_recorded else MARGIN
    if accepted > MOST_ACCEPTED:
        return f"{_cure(asked)} (--max-loss accepts at most {MOST_ACCEPTED} s)"
    if is_recorded:
        accepted = min(accepted + ANSWERING, MOST_ACCEPTED)
    command = f"roundsman instance failover {asked.instance}{asked.option} --max-loss {accepted}s"
    return (
        f"{asked.source} back in service, or `{command}`, which accepts that loss (without it failover_max_loss is "
        "the limit)"
    )


def _until_now(asked: Question, seconds: float) -> float:
    """How long ago the source was in sync, without what it answered itself: it does not answer the next failover."""
    age = _oldest(replace(asked, disks=tuple(replace(disk, answered=None) for disk in asked.disks)))
    return (seconds + (asked.since_off or 0.0) if age is None else age) + asked.passed


def _cure(asked: Question) -> str:
    back = f"{asked.source} back in service{', then ' if asked.finish else ''}{asked.finish}"
    force = f"`roundsman instance failover {asked.instance}{asked.option} --ignore-consistency`"
    return f"{back}, or {force}, which loses what was written since"
