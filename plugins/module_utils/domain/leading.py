"""Which controller leads, and what it may touch: the votes of nodes, and the barrier between two epochs.

A controller begins an epoch (`epochs.py`) with each start. Before a new epoch touches an instance, every node that may
still work on it has kept that epoch and said afterwards that no step is at work there, or was powered off after the
epoch had begun (seed 000, "the daemon runs on the master only").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, AbstractSet, Collection, Dict, Iterable, Mapping, Optional, Tuple

if TYPE_CHECKING:
    from .epochs import Epoch, Kept


@dataclass(frozen=True)
class Candidate:
    """A controller that wants to lead: the node (UUID) that it is, and what its configuration says.

    `master` is the master on record, `voters` are the nodes (UUIDs) that vote: those that are neither offline nor
    recorded as off. With `is_restored` a person says that no newer configuration exists, with `takes_over` that this
    is to be the master, and that the one on record is known to be off.
    """

    me: str
    master: str
    serial: int
    voters: AbstractSet[str]
    is_restored: bool = False
    takes_over: bool = False


@dataclass(frozen=True)
class Verdict:
    """Whether a candidate leads; if not, why, and what would change that."""

    leads: bool
    reason: str = ""
    unblock: str = ""


LEADS = Verdict(leads=True)


def _refusal(reason: str, unblock: str) -> Verdict:
    return Verdict(leads=False, reason=reason, unblock=unblock)


def number(known: Iterable[Optional[Epoch]]) -> int:
    """The number of a new epoch, above all that the controller and the nodes that answer know."""
    return 1 + max((epoch.number for epoch in known if epoch is not None), default=0)


def elect(
    candidate: Candidate, answers: Mapping[str, Optional[Kept]], *, off: Collection[str] = (), names: Mapping[str, str]
) -> Verdict:
    """Whether a controller may begin to lead: more than half of the nodes that vote have it for their master.

    `answers` has what each node (UUID) keeps that answered, None for one that nobody has led; `off` are nodes whose BMC
    reads off now, or of which a person says so: these do not vote. `names` are for texts. Where half of them are for it
    the master on record leads, and so it does where nobody votes.
    """
    newer = [uuid for uuid, kept in answers.items() if kept is not None and kept.serial > candidate.serial]
    if newer and not candidate.is_restored:
        return _refusal(
            f"{_names(newer, names)} had a newer configuration from its master than this one (serial number "
            f"{candidate.serial})",
            "that configuration here, or if none exists any more, a start that says so: `--restored`",
        )
    voting = candidate.voters - set(off)
    agreed = {uuid for uuid in voting & answers.keys() if _is_for(candidate, answers[uuid])}
    is_master = candidate.me == candidate.master
    if 2 * len(agreed) > len(voting) or (2 * len(agreed) == len(voting) and is_master):
        return LEADS
    others = sorted(
        {kept.master for uuid, kept in answers.items() if uuid in voting - agreed and kept is not None},
        key=lambda uuid: names.get(uuid, uuid),
    )
    silent = voting - answers.keys()
    said = [f"{len(agreed)} of {len(voting)} nodes that vote have this one for their master"]
    said += [f"others have {_names(others, names)}"] if others else []
    said += [f"{_names(silent, names)} did not answer"] if silent else []
    return _refusal("; ".join(said), _unblock(candidate, others, silent, names))


def may_fence(candidate: Candidate, answering: Collection[str], *, off: Collection[str] = ()) -> bool:
    """Whether a leader reaches enough of the nodes that vote to take the silence of others for theirs."""
    voting = candidate.voters - set(off)
    return 2 * len(voting & set(answering)) >= len(voting)


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


def _is_for(candidate: Candidate, kept: Optional[Kept]) -> bool:
    return kept is None or kept.master == candidate.me or candidate.takes_over


def _unblock(candidate: Candidate, others: Collection[str], silent: Collection[str], names: Mapping[str, str]) -> str:
    if others and not candidate.takes_over:
        return f"a start on {_names(others, names)}, or with that one off `roundsman cluster master-failover` here"
    return f"an answer of {_names(silent, names)}, or its power off" if silent else ""


def _names(uuids: Iterable[str], names: Mapping[str, str]) -> str:
    return ", ".join(sorted(names.get(uuid, uuid) for uuid in uuids))
