"""Whether an instance may be started on the node that the configuration has as its primary, from what its pair says.

A configuration that was restored may be older than the data: it then names the node of the older replica. A replica
that has its peer is newest by DRBD's own word. One that has not is compared with what the peer says of itself; a peer
that cannot be asked, or has no whole replica, hinders nothing: a degraded instance must start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence, Tuple

from .drbd import Disk, Role
from .drbd_generations import Relation, age, relation

if TYPE_CHECKING:
    from .drbd import Generation
    from .replacements import Node, Replica

_WHOLE = frozenset({Disk.UP_TO_DATE.value, Disk.CONSISTENT.value, Disk.OUTDATED.value})
_WHY = {
    Relation.THEIRS_NEWER: "is older than",
    Relation.UNRELATED: "has no data in common with",
}


def objection(instance: str, primary: Node, peer: Optional[Node]) -> str:
    """Why the instance must not be started on its primary, with what helps; '' if it may be.

    `peer` is None where it is not contacted.
    """
    if peer is None or not peer.replicas:
        return ""
    for replica in peer.replicas:
        if replica.role == Role.PRIMARY.value:
            # Connected, the pair has the data of the peer: a failover that checks this is the safe one.
            option = "" if replica.is_connected else " --ignore-consistency"
            return (
                f"{peer.name} has the disks of {instance} open for writing ({replica.text}), so it may run there: "
                f"{instance} is not started on {primary.name}. See what runs with `roundsman cluster verify`. If it "
                f"runs nowhere and its data are on {peer.name}, run `roundsman instance failover {instance}{option}`, "
                "then retry"
            )
    for mine, other in _pairs(primary.replicas or (), peer.replicas):
        found = _age(mine, other)
        if found in _WHY:
            before, after = _connecting(instance, primary.name, mine, other)
            return (
                f"the replica of {instance} on {primary.name} ({mine.text}) {_WHY[found]} the one on {peer.name} "
                f"({other.text}): it is not started there. {before}To start it from the data of {peer.name}, run "
                f"`roundsman instance failover {instance} --ignore-consistency`{after}. To start it from the data on "
                f"{primary.name} on purpose, set the other node offline first with `roundsman node offline "
                f"{peer.name}`, then retry"
            )
    return ""


def is_known_newest(*, is_connected: bool, generation: Optional[Generation]) -> bool:
    """Whether a replica needs no comparison with its peer: it has it, or was written since it lost it."""
    return is_connected or (generation is not None and generation.bitmap != 0)


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
