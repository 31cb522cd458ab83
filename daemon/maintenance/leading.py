"""Which controller leads, and what it may touch: the votes of nodes, and the barrier between two epochs.

A controller begins an epoch (`epochs.py`) with each start. Before a new epoch touches an instance, every node that may
still work on it has kept that epoch and said afterwards that no step is at work there, or was powered off after the
epoch had begun (seed 000, "the daemon runs on the master only").
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import AbstractSet, Collection, Dict, Iterable, Mapping, Optional, Tuple

from ...plugins.module_utils.domain.agent.epochs import Epoch, Kept, may_order, obeys

LAPSE_SECONDS = 180.0
"""A controller of which a node has not heard for so long is not at work, as far as that node knows."""
NO_VOTING = "roundsmand --no-voting --yes-do-it"
"""With what a person starts the master's daemon though so many nodes are silent (Ganeti's words)."""
CONFIRM_OFF = "roundsman cluster master-failover NODE --confirm-off"
"""With what a person states that the master on record is off."""
MOST_NAMES = 8
JUMP = 1_000_000
"""By how much the number that one node keeps may be above what the controller, or more than half of the nodes, know."""


@dataclass(frozen=True)
class Vote:
    """What a node answered: whom it follows, and the seconds since that controller asked it last.

    `heard` is None where the node has not heard of it since its agent started, or it has said that it ends.
    """

    follows: Optional[Kept] = None
    heard: Optional[float] = None


@dataclass(frozen=True)
class Candidate:
    """A controller that wants to lead: the node (UUID) that it is, and what its configuration says.

    `master` is the master on record; another node than that wants to take the role over from it. `voters` are the nodes
    (UUIDs) that vote: those that are neither offline nor recorded as off. `own` are the ids of the epochs that this
    controller began here and knows, `led` is the last in which it led. With `is_restored` a person says that no newer
    configuration exists; `takes_over` if the master on record is known to be off.
    """

    me: str
    master: str
    serial: int
    voters: AbstractSet[str]
    own: AbstractSet[str] = frozenset()
    led: Optional[Epoch] = None
    is_restored: bool = False
    takes_over: bool = False


@dataclass(frozen=True)
class Verdict:
    """Whether a candidate leads; if not, why, and what would change that.

    `is_final`: no answer of a node that is silent now would change it.
    """

    leads: bool
    reason: str = ""
    unblock: str = ""
    is_final: bool = False


LEADS = Verdict(leads=True)


class Step(Enum):
    """What a controller does that starts: go on in the epoch it has, begin one, wait for answers, or end."""

    GO_ON = "go on"
    BEGIN = "begin"
    WAIT = "wait"
    END = "end"


@dataclass(frozen=True)
class Own:
    """The epoch that this controller led in before it started again, in the same boot, and whether its runs go on.

    `has_offered`: it has offered later ones since, in vain, which nodes may have promised to follow.
    """

    epoch: Epoch
    is_at_work: bool = False
    has_offered: bool = False


def number(known: Optional[Epoch], shown: Iterable[Optional[Epoch]]) -> int:
    """The number of a new epoch, above what the controller knows and what the nodes that answer show.

    One node may claim anything: what is far above both the controller's own number and what more than half of the nodes
    keep is left out, or a single node could use up all numbers. A node that is left out in error does not promise to
    follow the epoch, and that is all.
    """
    numbers = sorted((epoch.number if epoch is not None else 0 for epoch in shown), reverse=True)
    shared = numbers[len(numbers) // 2] if numbers else 0
    base = max(known.number if known is not None else 0, shared)
    return 1 + max(each for each in (base, *numbers) if each <= base + JUMP)


def disowned(candidate: Candidate, answers: Mapping[str, Vote], *, uptime: float) -> Candidate:
    """A controller that has not led since its machine booted, by what nodes have heard in these seconds.

    Where one has heard since then of the controller that leads in its epoch, that is another one: this machine is a
    clone of the other's, or the other way round.
    """
    led = candidate.led
    heard = [vote.heard for vote in answers.values() if vote.follows is not None and vote.follows.epoch == led]
    is_elsewhere = any(seconds is not None and seconds < uptime for seconds in heard)
    return dataclasses.replace(candidate, own=frozenset(), led=None) if is_elsewhere else candidate


def decide(
    candidate: Candidate, answers: Mapping[str, Vote], *, own: Optional[Own] = None, names: Mapping[str, str]
) -> Tuple[Step, Verdict]:
    """What a controller does that starts, by the answers of the nodes (UUIDs) so far.

    It goes on in its epoch where no node knows a later one, and either its runs go on too, whose processes name that
    epoch, or so many nodes are silent that it cannot begin another one: nothing has changed then, unless it has offered
    one already. An epoch that is offered while runs go on lets them.
    """
    shown = [vote.follows for vote in answers.values()]
    is_followed = own is not None and (own.is_at_work or not own.has_offered)
    may_go_on = is_followed and own is not None and all(kept is None or may_order(kept, own.epoch) for kept in shown)
    verdict = elect(candidate, answers, names=names)
    if may_go_on and own is not None and own.is_at_work:
        return Step.GO_ON, LEADS
    if verdict.leads:
        return Step.BEGIN, LEADS
    if verdict.is_final:
        return Step.END, verdict
    return (Step.GO_ON if may_go_on else Step.WAIT), verdict


def elect(
    candidate: Candidate, answers: Mapping[str, Vote], *, off: Collection[str] = (), names: Mapping[str, str]
) -> Verdict:
    """Whether a controller may begin to lead: more than half of the nodes that vote have it for their master.

    `answers` has those of the nodes (UUID) that answered; `off` are nodes whose BMC reads off now, or of which a person
    says so: these do not vote. `names` are for texts. A node that has lately heard of another controller that it
    follows is for that one. Where half of them are for it, the master on record leads unless any of them has followed
    another controller since; and so it does where nobody votes.
    """
    newer = newer_versions(candidate, answers)
    if newer and not candidate.is_restored:
        return Verdict(
            leads=False,
            reason=f"{_names(newer, names)} had a newer configuration from its master than this one (serial number "
            f"{candidate.serial})",
            unblock="that configuration here, or if none exists any more, a start that says so: `--restored`",
            is_final=True,
        )
    voting = candidate.voters - set(off)
    agreed = {uuid for uuid in voting & answers.keys() if _is_for(candidate, answers[uuid])}
    if _is_enough(candidate, len(agreed), voting, answers):
        return LEADS
    silent = voting - answers.keys()
    is_final = not _is_enough(candidate, len(agreed | silent), voting, answers)
    led = {uuid: answers[uuid] for uuid in (voting & answers.keys()) - agreed}
    others = sorted(
        {vote.follows.master for vote in led.values() if vote.follows is not None} - {candidate.me},
        key=lambda uuid: names.get(uuid, uuid),
    )
    said = [f"{len(agreed)} of {len(voting)} nodes that vote have this one for their master"]
    said += [f"others have {_names(others, names)}"] if others else []
    said += _at_work(candidate, led, names)
    said += [f"{_names(silent, names)} did not answer"] if silent else []
    is_elsewhere = any(_is_rival(candidate, vote) for vote in led.values())
    is_begun = all(vote.follows is not None and vote.follows.epoch.id in candidate.own for vote in led.values())
    unblock = _unblock(candidate, others, names, is_elsewhere=is_elsewhere, is_begun=is_begun)
    return Verdict(leads=False, reason="; ".join(said), unblock=unblock, is_final=is_final)


def newer_versions(candidate: Candidate, answers: Mapping[str, Vote]) -> Dict[str, Kept]:
    """The nodes (UUIDs) that have a newer configuration, and not one of before the last controller that led.

    More than half of the nodes promised to follow whoever has led: what fewer of them follow, or claim, does not show
    that. Nor is newer what was before the epoch in which this controller has led.
    """
    kept = {uuid: vote.follows for uuid, vote in answers.items() if vote.follows is not None}
    numbers = sorted((found.epoch.number for found in kept.values()), reverse=True)
    half = max(len(candidate.voters), len(answers)) // 2
    led = candidate.led.number if candidate.led is not None else 0
    last = max(led, numbers[half] if half < len(numbers) else 0)
    return {
        uuid: found for uuid, found in kept.items() if found.epoch.number >= last and found.serial > candidate.serial
    }


def lost_versions_text(candidate: Candidate, answers: Mapping[str, Vote], names: Mapping[str, str]) -> str:
    """Which newer configuration counts as lost where a person says that none exists (`is_restored`); '' for none."""
    newer = newer_versions(candidate, answers)
    if not newer:
        return ""
    latest = max(newer.values(), key=lambda kept: kept.serial)
    theirs = f"version {latest.serial} of the master {names.get(latest.master, latest.master)} in {latest.epoch}"
    return (
        f"the configuration here is version {candidate.serial}, and {_names(newer, names)} had {theirs}: what was "
        "changed since counts as lost"
    )


def is_promised(candidate: Candidate, answers: Mapping[str, Vote], promises: Collection[str]) -> bool:
    """Whether enough of the nodes that vote have promised to follow the epoch of a candidate that was elected."""
    return _is_enough(candidate, len(candidate.voters & set(promises)), candidate.voters, answers)


def is_takeover(candidate: Candidate, answers: Mapping[str, Vote]) -> bool:
    """Whether a node has followed another controller since this one led: its steps may still be at work."""
    return any(not _is_own(candidate, vote.follows) for vote in answers.values())


def successor(
    own: Optional[Epoch], follows: Mapping[str, Optional[Kept]], voters: AbstractSet[str], *, serial: int
) -> Optional[Kept]:
    """The epoch of another controller that more than half of the nodes (UUIDs) that vote follow instead of this one.

    It is this one's own where a clone of its machine leads with a later configuration than version `serial`. What nodes
    keep is given where they answered; silence ends no controller.
    """
    told = voters & follows.keys()
    lost = [kept for uuid in told - _obeying(own, follows, serial) if (kept := follows[uuid]) is not None]
    if 2 * len(lost) <= len(voters):
        return None
    return max(lost, key=lambda kept: kept.epoch.number)


def strays(own: Optional[Epoch], follows: Mapping[str, Optional[Kept]]) -> Dict[str, Kept]:
    """The nodes (UUIDs) that refuse what this controller orders, and what they keep."""
    return {
        uuid: kept for uuid, kept in follows.items() if kept is not None and (own is None or not may_order(kept, own))
    }


def is_held_up(own: Optional[Epoch], ids: Collection[str], answers: Mapping[str, Vote]) -> bool:
    """Whether nodes refuse what this controller orders, and no other one has asked any of them for three minutes.

    Such an epoch was offered in vain, perhaps by this controller itself (`ids` are those that it began or offered), or
    its controller does not work any more.
    """
    lost = strays(own, {uuid: vote.follows for uuid, vote in answers.items()})
    heard = [answers[uuid].heard for uuid, kept in lost.items() if kept.epoch.id not in ids]
    return bool(lost) and all(seconds is None or seconds >= LAPSE_SECONDS for seconds in heard)


def may_fence(
    own: Optional[Epoch],
    voters: AbstractSet[str],
    follows: Mapping[str, Optional[Kept]],
    *,
    serial: int,
    off: Collection[str] = (),
) -> bool:
    """Whether a leader may command the power of silent nodes: at least half of those that vote answer and obey it.

    `follows` is what the nodes (UUIDs) keep that answered just now, `serial` the version of the configuration here,
    `off` are those whose BMCs read off now: these do not vote. More than half follow the controller that leads, so one
    that was replaced does not have half any more.
    """
    voting = voters - set(off)
    return 2 * len(voting & _obeying(own, follows, serial)) >= len(voting)


def isolation_text(
    own: Optional[Epoch],
    voters: AbstractSet[str],
    follows: Mapping[str, Optional[Kept]],
    *,
    serial: int,
    off: Collection[str] = (),
    names: Mapping[str, str],
) -> str:
    """Why a leader may not command the power of silent nodes, '' where it may (`may_fence`)."""
    if may_fence(own, voters, follows, serial=serial, off=off):
        return ""
    voting = voters - set(off)
    obeying = voting & _obeying(own, follows, serial)
    silent, lost = voting - follows.keys(), (voting & follows.keys()) - obeying
    said = [f"only {len(obeying)} of {len(voting)} nodes that vote answer this controller"]
    said += [f"{_names(silent, names)} did not answer"] if silent else []
    said += [f"another controller leads {_names(lost, names)}"] if lost else []
    return "; ".join(said)


def _obeying(own: Optional[Epoch], follows: Mapping[str, Optional[Kept]], serial: int) -> AbstractSet[str]:
    """The nodes (UUIDs) that answered and do what this controller orders, whose configuration is no clone's."""
    return {
        uuid for uuid, kept in follows.items() if kept is None or (own is not None and obeys(kept, own, serial=serial))
    }


@dataclass(frozen=True)
class Reply:
    """What a node answered to an epoch after it had kept it: the steps (texts) that hold the lock of an instance."""

    epoch: Epoch
    steps: Tuple[str, ...] = ()


def barrier(
    epoch: Epoch, nodes: Iterable[str], replies: Mapping[str, Reply], *, fenced: Mapping[str, Epoch]
) -> Dict[str, str]:
    """Of the nodes (UUIDs) that may still work on an instance, what this epoch waits for; empty once it may touch it.

    Only an answer to this very epoch counts, and only an off that was read back after this epoch had begun.
    """
    waits = {}
    for node in nodes:
        reply = replies.get(node)
        if fenced.get(node) == epoch:
            continue
        if reply is None or reply.epoch != epoch:
            waits[node] = f"still follows {reply.epoch}" if reply is not None else "has not answered"
        elif reply.steps:
            waits[node] = f"still works on it: {', '.join(reply.steps)}"
    return waits


def _is_enough(candidate: Candidate, count: int, voting: AbstractSet[str], answers: Mapping[str, Vote]) -> bool:
    """Whether so many of the nodes that vote make a controller lead."""
    followed = (answers[uuid].follows for uuid in voting & answers.keys())
    has_tie = candidate.me == candidate.master and all(_is_own(candidate, kept) for kept in followed)
    return 2 * count > len(voting) or (2 * count == len(voting) and has_tie)


def _is_for(candidate: Candidate, vote: Vote) -> bool:
    if vote.follows is None:
        return True
    if candidate.takes_over:
        return vote.follows.master == candidate.master or not _is_rival(candidate, vote)
    return vote.follows.master in {candidate.me, candidate.master} and not _is_rival(candidate, vote)


def _is_rival(candidate: Candidate, vote: Vote) -> bool:
    """Whether a node follows another controller that is at work, as far as it knows."""
    return not _is_own(candidate, vote.follows) and vote.heard is not None and vote.heard < LAPSE_SECONDS


def _is_own(candidate: Candidate, kept: Optional[Kept]) -> bool:
    """Whether a node has followed nobody after this controller: what is below the epoch that it led in was before."""
    if kept is None or kept.epoch.id in candidate.own:
        return True
    return candidate.led is not None and kept.epoch.number < candidate.led.number


def _at_work(candidate: Candidate, led: Mapping[str, Vote], names: Mapping[str, str]) -> Iterable[str]:
    """What is said of other controllers of which nodes have heard lately: the epoch, and when that was last."""
    lately: Dict[Epoch, Dict[str, float]] = {}
    for uuid, vote in led.items():
        if _is_rival(candidate, vote) and vote.follows is not None and vote.heard is not None:
            lately.setdefault(vote.follows.epoch, {})[uuid] = vote.heard
    for epoch, heard in sorted(lately.items(), key=lambda item: -item[0].number):
        yield f"{_names(heard, names)} heard of the controller that leads in {epoch} {min(heard.values()):.0f} s ago"


def _unblock(
    candidate: Candidate,
    others: Collection[str],
    names: Mapping[str, str],
    *,
    is_elsewhere: bool,
    is_begun: bool,
) -> str:
    """What would let a candidate lead; with `is_begun` it has begun itself to move the role to one of `others`."""
    if candidate.takes_over:
        return "that controller stopped, and answers of more than half of the nodes that vote"
    if candidate.me != candidate.master:
        return (
            "that controller stopped, and answers of more than half of the nodes that vote; or if the machine of the "
            f"old master is off and stays off, a statement of it: `{CONFIRM_OFF}`"
        )
    if is_elsewhere:
        return "that controller stopped, if this one is to lead; one of the two has to stay stopped"
    if others and is_begun:
        command = f"roundsman cluster master-failover {_names(others, names)}"
        return f"the end of the move that has begun here: `{command}` again"
    if others:
        return (
            f"a start on {_names(others, names)}; or if that machine is off and stays off, its newest configuration "
            f"here and `roundsman cluster master-failover`, or without one `{NO_VOTING}`"
        )
    return (
        f"answers of more than half of the nodes that vote, or if no other controller of this cluster is at work, a "
        f"start of this one that says so: `{NO_VOTING}`"
    )


def _names(uuids: Iterable[str], names: Mapping[str, str]) -> str:
    sorted_names = sorted(names.get(uuid, uuid) for uuid in uuids)
    more = len(sorted_names) - MOST_NAMES
    return ", ".join(sorted_names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
