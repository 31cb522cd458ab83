"""Whether an instance may be failed over, from what its nodes answer: asked before it is stopped, and again after.

Where the source answers, the pair must be connected and in sync on both nodes. Where it does not, what counts is what
the nodes reported before (`evidence.py`). Where it answered first and fell silent at the stop, its answer counts for
two intervals at most: the guest may have written on without its secondary. A person may skip that with
`ignore_consistency`. Where the source is known to be off, that person gets a replica promoted by force that is whole,
though Outdated: it may be the only one left. Nobody starts any other replica that DRBD would not promote, or an
instance that is on the target already.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Callable, Dict, Mapping, Optional, Tuple

from . import evidence

UP_TO_DATE = "UpToDate"
OLD = frozenset({"Outdated", "Consistent"})
"""States of a complete replica that DRBD does not promote without its peer, because its data may be old."""


@dataclass(frozen=True)
class Replica:
    """One disk of the instance on one of its nodes; `disk` is '' where its resource is down."""

    text: str
    is_synced: bool
    disk: str
    is_connected: bool


@dataclass(frozen=True)
class Node:
    """What one node answers: its replicas, and the instance's state in its hypervisor ('' if it is not there).

    `replicas` are None where the node did not answer, or its disks could not be read; `why` says which. `answers` says
    whether the node could be contacted at all.
    """

    name: str
    answers: bool = True
    why: str = ""
    replicas: Optional[Tuple[Replica, ...]] = ()
    guest: str = ""


@dataclass(frozen=True)
class LastAnswer:
    """What a source answered in this failover before it fell silent.

    `age` has the seconds from when it was asked whether the pair is in sync until it fell silent, at the latest;
    `interval` those between two reports. `is_parted` says that the pair is on record as out of sync by now.
    """

    was_in_sync: bool = False
    age: float = 0.0
    interval: float = 0.0
    is_parted: bool = False


@dataclass(frozen=True)
class Failover:
    """A failover that is about to happen.

    `source` is None where it may not be contacted: it is recorded as off, or set offline. `is_judged` says that the
    target's replica counts as in sync by what its nodes reported before, and `against` why that verdict, which was
    found earlier, does not stand any more, '' if it does. `is_stopped` says that the source confirmed the stop.
    `last_answer` is None for a source that has not answered in this failover.
    """

    instance: str
    is_replicated: bool
    source: Optional[Node]
    target: Node
    is_judged: bool = False
    against: str = ""
    ignore_consistency: bool = False
    is_stopped: bool = False
    last_answer: Optional[LastAnswer] = None

    @property
    def source_answers(self) -> bool:
        """Whether the source could be contacted."""
        return self.source is not None and self.source.answers


def objection(asked: Failover) -> str:
    """Why the instance must not be failed over now, with what helps; '' if it may be."""
    return _of_target(asked) or (_of_pair(asked) if asked.is_replicated else "")


def may_be_alone(asked: Failover) -> bool:
    """Whether the target's replica may become primary without its peer, which is checked here and not by DRBD."""
    return asked.is_replicated and (asked.ignore_consistency or not asked.source_answers)


def is_forced(asked: Failover) -> bool:
    """Whether the target's replica is promoted by force: complete, old, its source lost, and a person ordered it."""
    if not _is_given_up(asked):
        return False
    replicas = asked.target.replicas or ()
    is_whole = all(replica.disk in {UP_TO_DATE, *OLD} and not replica.is_connected for replica in replicas)
    return is_whole and any(replica.disk in OLD for replica in replicas)


def forced_text(asked: Failover) -> str:
    """What is promoted by force and which writes that loses; '' if nothing is."""
    if not is_forced(asked):
        return ""
    old = ", ".join(replica.text for replica in asked.target.replicas or () if replica.disk in OLD)
    return (
        f"the replica of {asked.instance} on {asked.target.name} ({old}) is promoted by force, because a person "
        "ignores consistency: what was written without it is lost"
    )


def _is_given_up(asked: Failover) -> bool:
    """Whether a person gives up the writes that only the source has; not if the source just confirmed the stop."""
    return asked.is_replicated and asked.ignore_consistency and not asked.source_answers and not asked.is_stopped


def _of_target(asked: Failover) -> str:
    target, name = asked.target, asked.instance
    if not target.answers:
        remedy = "restore its network link, or reboot it if it hangs, then retry"
        return f"{target.name} does not answer ({target.why}): {remedy}"
    if target.guest:
        return (
            f"{name} is on {target.name} already, {target.guest}: find out where it belongs, and stop it on the other"
        )
    if target.replicas is None:
        return f"the disks of {name} on {target.name} cannot be used: {target.why}"
    if not asked.is_replicated or is_forced(asked):
        return ""
    return _of_replicas(asked, target.replicas)


def _of_replicas(asked: Failover, found: Tuple[Replica, ...]) -> str:
    target, name = asked.target, asked.instance
    if not found:
        return f"{target.name} lists no replica of {name}: see `roundsman instance verify-disks {name}`"
    for replica in found:
        # A person who ignores consistency where the source is gone may try one that is down: DRBD decides.
        may_try = not replica.disk and asked.ignore_consistency and not asked.source_answers
        if replica.disk != UP_TO_DATE and not may_try:
            return (
                f"the replica of {name} on {target.name} cannot be started ({replica.text}): {_link(asked, found)}"
                f"repair it with `roundsman instance repair-disks {name}`, then retry{_last_resort(asked, replica)}"
            )
    return ""


def _link(asked: Failover, found: Tuple[Replica, ...]) -> str:
    """The remedy that comes first where both nodes answer and their replicas are up and not connected."""
    source = asked.source
    if source is None or not source.answers or not source.replicas:
        return ""
    replicas = (*source.replicas, *found)
    is_parted = any(replica.disk and not replica.is_connected for replica in replicas)
    if not is_parted or not all(replica.disk for replica in replicas):
        return ""
    return (
        f"restore the replication link between {source.name} and {asked.target.name} and wait for the resync; "
        "if the link works, "
    )


def _last_resort(asked: Failover, replica: Replica) -> str:
    """What a person can do if a source that does not answer is lost and the target's replica is old, but complete."""
    if asked.source_answers or replica.disk not in OLD or replica.is_connected:
        return ""
    off = f"power it off with `roundsman node power off {asked.source.name} --force`" if asked.source else "keep it off"
    what = asked.source.name if asked.source else "its primary"
    return (
        f". If {what} is lost for good, {off}, then retry with --ignore-consistency, which loses what "
        f"{asked.target.name} does not have"
    )


def _of_pair(asked: Failover) -> str:
    if asked.ignore_consistency:
        return ""
    name, source = asked.instance, asked.source
    if source is not None and not source.answers and asked.is_stopped:
        return f"{source.name} does not answer since {name} was stopped there ({source.why})"
    if source is None or not source.answers:
        return _of_silent(asked)
    if source.replicas is None:
        return f"the disks of {name} on {source.name} cannot be read ({source.why}){_remedy(name)}"
    pair = (source, asked.target)
    if is_in_sync(asked):
        return ""
    states = "; ".join(f"{node.name} has {_texts(node)}" for node in pair)
    link = _link(asked, asked.target.replicas or ())
    return f"the replicas of {name} are not in sync: {states}{_remedy(name, first=link)}"


def _of_silent(asked: Failover) -> str:
    """What speaks against a target whose source cannot be asked now."""
    last = asked.last_answer
    if last is None:
        # Reports from before count only while the source has given no sign of life since.
        return "" if asked.is_judged and not asked.against else _unjudged(asked)
    reason = ""
    if not last.was_in_sync:
        reason = "it was not known before that the replicas are in sync"
    elif last.is_parted:
        reason = "it is on record that the replicas are not in sync"
    elif not 0 <= last.age <= evidence.window(last.interval):
        reason = (
            f"the replicas were last seen in sync {last.age:.0f} s before that "
            f"(at most {evidence.window(last.interval):.0f} s count)"
        )
    if not reason:
        return ""
    return (
        f"the source fell silent when {asked.instance} was stopped there, and {reason}: restore the source, "
        f"then retry. A failover with --ignore-consistency loses what {asked.target.name} does not have"
    )


def is_overridden(asked: Failover) -> bool:
    """Whether a person ordered the failover although the target's replica is not known to be in sync."""
    if not (asked.is_replicated and asked.ignore_consistency):
        return False
    return bool(_of_pair(dataclasses.replace(asked, ignore_consistency=False)))


def stated_loss(asked: Failover, *, last_in_sync: float, seen_off: float) -> Dict[str, object]:
    """Which writes may be lost if the source did not confirm the stop, by these unix times; empty if none.

    `last_in_sync` is 0 where the source did not say in this failover that the pair is in sync.
    """
    if not asked.is_replicated or asked.is_stopped:
        return {}
    return {"last_in_sync": last_in_sync, "seen_off": seen_off, "ignored": is_overridden(asked)}


def _unjudged(asked: Failover) -> str:
    why = f" ({asked.source.why})" if asked.source is not None else ""
    target = asked.target.name
    reason = asked.against or f"it was not judged whether the replica on {target} is in sync without it"
    return (
        f"the source does not answer{why}, and {reason}: retry. A failover with --ignore-consistency loses what "
        f"{target} does not have"
    )


def _remedy(name: str, *, first: str = "") -> str:
    first = first or "wait for the resync, or "
    return (
        f": {first}repair them with `roundsman instance repair-disks {name}`. A failover with "
        "--ignore-consistency loses what the target does not have"
    )


def node(
    name: str,
    instance: str,
    *,
    disks: Mapping[str, object],
    guests: Optional[Mapping[str, object]] = None,
    escape: Callable[[str], str] = str,
) -> Node:
    """What a node answered, from the results of `instance_disks` and, if it was run, of `instance_info`.

    `escape` makes its texts printable.
    """
    results = [result for result in (guests, disks) if result is not None]
    silent = next((result for result in results if result.get("unreachable")), None)
    if silent is not None:
        return Node(name, answers=False, why=escape(_text(silent)), replicas=None)
    states = guests.get("states") if guests is not None else {}
    if not isinstance(states, dict):
        return Node(name, why=f"its hypervisor does not answer ({escape(_text(guests or {}))})", replicas=None)
    guest = escape(str(states.get(instance, "")))
    found = disks.get("disks")
    if disks.get("skipped"):
        return Node(name, guest=guest)
    if disks.get("failed") or not isinstance(found, list) or not all(isinstance(disk, dict) for disk in found):
        return Node(name, why=escape(_text(disks)), replicas=None, guest=guest)
    return Node(name, replicas=tuple(_replica(disk, escape=escape) for disk in found), guest=guest)


def _replica(disk: Mapping[str, object], *, escape: Callable[[str], str]) -> Replica:
    return Replica(
        text=escape(str(disk.get("text", ""))),
        is_synced=disk.get("synced") is True,
        disk=str(disk.get("disk", "")),
        is_connected=disk.get("connected") is True,
    )


def _text(result: Mapping[str, object]) -> str:
    return str(result.get("msg") or "no answer")


def is_in_sync(asked: Failover) -> bool:
    """Whether both nodes list the same number of replicas, at least one, and all of them as in sync."""
    source = asked.source.replicas if asked.source is not None else None
    target = asked.target.replicas
    if not source or not target or len(source) != len(target):
        return False
    return all(replica.is_synced for replica in (*source, *target))


def _texts(node: Node) -> str:
    return ", ".join(replica.text for replica in node.replicas or ()) or "no replica"
