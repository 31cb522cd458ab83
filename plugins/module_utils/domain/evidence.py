"""The rule by which a replica counts as in sync after the primary node died.

The replica on the target counts as in sync when (docs/decisions/replica-evidence.md)

1. the last fact of the pair that says Connected and UpToDate/UpToDate, whichever of the two nodes reported it, is at
   most two intervals older than the source's last sign of life, or than the end of a time in which nobody asked it
   (`Life`);
2. the source's own newest word of the pair, on record or in its reports, does not say anything else. Only a later
   report of the source itself cancels such a word, never one of the target, which may lie, notice a cut link later, or
   have another clock;
3. the target has not reported anything else of the pair before the source's last sign of life. What it reports after
   that says nothing: of course it has lost its peer;
4. the target's newest fact says UpToDate, with the generation of that last fact. Or with a new one whose bitmap has
   that generation: then the target was promoted without its peer since, by a failover that did not end, and has
   everything that it had before.

While a replacement of disks has not ended it never does: facts do not name the peer, and the source may have written to
the new replica, and not to the target any more.

Whatever is not known is not in sync.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Mapping, Optional, Tuple

from .drbd import Disk
from .replicas import Moment, NodeTrack, Parted, Track, latest

WINDOW_INTERVALS = 2
NOTICED = 20.0
"""Seconds after a node's loss of power in which DRBD notices it at the latest: its peer still says Connected."""


def window(interval: float) -> float:
    """Seconds for which a fact counts, and a node may go without a question, by those between two reports."""
    return WINDOW_INTERVALS * interval


@dataclass(frozen=True)
class Evidence:
    """Whether a replica counts as in sync (`reason` is ''), the remedy otherwise, and when it was last in sync.

    `last_in_sync` is in unix seconds, 0 for never; so is `seen_off`, when its source was known to be off.
    """

    reason: str = ""
    unblock: str = ""
    last_in_sync: float = 0.0
    seen_off: float = 0.0

    @property
    def counts_as_in_sync(self) -> bool:
        """Whether the replica may be started without losing more than the stated writes."""
        return not self.reason


@dataclass(frozen=True)
class Asked:
    """When a node was asked whether it lives, from the first to the last question without a gap."""

    since: Moment
    last: Moment

    def again(self, at: Moment, *, gap: float) -> Asked:
        """The same after one more question; after more than `gap` seconds without any, by either clock, it begins anew.

        So it does after a step of the wall clock, in either direction.
        """
        passed = max(at.after(self.last), abs(at.wall - self.last.wall))
        return Asked(at if passed > gap else self.since, at)


@dataclass(frozen=True)
class Life:
    """Until when a node has lived, as far as is known now.

    `alive` is its last sign of life, of any kind, None for none; `asked` when it was asked, None for never, and
    `is_asked` whether it still is; `off` when it was first known to be off, None while it is not.
    """

    now: Moment
    alive: Optional[Moment] = None
    asked: Optional[Asked] = None
    is_asked: bool = True
    off: Optional[Moment] = None

    @property
    def seen_off(self) -> Optional[Moment]:
        """When it was known to be off, unless it has shown since that it lives."""
        has_lived = self.off is not None and self.alive is not None and self.alive.after(self.off) > 0
        return None if has_lived else self.off

    def unheard(self, gap: float) -> Moment:
        """Until when it may have lived while nobody asked it; after that its silence is known up to its end.

        Its end is when it was known to be off, or now. A node that answered the last question, and is not asked any
        more, may have lived until then. One that did not answer may have no `gap` (seconds) after that.
        """
        end = self.seen_off or self.now
        if self.asked is None:
            return end
        has_answered = self.alive is not None and self.alive.after(self.asked.last) >= 0
        is_left_alone = has_answered and not self.is_asked
        if is_left_alone or end.longest_after(self.asked.last) > gap:
            return end
        return self.asked.since if end.after(self.asked.since) > 0 else end


@dataclass(frozen=True)
class Question:
    """A failover of an instance with these resources, from a dead node to one that has a replica.

    `life` is what is known of the source's life; `interval` the seconds between two facts; `parted` what the
    configuration says. `made_on` names the nodes of new replicas, of which the source may write to one instead of to
    the target's, since `made_since` (unix seconds). `confirm_again` is what a person does about a source that was
    known to be off, and has lived since.
    """

    instance: str
    resources: Tuple[str, ...]
    source: str
    target: str
    source_name: str
    target_name: str
    life: Life
    interval: float
    parted: Optional[Parted] = None
    made_on: Tuple[str, ...] = ()
    made_since: float = 0.0
    confirm_again: str = ""

    @property
    def gap(self) -> float:
        """How many seconds older than the source's life a fact may be, and how long a silence is not asked for."""
        return window(self.interval)


def judge(asked: Question, known: Mapping[str, NodeTrack]) -> Evidence:
    """Whether the target's replica counts as in sync; `known` is what nodes (UUIDs) have reported."""
    source, target = known.get(asked.source), known.get(asked.target)
    last = [_last_in_sync(asked, resource, source, target) for resource in asked.resources]
    when = min((moment.wall for moment in last if moment is not None), default=0.0) if None not in last else 0.0
    lived_on = _lived_on(asked, target)
    objections = (_objection(asked, resource, source, target) for resource in asked.resources)
    reasons = (_written_elsewhere(asked), *objections)
    reason = lived_on or next((text for text in reasons if text), "" if asked.resources else "no disk of it is known")
    off = asked.life.seen_off
    seen_off = off.wall if off is not None and not lived_on else 0.0
    if not reason:
        return Evidence(last_in_sync=when, seen_off=seen_off)
    reason = f"the replica of {asked.instance} on {asked.target_name} is not known to be in sync: {reason}"
    return Evidence(reason, _cure(asked, has_lived=bool(lived_on)), when, seen_off)


def _written_elsewhere(asked: Question) -> str:
    if not asked.made_on:
        return ""
    nodes = " or ".join(asked.made_on)
    return (
        f"{asked.source_name} may have written to a new replica on {nodes} and not to {asked.target_name} any more "
        f"since {clock(asked.made_since)}, because replace-disks has not ended"
    )


def _cure(asked: Question, *, has_lived: bool) -> str:
    name, source = asked.instance, asked.source_name
    back, second = f"{source} back in service", ""
    if has_lived:
        back, second = asked.confirm_again, f"starts a second copy if {source} runs, and "
    by_force = (
        f"or `roundsman instance failover {name} --ignore-consistency`, which {second}loses what was written since"
    )
    if not asked.made_on:
        return f"{back}, {by_force}"
    nodes, finish = " or ".join(asked.made_on), finish_step(name, asked.made_on[-1], asked.target_name)
    return f"{back}, then {finish}; {by_force}. Keep the replica on {nodes}: it may have what {asked.target_name} lacks"


def finish_step(instance: str, made_on: str, secondary: str) -> str:
    """The command that finishes the replacement of an instance's disks, also where the node of the new replica is lost.

    All are names; `secondary` is the node that the instance has on record.
    """
    return (
        f"`roundsman instance replace-disks {instance} --to {made_on}` (if {made_on} does not come back, "
        f"{_other_target(secondary)})"
    )


def give_up_step(instance: str, secondary: str) -> str:
    """The command that ends the replacement of an instance's disks without the node of the new replica (names)."""
    return f"run `roundsman instance replace-disks {instance}` {_other_target(secondary)}"


def _other_target(secondary: str) -> str:
    return f"with `--to` another node, or with `--to {secondary}`, which replaces the replica there"


def discard_refusal(instance: str, node: str, secondary: str) -> str:
    """Why nobody discards a new replica whose replacement of disks has not ended (names)."""
    return (
        f"--discard {node}: {instance} may be written to its new replica on {node}, because replace-disks has not "
        f"ended. To give that replica up, {give_up_step(instance, secondary)}"
    )


def is_contradicted(off: Moment, connected: Moment, *, interval: float) -> bool:
    """Whether a node that was known to be off lived on, because its peer was connected to it later.

    A clock that is ahead dates a fact as late as its acceptance, an interval after it.
    """
    return connected.after(off) > interval + NOTICED


def _lived_on(asked: Question, target: Optional[NodeTrack]) -> str:
    """Why the source was not off when it was known to be, or ''."""
    tracks = [track for resource in asked.resources for track in _volumes(target, resource).values()]
    source, off, connected = asked.source_name, asked.life.off, latest(*(track.in_sync for track in tracks))
    if off is None:
        return ""
    known = f"although {source} was known to be off since {clock(off.wall)}"
    if connected is not None and is_contradicted(off, connected, interval=asked.interval):
        return f"{asked.target_name} reported at {clock(connected.wall)} that it was connected to {source}, {known}"
    if asked.life.seen_off is None and asked.life.alive is not None:
        return f"at {clock(asked.life.alive.wall)} {source} showed that it lives, {known}"
    return ""


def _last_in_sync(
    asked: Question, resource: str, source: Optional[NodeTrack], target: Optional[NodeTrack]
) -> Optional[Moment]:
    """When all volumes of a resource were seen in sync; None if one never was."""
    ours, theirs = _volumes(target, resource), _volumes(source, resource)
    oldest: Optional[Moment] = None
    for number in {*ours, *theirs}:
        moment = _seen_in_sync(asked, ours.get(number, Track()), theirs.get(number, Track()))
        if moment is None:
            return None
        oldest = moment if oldest is None or oldest.after(moment) > 0 else oldest
    return oldest


def _seen_in_sync(asked: Question, target: Track, source: Track) -> Optional[Moment]:
    """When one volume was seen in sync: by either node, but by the source alone once it said that it is not."""
    own = source.in_sync
    if asked.made_on and own is not None and own.wall > asked.made_since:
        # Its peer may have been the new replica: what it said of the target before is not kept.
        return target.in_sync
    if not _reported_by_source(asked, source):
        return latest(own, target.in_sync)
    recorded = asked.parted.last_in_sync if asked.parted is not None and asked.parted.node == asked.source else 0.0
    return own or (Moment(recorded) if recorded else None)


def _volumes(node: Optional[NodeTrack], resource: str) -> Mapping[int, Track]:
    return node.of_resource(resource) if node is not None else {}


def _objection(asked: Question, resource: str, source: Optional[NodeTrack], target: Optional[NodeTrack]) -> str:
    if target is None:
        return f"{asked.target_name} has not reported"
    if not target.is_known:
        return f"the last report of {asked.target_name} has no facts of its replicas"
    ours, theirs = _volumes(target, resource), _volumes(source, resource)
    if not ours:
        return f"{resource} is down on {asked.target_name}"
    for number in sorted({*ours, *theirs}):
        text = _against(asked, ours.get(number, Track()), theirs.get(number, Track()), lag=target.lag)
        if text:
            return f"{resource}: {text}"
    return ""


def _against(asked: Question, target: Track, source: Track, *, lag: float) -> str:
    """Why one volume does not count as in sync, checked in the order of the rule."""
    last = latest(source.in_sync, target.in_sync)
    if last is None:
        return "neither node has ever reported it in sync"
    generation = target.generation if last is target.in_sync else source.generation
    reported = _reported_by_source(asked, source)
    if reported or asked.life.alive is None:
        return reported or f"nothing is known of when {asked.source_name} was last alive"
    return _too_old(asked, last) or _lost_before(asked, target, lag=lag) or _unfit(asked, target, generation)


def _reported_by_source(asked: Question, source: Track) -> str:
    """That the source itself said the pair is not in sync, and has not said otherwise since."""
    stands, own = asked.parted, source.in_sync
    if stands is not None and stands.node == asked.source and (own is None or stands.since > own.wall):
        return _lost_at(asked.source_name, stands.since)
    if source.still_apart is not None:
        return _lost_at(asked.source_name, source.still_apart.wall)
    return ""


def _too_old(asked: Question, last: Moment) -> str:
    alive, unheard = asked.life.alive, asked.life.unheard(asked.gap)
    is_heard = alive is not None and alive.after(unheard) >= 0
    end = alive if alive is not None and is_heard else unheard
    age = end.longest_after(last)
    if age <= asked.gap:
        return ""
    what = "the last sign of life of" if is_heard else f"{clock(end.wall)}, until when nobody knows of a silence of"
    return (
        f"last seen in sync at {clock(last.wall)}, {age:.0f} s before {what} {asked.source_name} "
        f"(at most {asked.gap:.0f} s count)"
    )


def _lost_before(asked: Question, target: Track, *, lag: float) -> str:
    # One that had lost its peer before that fact, and never saw it again, does not say when it lost it anew.
    apart, alive = target.apart, asked.life.alive
    if apart is None or alive is None or apart.after(alive) > 0:
        return ""
    name = asked.target_name
    text = f"{_lost_at(name, apart.wall)}, while {asked.source_name} was alive"
    if apart.after(alive) + lag <= 0:
        return text
    return f"{text}, by the clock of {name}: its last report is dated {lag:.0f} s before it came, so see that clock"


def _unfit(asked: Question, target: Track, generation: Optional[int]) -> str:
    fact = target.fact
    if fact is None:
        return f"{asked.target_name} does not say how it is"
    if fact.disk is not Disk.UP_TO_DATE:
        return f"it is {fact.disk.value} on {asked.target_name}"
    if generation is None or fact.current is None:
        return "its generation is not known"
    if fact.current != generation and not (generation and fact.bitmap == generation):
        return f"its generation is {fact.current:016X}, and was {generation:016X} when the pair was in sync"
    return ""


def _lost_at(name: str, wall: float) -> str:
    return f"{name} reported at {clock(wall)} that the pair is not in sync"


def clock(wall: float) -> str:
    """A unix time as text for people."""
    return dt.datetime.fromtimestamp(wall, dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def loss(found: Evidence, *, now: float) -> Optional[float]:
    """Seconds of writes that may be lost, from the last fact in sync to when the source was seen off; None: unknown.

    Until then it may have written. While it is not known to be off that is `now`, in unix seconds.
    """
    if not found.last_in_sync:
        return None
    return max(0.0, (found.seen_off or now) - found.last_in_sync)


def loss_text(found: Evidence, *, now: float) -> str:
    """The possible loss in words."""
    seconds = loss(found, now=now)
    if seconds is None:
        return "possible loss: all writes since an unknown time"
    return f"possible loss: writes of the last {math.ceil(seconds)} s"
