"""Whether an instance may be started on the node that the configuration has as its primary, from what its pair says.

A configuration that was restored may be older than the data: it then names the node of the older replica. A replica
that has its peer is newest by DRBD's own word. One that has not is compared with what the peer says of itself; a peer
that cannot be asked, or has no whole replica, hinders nothing: a degraded instance must start. One that answers, and of
which nothing can be read, is not silent: it may have the newer data. Nothing is hindered by a replica that was outdated
while the primary is in sync with one on another node. Where a migration may have taken the instance to the peer, that
one may have written last, and has to say what it has. Where both were written since they disconnected, or the primary's
was outdated, a person says whose data are given up.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Optional, Sequence, Tuple

from . import replacements
from .drbd import Disk, Role
from .drbd_generations import Relation, age, relation

if TYPE_CHECKING:
    from .replacements import Node, Replica

_WHOLE = frozenset({Disk.UP_TO_DATE.value, Disk.CONSISTENT.value, Disk.OUTDATED.value})
_DISKS = frozenset({"", *(disk.value for disk in Disk)})
_ROLES = frozenset({"", *(role.value for role in Role)})
_WHY = {
    Relation.THEIRS_NEWER: "is older than",
    Relation.UNRELATED: "has no data in common with",
}


def objection(
    instance: str, primary: Node, peer: Node, *, discards: bool = False, peer_may_have_run_it: bool = False
) -> str:
    """Why the instance must not be started on its primary, with what helps; '' if it may be.

    A `peer` that is not contacted has no replicas. With `discards` a person gives up what the peer has.
    """
    if primary.replicas is None:
        return f"the disks of {instance} on {primary.name} cannot be read ({primary.why}): it is not started"
    objected = _open_there(instance, primary, peer)
    if not discards and peer_may_have_run_it and not _are_compared(primary.replicas, peer.replicas or ()):
        objected = objected or _uncompared(instance, primary, peer)
    objected = objected or _unreadable(instance, primary, peer, discards=discards)
    if objected or discards:
        return objected
    return _older(instance, primary, peer) or next(
        (
            _outdated(instance, primary, mine, peer)
            for mine in primary.replicas or ()
            if mine.disk == Disk.OUTDATED.value and not mine.is_connected
        ),
        "",
    )


def objection_apart(instance: str, primary: Node, peer: Node) -> str:
    """Why an instance of which a replica does not have its peer, whose node answers, is not started; '' if it may be.

    The `peer` said what it has before the primary's replicas came up: of those that have connected DRBD knows better.
    What it has of the others is compared, or it has nothing whole.
    """
    ours, theirs = primary.replicas or (), peer.replicas or ()
    if not any(_is_apart(mine) for mine in ours):
        return ""
    pairs = [(mine, other) for mine, other in _pairs(ours, theirs) if _is_apart(mine)]
    if len(ours) != len(theirs) or any(_is_unknown(mine, other) for mine, other in pairs):
        told = ", ".join(mine.text for mine in ours if _is_apart(mine))
        said = peer.why or ", ".join(other.text for _, other in pairs) or "it lists no replica"
        return (
            f"the replica of {instance} on {primary.name} ({told}) may be older than the one on {peer.name} ({said}), "
            "and they did not connect: it is not started. Restore their link, or compare them with "
            f"`roundsman instance start {instance}`"
        )
    return objection(
        instance,
        dataclasses.replace(primary, replicas=tuple(mine for mine, _ in pairs)),
        dataclasses.replace(peer, replicas=tuple(other for _, other in pairs)),
    )


def _is_apart(mine: Replica) -> bool:
    """Whether a replica is up without its peer; of one that is down, or no replica, no disk is opened."""
    return bool(mine.role) and not mine.is_connected


def _is_unknown(mine: Replica, other: Replica) -> bool:
    """Whether the peer may have data there that cannot be compared."""
    if not other.exists or other.disk in replacements.WORTHLESS:
        return False
    return other.disk not in _WHOLE or mine.generation is None or other.generation is None


def _open_there(instance: str, primary: Node, peer: Node) -> str:
    """That the peer has a disk open for writing, so that it may run the instance."""
    for replica in peer.replicas or ():
        if replica.role == Role.PRIMARY.value:
            # Connected, the pair has the data of the peer: a failover that checks this is the safe one.
            option = "" if replica.is_connected else " --ignore-consistency"
            return (
                f"{peer.name} has the disks of {instance} open for writing ({replica.text}), so it may run there: "
                f"{instance} is not started on {primary.name}. See what runs with `roundsman cluster verify`. If it "
                f"runs nowhere and its data are on {peer.name}, run `roundsman instance failover {instance}{option}`, "
                f"then retry. If it runs nowhere and its data are on {primary.name}, {_discarding(instance, peer)}"
            )
    return ""


def _older(instance: str, primary: Node, peer: Node) -> str:
    """That a replica of the primary is older than that of the peer, or was written apart from it."""
    for mine, other in _pairs(primary.replicas or (), peer.replicas or ()):
        if replacements.is_superseded(mine, other, peer.name):
            continue
        found = _age(mine, other)
        if found is Relation.SPLIT:
            return _split(instance, (primary, mine), (peer, other))
        if found in _WHY:
            before, after = _connecting(instance, primary.name, mine, other)
            return (
                f"the replica of {instance} on {primary.name} ({mine.text}) {_WHY[found]} the one on {peer.name} "
                f"({other.text}): it is not started there. {before}To start it from the data of {peer.name}, run "
                f"`roundsman instance failover {instance} --ignore-consistency`{after}. To start it from the data on "
                f"{primary.name} on purpose, {_discarding(instance, peer)}"
            )
    return ""


def _are_compared(ours: Sequence[Replica], theirs: Sequence[Replica]) -> bool:
    """Whether every replica has its peer, or both say which generation of the data they have."""
    if len(ours) != len(theirs):
        return False
    return all(
        (mine.is_connected and other.is_connected)
        or (bool(other.role) and mine.generation is not None and other.generation is not None)
        for mine, other in _pairs(ours, theirs)
    )


def _uncompared(instance: str, primary: Node, peer: Node) -> str:
    why = peer.why or ", ".join(replica.text for replica in peer.replicas or ()) or "it lists no replica"
    return (
        f"a migration may have taken {instance} to {peer.name}, whose replica cannot be compared with the one on "
        f"{primary.name} ({why}): {instance} is not started. Repair what fails on {peer.name}, then retry. If its "
        f"replica is lost, run `roundsman node power off {peer.name} --force`, then retry: {instance} is failed over "
        f"from {peer.name}, and what may be lost is printed"
    )


def _unreadable(instance: str, primary: Node, peer: Node, *, discards: bool) -> str:
    """Nobody gives up what may run there, and of which nothing is known: with its power off it is silent."""
    unread = _unread(primary.replicas or (), peer, discards=discards)
    if not unread:
        return ""
    return (
        f"{peer.name} answers, and what its replica of {instance} has cannot be read ({unread}): {instance} may run "
        f"there, or have newer data than {primary.name}, so it is not started. Repair what fails on {peer.name}, or "
        f"power it off with `roundsman node power off {peer.name} --force`, then retry"
    )


def _unread(ours: Sequence[Replica], peer: Node, *, discards: bool) -> str:
    """Why nothing can be concluded from what a peer answered, '' if something can; one that is silent said nothing.

    What it does not list can be given up: nothing there has it open.
    """
    if peer.replicas is None:
        return peer.why if peer.answers else ""
    if len(peer.replicas) != len(ours) and not discards:
        return f"it lists {len(peer.replicas)} of {len(ours)} disks"
    strange = (each for each in peer.replicas if each.disk not in _DISKS or each.role not in _ROLES)
    return next((f"it is not in DRBD's words: {each.text}" for each in strange), "")


def _discarding(instance: str, peer: Node) -> str:
    return f"run `roundsman instance start {instance} --discard {peer.name}`, which gives up what {peer.name} has"


def _split(instance: str, *sides: Tuple[Node, Replica]) -> str:
    """Both sides were promoted since they disconnected: what each has, and the command that gives one of them up."""
    told = ", and ".join(f"the one on {node.name} ({replica.described})" for node, replica in sides)
    names = [node.name for node, _ in reversed(sides)]
    commands = " or ".join(f"`roundsman instance start {instance} --discard {name}`" for name in names)
    return (
        f"both replicas of {instance} were written since they disconnected, {told}: it is not started. Choose the "
        f"node whose writes are lost, then run {commands}"
    )


def _outdated(instance: str, primary: Node, mine: Replica, peer: Node) -> str:
    """DRBD promotes no outdated replica: its peer was written without it."""
    return (
        f"the replica of {instance} on {primary.name} ({mine.text}) is outdated, because {instance} was written on "
        f"{peer.name} without it: it is not started there. Bring {peer.name} back and restore the replication link, "
        f"then retry. If the data on {peer.name} are lost or nobody needs them, {_discarding(instance, peer)}"
    )


def _connecting(instance: str, node: str, mine: Replica, other: Replica) -> Tuple[str, str]:
    """How the older replica, on this node, gets the newer data: before the failover, or after it where DRBD refuses."""
    if _age(mine, other) is not Relation.THEIRS_NEWER:
        return "", ""
    if mine.generation and other.generation and relation(mine.generation, other.generation) is Relation.THEIRS_NEWER:
        return f"Connect them with `roundsman instance repair-disks {instance}`, then retry. ", ""
    replaced = f"roundsman instance replace-disks {instance} --to {node}"
    return "", f", and then `{replaced}`, because DRBD would not connect the two"


def _age(mine: Replica, other: Replica) -> Optional[Relation]:
    """Which of two replicas is newer; None where that hinders nothing or is not known."""
    is_together = mine.is_connected and other.is_connected
    if is_together or other.disk not in _WHOLE or mine.generation is None or other.generation is None:
        return None
    return age(mine.generation, other.generation)


def _pairs(ours: Sequence[Replica], theirs: Sequence[Replica]) -> Sequence[Tuple[Replica, Replica]]:
    return list(zip(ours, theirs))  # noqa: B905 - Python 3.9 has no strict
