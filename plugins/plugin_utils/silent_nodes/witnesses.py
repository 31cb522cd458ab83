"""The second witness before a silent node is powered off: what its DRBD peers that answer report of it.

A node may be silent because only its management link is cut. Its peers tell it from one that is dead, or cut off from
everything: they reach it by another network (docs/decisions/dead-nodes.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Sequence

from ..disks import replica_texts


class Word(Enum):
    """What a peer's newest report says of its replication to a node."""

    CONNECTED = "connected"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Peer:
    """A node that answers and has replicas with a silent one, with its word of it, from a report made since then.

    `at` is when that report was made (unix seconds), `why` says why its word is unknown, `cure` what settles that
    where its next report alone does not. `reaches` says that it is connected to yet another node by replication,
    `has_third` that it has replicas with yet another one that answers. `is_mute` says that no report of it has counted
    for long.
    """

    name: str
    word: Word
    at: float = 0.0
    why: str = ""
    reaches: bool = False
    has_third: bool = False
    cure: str = ""
    is_mute: bool = False


class Finding(Enum):
    """What the peers of a silent node make of it."""

    DEAF = "replication to it lives"
    DEAD = "its peers have lost it, too"
    DOUBT = "the fault may be at its peer"
    UNKNOWN = "a peer has not said it"
    NONE = "no peer can say it"


@dataclass(frozen=True)
class Testimony:
    """What the peers make of a silent node, in words too, and what would settle it.

    `is_outvoted` says that one peer alone is connected to it, and that the others have lost it.
    """

    finding: Finding
    text: str = ""
    cure: str = ""
    is_outvoted: bool = False


def judge(peers: Sequence[Peer]) -> Testimony:
    """What the peers of a silent node make of it; the first rule that applies decides.

    One that is still connected proves that it lives. While any has another word than connected or lost, nothing is
    concluded. One that lost it proves something only if its own network is known to work, or if another peer lost it as
    well. Of a pair without a third node that answers, and of a node without peers, nothing can be said.
    """
    connected = [peer for peer in peers if peer.word is Word.CONNECTED]
    lost = [peer for peer in peers if peer.word is Word.LOST]
    unknown = [peer for peer in peers if peer.word not in {Word.CONNECTED, Word.LOST}]
    reaching = [peer for peer in lost if peer.reaches]
    if connected:
        is_outvoted = len(connected) == 1 and _outvote(lost, unknown)
        return _deaf(connected, lost, unknown, is_outvoted=is_outvoted)
    if unknown:
        return Testimony(Finding.UNKNOWN, "; ".join(map(_why, unknown)), _cure(unknown))
    if reaching:
        return Testimony(Finding.DEAD, f"{_both(reaching)} lost it, and still reached other nodes by replication")
    if len(lost) > 1:
        return Testimony(Finding.DEAD, f"its DRBD peers {_both(lost)} lost it, too")
    if lost and lost[0].has_third:
        name = lost[0].name
        text = f"only {name} reports that it lost it, and {name} reaches no other node by replication either"
        return Testimony(
            Finding.DOUBT, f"{text}: the fault may be at {name}", f"the replication link of {name} restored"
        )
    return Testimony(Finding.NONE, "no DRBD peer can say whether it lives")


def _outvote(lost: Sequence[Peer], unknown: Sequence[Peer]) -> bool:
    """Whether the peers that lost a node stand against one that is connected to it.

    One whose own network is known to work does, and need not wait for peers that are mute; without one it takes two.
    """
    if any(peer.reaches for peer in lost):
        return all(peer.is_mute for peer in unknown)
    return len(lost) > 1 and not unknown


def _deaf(connected: Sequence[Peer], lost: Sequence[Peer], unknown: Sequence[Peer], *, is_outvoted: bool) -> Testimony:
    newest = max(connected, key=lambda peer: peer.at)
    told = f"reports at {replica_texts.clock(newest.at)} that it is connected to it by replication"
    if is_outvoted:
        mute = f"; of {_both(unknown)} no report counts" if unknown else ""
        text = f"{newest.name} alone {told}, and {_both(lost)} lost it{mute}"
        return Testimony(Finding.DEAF, text, is_outvoted=True)
    return Testimony(Finding.DEAF, f"it is deaf, not dead: {newest.name} {told}")


def _why(peer: Peer) -> str:
    return peer.why or f"{peer.name} does not say whether it is connected to it"


def _cure(unknown: Sequence[Peer]) -> str:
    awaited = [peer for peer in unknown if not peer.cure]
    reports = [f"the next report of {_both(awaited)}"] if awaited else []
    return "; ".join([*(peer.cure for peer in unknown if peer.cure), *reports])


def _both(peers: Sequence[Peer]) -> str:
    return " and ".join(sorted(peer.name for peer in peers))
