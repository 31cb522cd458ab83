"""Whether the replica of a secondary may be removed: only while another one is known to be in sync, or newer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

from .drbd import Disk, Generation, Role
from .drbd_generations import Relation, bare, has_data_of, relation

WORTHLESS = frozenset({Disk.INCONSISTENT.value, *(disk.value for disk in Disk if disk.is_gone)})


@dataclass(frozen=True)
class Replica:
    """One disk on one node in DRBD's words; `disk` is '' where its resource is down and does not come up.

    Such a one may have writes of its own: only its generation says so, which its metadata keep. `exists` is false where
    the node has no such replica, or only what a removal that was interrupted left of it. `peer` is the node that its
    resource is written for, '' where that is not known. `out_of_sync` is what DRBD has noted to differ from its peer
    (KiB), and `alone` is for how many seconds its node has not seen it in sync with that peer; None is unknown.
    """

    text: str
    disk: str
    peer_disk: str = ""
    is_connected: bool = False
    generation: Optional[Generation] = None
    exists: bool = True
    role: str = ""
    peer: str = ""
    out_of_sync: Optional[int] = None
    alone: Optional[float] = None

    @property
    def described(self) -> str:
        """Its state, how much differs from its peer, and since when it is alone, by its own node's word."""
        differs = "" if self.out_of_sync is None else f"; {self.out_of_sync} KiB differ"
        return f"{self.text}{differs}{'' if self.alone is None else f'; last seen in sync {self.alone:.0f} s ago'}"


@dataclass(frozen=True)
class Node:
    """A node and its replicas, disk by disk; None if it did not report them, for the reason `why`.

    `answers` says that it was asked and answered something, though nothing of its replicas can be read from that.
    """

    name: str
    replicas: Optional[Tuple[Replica, ...]]
    why: str = ""
    answers: bool = False


def objection(
    instance: str,
    primary: Node,
    old: Optional[Node],
    recorded: Sequence[str] = (),
    *,
    may_stay: bool = False,
) -> str:
    """Why the replica on the old secondary must be kept, with what helps; '' if it may be removed.

    `old` is None where it is not contacted, and so nothing is removed there. `recorded` are the generations of `judged`
    that a replacement which has not ended had recorded, while the primary stays the primary. With `may_stay` a replica
    that is `kept` is no objection: it is left behind.
    """
    if primary.replicas is None:
        return f"the disks of {instance} on {primary.name} cannot be read ({primary.why}): nothing is removed"
    for replica in primary.replicas:
        if replica.disk != Disk.UP_TO_DATE.value:
            return (
                f"the primary {primary.name} is not up to date ({replica.text}): the other replica of {instance} is "
                f"kept. Repair it with `roundsman instance repair-disks {instance}`, then retry"
            )
    if old is None:
        return ""
    if old.replicas is None:
        return f"the disks of {instance} on {old.name} cannot be read ({old.why}): nothing is removed"
    return _of_pairs(instance, primary, old, recorded, may_stay=may_stay)


def is_superseded(mine: Replica, other: Replica, node: str) -> bool:
    """Whether a replica on a node was outdated, and the primary's is in sync with one on another node.

    What the outdated one might have holds nothing up: the guest has gone on without it.
    """
    return other.disk == Disk.OUTDATED.value and _has_gone_on(mine, other, node)


def is_left(mine: Replica, other: Replica, node: str) -> bool:
    """Whether what the old secondary's replica might have holds up no replacement: it stays on its node, and is said.

    The primary is in sync with a replica on another node. The old one was outdated, or it was never promoted since it
    had its peer: all its writes came from a primary, and DRBD's history was too short to say which one is newer.
    """
    is_idle = (other.disk, other.role) == (Disk.UP_TO_DATE.value, Role.SECONDARY.value) and bool(_lasting(other))
    return is_superseded(mine, other, node) or (is_idle and _has_gone_on(mine, other, node))


def kept(instance: str, primary: Node, old: Optional[Node], recorded: Sequence[str] = ()) -> str:
    """What a replica that is left might have that the primary has gone on without, and how it is removed; or ''.

    One that has a generation that was `recorded` was not written since, and has nothing that the primary has not.
    """
    if old is None:
        return ""
    ours, theirs = primary.replicas or (), old.replicas or ()
    for mine, other, known in zip(ours, theirs, _by_disk(recorded, len(ours))):  # noqa: B905 - Python 3.9 has no strict
        is_older = _is_not_newer(mine, other) or _is_recorded(other, known)
        if is_left(mine, other, old.name) and not is_older:
            return (
                f"the replica of {instance} on {old.name} ({other.text}) may have writes that no other replica has: it "
                f"is kept there. If nobody needs them, run `roundsman instance repair-disks {instance} --discard "
                f"{old.name}` once {old.name} is not its secondary any more"
            )
    return ""


def judged(primary: Node, old: Optional[Node], recorded: Sequence[str] = ()) -> Tuple[str, ...]:
    """The generations of the old secondary's replicas, by disk, if the primary is known to have all of their data.

    They are for the record, which keeps them longer than DRBD's history: a replica that still has such a generation was
    not written since. What is `recorded` already stays where the old secondary is not contacted.
    """
    if old is None:
        return tuple(recorded)
    ours, theirs = primary.replicas or (), old.replicas or ()
    if len(ours) != len(theirs):
        return ()
    found = []
    for mine, other, known in zip(ours, theirs, _by_disk(recorded, len(ours))):  # noqa: B905 - Python 3.9 has no strict
        generation = _lasting(other)
        if not generation or not (_is_not_newer(mine, other) or _is_recorded(other, known)):
            return ()
        found.append(generation)
    return tuple(found)


def objection_to_new(instance: str, primary: Node, new: Node) -> str:
    """Why the new secondary does not have the primary's data, '' if it does.

    The primary alone cannot know: DRBD 8.4 tells the state of its peer, not which node that is.
    """
    for node in (primary, new):
        if node.replicas is None:
            return f"the disks of {instance} on {node.name} cannot be read ({node.why})"
    ours, theirs = primary.replicas or (), new.replicas or ()
    if len(ours) != len(theirs):
        return f"{primary.name} and {new.name} have not the same disks of {instance}"
    for mine, other in zip(ours, theirs):  # noqa: B905 - Python 3.9 has no strict
        is_pair = (mine.peer, other.peer) == (new.name, primary.name)
        if not (is_pair and _is_whole(mine) and _is_whole(other) and _relation(mine, other) is Relation.EQUAL):
            return (
                f"its replica on {primary.name} is {mine.text}, and the one on {new.name} is {other.text}: they are "
                "not known to be in sync with each other"
            )
    return ""


def objection_to_removal(instance: str, primary: Node, left: Node) -> str:
    """Why a replica that an instance left behind must be kept; '' if it may be removed.

    `primary` is where the instance is now. Only a replica whose data are older than its data, or the same, is removed.
    """
    for node in (primary, left):
        if node.replicas is None:
            return f"the disks of {instance} on {node.name} cannot be read ({node.why}): nothing is removed"
    ours, theirs = primary.replicas or (), left.replicas or ()
    if any(mine.peer == left.name for mine in ours) or any(other.is_connected for other in theirs):
        # The record of what was left may be older than the disks, as after an older configuration was restored.
        return (
            f"{primary.name} replicates {instance} to {left.name}, so its replica there is in use: it is kept, though "
            f"the configuration has {left.name} not as its secondary. See `roundsman explain {instance}`; to make it "
            f"the secondary, run `roundsman instance replace-disks {instance} --to {left.name}`"
        )
    if len(ours) != len(theirs):
        return f"{primary.name} and {left.name} have not the same disks of {instance}: nothing is removed"
    for mine, other in zip(ours, theirs):  # noqa: B905 - Python 3.9 has no strict
        if not _is_ancestor(mine, other):
            return (
                f"the replica that {instance} left on {left.name} ({other.text}) may hold writes that no other replica "
                f"has: it is kept. If nobody needs them, run `roundsman instance repair-disks {instance} --discard "
                f"{left.name}`, which removes it"
            )
    return ""


def _has_gone_on(mine: Replica, other: Replica, node: str) -> bool:
    """Whether the primary is in sync with a replica on another node than this one, whose own has no peer."""
    return not other.is_connected and mine.peer not in {"", node} and _is_whole(mine)


def _is_whole(replica: Replica) -> bool:
    up_to_date = Disk.UP_TO_DATE.value
    return replica.is_connected and (replica.disk, replica.peer_disk) == (up_to_date, up_to_date)


def _is_ancestor(mine: Replica, other: Replica) -> bool:
    """Whether ours has all data of a replica: it does not exist, was never complete, or is not newer."""
    if not other.exists or other.disk == Disk.INCONSISTENT.value:
        return True
    return _is_not_newer(mine, other)


def _of_pairs(instance: str, primary: Node, old: Node, recorded: Sequence[str], *, may_stay: bool) -> str:
    ours, theirs = primary.replicas or (), old.replicas or ()
    if len(ours) != len(theirs):
        return f"{primary.name} and {old.name} have not the same disks of {instance}: nothing is removed"
    for mine, other, known in zip(ours, theirs, _by_disk(recorded, len(ours))):  # noqa: B905 - Python 3.9 has no strict
        if may_stay and is_left(mine, other, old.name):
            continue
        if not _may_go(mine, other, known):
            may_connect = bool(other.disk) and _relation(mine, other) is not Relation.UNRELATED
            return (
                f"the replica of {instance} on {old.name} ({other.text}) may have data that {primary.name} has not "
                f"({mine.text}): it is kept. Connect them with `roundsman instance repair-disks {instance}`, then retry"
                f"{'' if may_connect else _if_apart(instance, old.name)}"
            )
    return ""


def _if_apart(instance: str, node: str) -> str:
    """What a person can do where nobody can connect a replica: it does not come up, or has no data in common."""
    return (
        f". If that cannot connect them and nobody needs its data, run `roundsman node offline {node}`, replace it "
        f"with a replica on another node, run `roundsman node online {node}`, and then `roundsman instance "
        f"repair-disks {instance} --discard {node}`, which removes it"
    )


def _may_go(mine: Replica, other: Replica, recorded: str) -> bool:
    if not other.exists or other.disk in WORTHLESS:
        return True
    if mine.is_connected and other.is_connected:
        return other.peer_disk == Disk.UP_TO_DATE.value
    # DRBD leaves both up to date when they part: only the generations say whether the other one was written, too.
    return _is_not_newer(mine, other) or _is_recorded(other, recorded)


def _by_disk(recorded: Sequence[str], disks: int) -> Sequence[str]:
    """What is recorded of each disk, '' where that is not known."""
    return recorded if len(recorded) == disks else [""] * disks


def _is_recorded(other: Replica, recorded: str) -> bool:
    """Whether a replica was not written since its generation was recorded."""
    return bool(recorded) and not other.is_connected and _lasting(other) == recorded


def _lasting(replica: Replica) -> str:
    """Its generation in 16 hex digits, if DRBD begins another one before it is written without its peer; else ''.

    DRBD begins none where the bitmap has a generation already: the replica was written, or was the source of a resync.
    """
    found = replica.generation
    if found is None or bare(found.bitmap) or found.crashed_primary or not 0 <= found.current < 1 << 64:
        return ""
    return f"{bare(found.current):016x}"


def _relation(mine: Replica, other: Replica) -> Optional[Relation]:
    """How the data of two replicas are related, None where the generation of one is not known."""
    if mine.generation is None or other.generation is None:
        return None
    return relation(mine.generation, other.generation)


def _is_not_newer(mine: Replica, other: Replica) -> bool:
    """Whether the generations of both are known and say that ours has all data of the other."""
    if mine.generation is None or other.generation is None:
        return False
    return has_data_of(mine.generation, other.generation)
