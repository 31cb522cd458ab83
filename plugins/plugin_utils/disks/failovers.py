"""Whether an instance may be failed over, from what its nodes answer: asked before it is stopped, and again after.

Where the source answers, the pair must be connected and in sync on both nodes. Where it does not, what counts is what
the target says, which is asked once the source is known to be off (`possible_loss.py`). A person may skip that with
`ignore_consistency`. Where the source is known to be off, that person gets a replica promoted by force that is whole,
though Outdated: it may be the only one left. Nobody starts any other replica that DRBD would not promote, or an
instance that is on the target already.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Callable, Dict, Mapping, Optional, Tuple

from ...module_utils.domain.disks.drbd_generations import bare
from . import possible_loss
from .possible_loss import Verdict
from .replica_texts import clock

UP_TO_DATE = "UpToDate"
RUNNING = "running"
OLD = frozenset({"Outdated", "Consistent"})
"""States of a complete replica that DRBD does not promote without its peer, because its data may be old."""


@dataclass(frozen=True)
class Replica:
    """One disk of the instance on one of its nodes; `disk` is '' where its resource is down.

    `seen` is how many seconds ago the node saw it in sync, by the address of the peer; `generations` are the current
    one, that of the bitmap, and those before, without the bit of the role, empty where they are not known.
    `peer` is the node that its resource is written for, '' where that is not known.
    """

    text: str
    is_synced: bool
    disk: str
    is_connected: bool
    seen: Mapping[str, float] = field(default_factory=dict)
    generations: Tuple[int, ...] = ()
    peer: str = ""


@dataclass(frozen=True)
class Node:
    """What one node answers: its replicas, and the instance's state in its hypervisor ('' if it is not there).

    `replicas` are None where the node did not answer, or its disks could not be read; `why` says which. `answers` says
    whether the node could be contacted at all. `uptime` has the seconds since its boot.
    """

    name: str
    answers: bool = True
    why: str = ""
    replicas: Optional[Tuple[Replica, ...]] = ()
    guest: str = ""
    uptime: float = 0.0


@dataclass(frozen=True)
class Failover:
    """A failover that is about to happen.

    `source` is None where it may not be contacted: it is recorded as off, or set offline. `is_off` says that it was
    confirmed off just now, `is_stopped` that it confirmed the stop. `loss` is what becomes of the failover by the
    target's answer, None where the source has to be asked. `is_unfinished` says that a migration between the two nodes
    has not ended, so that either may run it.
    """

    instance: str
    is_replicated: bool
    source: Optional[Node]
    target: Node
    loss: Optional[possible_loss.Answer] = None
    ignore_consistency: bool = False
    is_stopped: bool = False
    is_off: bool = False
    is_unfinished: bool = False

    @property
    def source_answers(self) -> bool:
        """Whether the source could be contacted."""
        return self.source is not None and self.source.answers


def objection(asked: Failover) -> str:
    """Why the instance must not be failed over now, with what helps; '' if it may be, or runs on the target already."""
    if adopts(asked):
        return ""
    return _of_target(asked) or (_of_pair(asked) if asked.is_replicated else "")


def adopts(asked: Failover) -> bool:
    """Whether a migration that has not ended took the instance to the target: it is recorded there, and not started."""
    return asked.is_unfinished and asked.target.answers and asked.target.guest == RUNNING


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
        repaired = f"; {_elsewhere(asked, is_apart=False)}{_repaired(name)}, then retry" if asked.is_replicated else ""
        return f"the disks of {name} on {target.name} cannot be used: {target.why}{repaired}"
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
    return _elsewhere(asked, is_apart=True) or (
        f"restore the replication link between {source.name} and {asked.target.name} and wait for the resync; "
        "if the link works, "
    )


def _elsewhere(asked: Failover, *, is_apart: bool) -> str:
    """The remedy where the source is in sync with another node than the target, which `is_apart` or says nothing."""
    source = asked.source
    if source is None or not source.replicas or not all(replica.is_synced for replica in source.replicas):
        return ""
    if any(replica.peer == asked.target.name or not (replica.peer or is_apart) for replica in source.replicas):
        return ""
    return (
        f"{source.name} is in sync with a replica on another node, so start {asked.instance} with `roundsman "
        f"instance start {asked.instance}` and finish its replace-disks (`roundsman explain {asked.instance}`); or "
    )


def _last_resort(asked: Failover, replica: Replica) -> str:
    """What a person can do if a source that does not answer is lost and the target's replica is old, but complete."""
    if asked.source_answers or replica.disk not in OLD or replica.is_connected:
        return ""
    off = f"power it off with `roundsman node power off {asked.source.name} --force`" if asked.source else "keep it off"
    what = asked.source.name if asked.source else "its primary"
    return (
        f". If {what} is lost for good, {off}, then run `roundsman instance failover {asked.instance} "
        f"--to {asked.target.name} --ignore-consistency`, which loses what {asked.target.name} does not have"
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
    found = asked.loss
    if found is None:
        return f"{asked.target.name} was not asked what may be lost: retry"
    if found.verdict is Verdict.GO or not (asked.is_off or found.verdict is Verdict.REFUSE):
        # What is lost is counted once the source is known to be off.
        return ""
    return f"{found.reason}; what would unblock it: {found.unblock}"


def waits(asked: Failover) -> Dict[str, str]:
    """The reason and the remedy of a failover that only its possible loss is against; empty for any other."""
    found = asked.loss
    if _of_target(asked) or found is None or not is_silent(asked) or not objection(asked):
        return {}
    return {"reason": found.reason, "unblock": found.unblock}


def is_silent(asked: Failover) -> bool:
    """Whether what may be lost is asked of the target, as the source did not confirm that it stopped the instance."""
    return asked.is_replicated and not asked.source_answers and not asked.is_stopped


def is_overridden(asked: Failover) -> bool:
    """Whether a person ordered the failover although the target's replica is not known to be in sync."""
    if not (asked.is_replicated and asked.ignore_consistency):
        return False
    return bool(_of_pair(dataclasses.replace(asked, ignore_consistency=False)))


def stated_loss(asked: Failover) -> Dict[str, object]:
    """Which writes may be lost if the source did not confirm the stop; empty if none.

    `seconds` is None where there is no number, and `last_in_sync` the unix time of the last sight, None for never.
    """
    found = asked.loss
    if not is_silent(asked) or found is None:
        return {}
    return {
        "seconds": found.seconds,
        "last_in_sync": found.last_in_sync or None,
        "ignored": is_overridden(asked),
    }


def announced_text(asked: Failover) -> str:
    """What a failover whose source did not confirm the stop may lose, before it is done; '' for any other."""
    found = asked.loss
    if not is_silent(asked) or found is None:
        return ""
    how = f", whose replica was last known to be in sync at {clock(found.last_in_sync)}" if found.last_in_sync else ""
    if is_overridden(asked):
        how = f" with ignore_consistency: {found.reason}"
    return f"{asked.instance} fails over to {asked.target.name}{how}; {possible_loss.text(found.seconds)}"


def _remedy(name: str, *, first: str = "") -> str:
    first = first or "wait for the resync, or "
    return f": {first}{_repaired(name)}. A failover with --ignore-consistency loses what the target does not have"


def _repaired(name: str) -> str:
    """How replicas that do not become equal by waiting are made so."""
    return (
        f"repair them with `roundsman instance repair-disks {name}`, where both were written since they disconnected "
        "with `--discard NODE`, which gives up what that node wrote"
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
    up = _seconds(disks.get("uptime"))
    return Node(name, replicas=tuple(_replica(disk, escape=escape) for disk in found), guest=guest, uptime=up)


def _replica(disk: Mapping[str, object], *, escape: Callable[[str], str]) -> Replica:
    return Replica(
        text=escape(str(disk.get("text", ""))),
        is_synced=disk.get("synced") is True,
        disk=str(disk.get("disk", "")),
        is_connected=disk.get("connected") is True,
        seen=_sights(disk.get("seen")),
        generations=_generations(disk.get("generation")),
        peer=str(disk.get("peer", "")),
    )


def _sights(told: object) -> Dict[str, float]:
    """Ages by address; one that is none can only be an age that counts for nothing."""
    return {str(address): _seconds(age) for address, age in told.items()} if isinstance(told, dict) else {}


def _seconds(told: object) -> float:
    if isinstance(told, bool) or not isinstance(told, (int, float)):
        return math.nan
    try:
        return float(told)
    except OverflowError:
        return math.nan


def _generations(told: object) -> Tuple[int, ...]:
    listed = told.get("identifiers") if isinstance(told, dict) else None
    if not isinstance(listed, list):
        return ()
    try:
        return tuple(bare(int(str(identifier), 16)) for identifier in listed)
    except ValueError:
        return ()


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
