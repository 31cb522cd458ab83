"""Which repair a DRBD resource needs, from what both of its nodes say: rules, of which the first that applies decides.

The side of the instance is the node that is its primary on record. A replica is discarded (`DESTRUCTIVE`) only while
the other one is up to date; whatever is doubtful is refused with what a person must find out, and never guessed. After
a split brain writes are discarded only where a person named the node (`Pair.discard`).
"""

from __future__ import annotations

from typing import Optional, Set

from ...module_utils.domain.disks.drbd import Connection, Disk, Role, Side, Volume
from ...module_utils.domain.disks.drbd_generations import Relation, is_noted
from ...module_utils.domain.disks.drbd_pairs import Action, Kind, Pair, Sides, Step, Unread, Verdict, Where

_FAIL_OVER = "roundsman instance failover NAME --ignore-consistency"
_REPLACE = "roundsman instance replace-disks NAME --to SECONDARY"
_ACTIVATE = "roundsman instance activate-disks NAME"
_REPLACE_OLD = "roundsman instance replace-disks NAME --to OLD_PRIMARY"
_REPAIR = "roundsman instance repair-disks NAME"
_DATA_OF_SECONDARY = f"the instance started with the data of its secondary now ({_FAIL_OVER})"
_FAILED_OVER = (
    f"the instance failed over to its secondary ({_FAIL_OVER}), then its old primary replaced ({_REPLACE_OLD})"
)
_GIVEN_UP = (
    "where the data of the primary count, the secondary set offline (roundsman node offline SECONDARY), then its "
    "replica replaced by one on another node (roundsman instance replace-disks NAME) with `--to`"
)
_UNNOTED = (
    "split brain, and one side was in sync with another node since: DRBD has not noted all that differs, and would "
    "copy a part"
)

_SILENT = {
    Unread.UNHEARD: ("the {} could not be asked", "the {} reachable again"),
    Unread.UNREADABLE: (
        "the resource cannot be read on the {}",
        "a state there that can be read: `drbdsetup status` prints its peers, of which it may have one",
    ),
}


def decide(pair: Pair) -> Verdict:
    """The verdict on a resource.

    Source: the decision table in `docs/decisions/drbd-repairs.md`; DRBD's own rules for connections.
    """
    unread = _unread(pair)
    if unread is not None:
        return unread
    assert isinstance(pair.primary, Side)
    assert isinstance(pair.secondary, Side)
    there = {volume.number: volume for volume in pair.secondary.volumes}
    if {volume.number for volume in pair.primary.volumes} != set(there):
        adjusted = (
            f"the same volumes on both nodes (`drbdadm adjust {pair.primary.resource}` there takes over its file)"
        )
        return _refused("its nodes do not report the same volumes", f"{adjusted}; {_GIVEN_UP}")
    volumes = tuple((volume, there[volume.number]) for volume in pair.primary.volumes)
    sides = Sides(pair, pair.primary, pair.secondary, volumes)
    for rule in (_roles, _disks, _paused, _copying, _established, _transient, _apart):
        verdict = rule(sides)
        if verdict is not None:
            return verdict
    return Verdict(Kind.HEALTHY)


def _unread(pair: Pair) -> Optional[Verdict]:
    for where in Where:
        told = pair.at(where)
        if isinstance(told, Unread) and told in _SILENT:
            reason, unblock = (text.format(where.value) for text in _SILENT[told])
            return _refused(reason, _without(where, unblock))
    down = [where for where in Where if pair.at(where) is Unread.DOWN]
    if len(down) > 1:
        return _refused("the resource is down on both nodes", f"the disks of the instance activated ({_ACTIVATE})")
    if not down:
        return None
    step, other = Step(Action.UP, down[0]), pair.at(down[0].other)
    if step not in pair.failed:
        return Verdict(Kind.REPAIR, f"the resource is down on the {down[0].value}", (step,))
    if down[0] is Where.SECONDARY and isinstance(other, Side) and other.is_up_to_date:
        return _replaced("its secondary does not come up")
    return _refused(
        f"the resource does not come up on the {down[0].value}",
        _without(down[0], "what hinders `drbdadm up` there fixed"),
    )


def _without(where: Where, unblock: str) -> str:
    """What lifts a refusal because of one node, with the commands that go on without that node."""
    if where is Where.SECONDARY:
        return f"{unblock}; {_GIVEN_UP}"
    return (
        f"{unblock}. If the primary is lost, power it off (roundsman node power off PRIMARY --force), then fail the "
        "instance over (roundsman instance failover NAME), which says what may be lost"
    )


def _roles(sides: Sides) -> Optional[Verdict]:
    if sides.secondary.role is not Role.PRIMARY or _is_chosen(sides):
        return None
    if sides.primary.role is not Role.PRIMARY:
        return _refused(
            "it is primary on its secondary",
            "where it runs (roundsman cluster verify), and what that names; if it runs nowhere, the disk of the "
            f"secondary closed (there, `drbdadm secondary {sides.secondary.resource}`)",
        )
    if sides.is_connected:
        return Verdict(Kind.WAITING, "both sides are primary: the instance migrates")
    choices = _choices(sides)
    if choices:
        unblock = f"to give up what one of them wrote, the node named ({_REPAIR} --discard {choices})"
    else:
        closed = f"(there, `drbdadm secondary {sides.secondary.resource}`), then the two connected ({_REPAIR})"
        unblock = f"the disk closed on the node where it does not run {closed}"
    return _refused("both sides are primary, and not connected", f"where it runs (roundsman cluster verify); {unblock}")


def _is_chosen(sides: Sides) -> bool:
    """Whether a person chose whose data count after a split brain: then no role speaks for a side."""
    return sides.pair.discard is not None and not sides.is_connected and Relation.SPLIT in sides.relations


def _disks(sides: Sides) -> Optional[Verdict]:
    for ours, theirs in sides.volumes:
        if ours.disk.is_gone and theirs.disk.is_gone:
            return _refused("neither node has its disk", "a disk that can be attached")
        if theirs.disk.is_gone:
            return _lost_copy(sides, ours)
        if ours.disk.is_gone:
            return _lost_original(sides, theirs)
    states = {volume.disk for both in sides.volumes for volume in both}
    if states & {Disk.ATTACHING, Disk.NEGOTIATING}:
        return Verdict(Kind.WAITING, "a disk is being attached")
    return None


def _lost_copy(sides: Sides, ours: Volume) -> Verdict:
    step = Step(Action.ATTACH, Where.SECONDARY)
    if step not in sides.pair.failed:
        return Verdict(Kind.REPAIR, "the secondary has lost its disk", (step,))
    if ours.disk is Disk.UP_TO_DATE and sides.primary.is_up_to_date:
        return _replaced("the disk of the secondary cannot be attached")
    return _refused("the secondary has lost its disk, and the primary is not up to date", "a disk that can be attached")


def _lost_original(sides: Sides, theirs: Volume) -> Verdict:
    if not sides.is_connected or theirs.disk is not Disk.UP_TO_DATE:
        unblock = "the connection of the two"
        if not sides.is_connected and theirs.disk is Disk.UP_TO_DATE:
            unblock += f", or {_DATA_OF_SECONDARY}"
        return _refused("the primary has lost its disk, and the secondary is not known to have its data", unblock)
    step = Step(Action.ATTACH, Where.PRIMARY)
    if step not in sides.pair.failed:
        return Verdict(Kind.REPAIR, "the primary has lost its disk, and works on the secondary's", (step,))
    return _refused("the disk of the primary cannot be attached", "the instance migrated to its secondary")


def _paused(sides: Sides) -> Optional[Verdict]:
    if not sides.is_connected:
        return None
    volumes = {Where.PRIMARY: sides.primary.volumes, Where.SECONDARY: sides.secondary.volumes}
    steps = tuple(
        Step(Action.RESUME, where) for where in Where if any(volume.paused_by_user for volume in volumes[where])
    )
    if not steps:
        return None
    if sides.pair.failed.issuperset(steps):
        return _refused("its resync is paused, and resuming it does not help", "resume it where it was paused")
    return Verdict(Kind.REPAIR, "its resync is paused", steps)


def _copying(sides: Sides) -> Optional[Verdict]:
    for volume in (volume for both in sides.volumes for volume in both):
        if sides.is_connected and (volume.replication.is_under_way or volume.replication.is_paused):
            done = "" if volume.done is None else f", {volume.done:g} % done"
            return Verdict(Kind.WAITING, f"its replicas are being resynced ({volume.replication.value}{done})")
    return None


def _established(sides: Sides) -> Optional[Verdict]:
    if not sides.is_connected:
        return None
    worst = {Where.PRIMARY: _worst(sides.primary), Where.SECONDARY: _worst(sides.secondary)}
    bad = [where for where, disk in worst.items() if disk is not Disk.UP_TO_DATE]
    if len(bad) > 1:
        text = " and ".join(f"{disk.value} on the {where.value}" for where, disk in worst.items())
        return _refused(f"neither side is up to date: {text}", _forced(sides.primary.resource))
    if bad:
        return _anew(sides, bad[0], worst[bad[0]])
    if any(volume.out_of_sync for both in sides.volumes for volume in both):
        return _refused(
            "a comparison found that its replicas differ",
            f"the data of the primary copied in full ({_REPLACE}); to take "
            f"those of the secondary, fail over first ({_FAIL_OVER})",
        )
    return None


def _worst(side: Side) -> Disk:
    """The state of the disk that is not up to date, if there is one."""
    return next((volume.disk for volume in side.volumes if volume.disk is not Disk.UP_TO_DATE), Disk.UP_TO_DATE)


def _anew(sides: Sides, where: Where, disk: Disk) -> Verdict:
    step = Step(Action.INVALIDATE, where)
    text = f"the replica of the {where.value} is {disk.value}, and nothing repairs it"
    if step in sides.pair.failed:
        unblock = {
            Where.SECONDARY: f"the secondary replaced ({_REPLACE})",
            Where.PRIMARY: _FAILED_OVER,
        }
        return _refused(text, unblock[where])
    return Verdict(Kind.REPAIR, text, (step,))


def _forced(resource: str) -> str:
    """How a person says whose data count where DRBD trusts neither side; a new pair has none, and is started."""
    return (
        "if the instance is new, a start, which makes its replicas (roundsman instance start NAME); otherwise, on the "
        f"node whose data count, `drbdadm primary --force {resource}` and then `drbdadm secondary {resource}`, after "
        "which DRBD copies them to the other node. They may be of two moments: compare them with a backup"
    )


def _transient(sides: Sides) -> Optional[Verdict]:
    settled = {Connection.STANDALONE, Connection.CONNECTING, Connection.CONNECTED}
    passing = {sides.primary.connection, sides.secondary.connection} - settled
    if passing:
        return Verdict(Kind.WAITING, f"the connection changes ({min(connection.value for connection in passing)})")
    return None


def _apart(sides: Sides) -> Optional[Verdict]:
    if sides.is_connected:
        return None
    connections = {Where.PRIMARY: sides.primary.connection, Where.SECONDARY: sides.secondary.connection}
    alone = [where for where in Where if connections[where] is Connection.STANDALONE]
    if not alone and connections[Where.PRIMARY] is Connection.CONNECTED:
        return _refused(
            "the primary is connected, and not to the secondary: it has another peer, as where replace-disks has not "
            "ended, or has not noticed yet that the link is cut",
            "`roundsman explain` of the instance, which names a new replica and how to finish it; else retry",
        )
    if not alone:
        unblock = "the network between them"
        if sides.pair.discard is Where.PRIMARY:
            unblock += f", or {_DATA_OF_SECONDARY}"
        return _refused("its nodes do not reach each other", unblock)
    doubt = _diverged(sides)
    if doubt is not None:
        return doubt
    steps = tuple(Step(Action.CONNECT, where) for where in alone)
    if sides.pair.failed.issuperset(steps):
        return _unconnectable(sides)
    return Verdict(Kind.REPAIR, f"the {' and the '.join(where.value for where in alone)} stands alone", steps)


def _unconnectable(sides: Sides) -> Verdict:
    """Two that refuse each other, as with different secrets: one that is not whole, or not newer, is replaced."""
    if sides.primary.is_up_to_date and all(volume.disk is Disk.INCONSISTENT for volume in sides.secondary.volumes):
        return _refused(
            "its nodes do not connect again, and the replica of the secondary is incomplete, as where replace-disks "
            "has not ended",
            f"the secondary replaced ({_REPLACE})",
        )
    relations = set(sides.relations)
    unblock = f"what DRBD's log says on both nodes fixed; {_GIVEN_UP}"
    if relations and relations <= {Relation.EQUAL, Relation.THEIRS_NEWER} and sides.secondary.is_up_to_date:
        unblock = _FAILED_OVER
    if relations and relations <= {Relation.EQUAL, Relation.OURS_NEWER} and sides.primary.is_up_to_date:
        unblock = f"the secondary replaced ({_REPLACE})"
    return _refused("its nodes do not connect again", unblock)


def _diverged(sides: Sides) -> Optional[Verdict]:
    """What cannot simply be connected again; what is not known DRBD finds out itself, and then stands alone again."""
    relations, ages = sides.relations, sides.ages
    if Relation.UNRELATED in ages:
        return _refused("its replicas have no data in common", _GIVEN_UP)
    if ages != relations:
        return _forgotten(set(ages))
    if Relation.SPLIT in relations:
        return _split(sides)
    if Relation.THEIRS_NEWER in relations and sides.primary.role is Role.PRIMARY:
        return _refused(
            "the instance runs on data that are older than those of its secondary",
            "where the data of the secondary count, the instance stopped (roundsman instance stop NAME) and the two "
            f"connected (roundsman instance repair-disks NAME); {_GIVEN_UP}",
        )
    return None


def _forgotten(ages: Set[Relation]) -> Verdict:
    """DRBD no longer knows which side is newer, and does not connect them: the older one gets a full new replica."""
    if ages <= {Relation.EQUAL, Relation.OURS_NEWER}:
        return _refused(
            "the replica of the secondary is older than that of the primary, and DRBD would not connect the two: its "
            "history is too short",
            f"the secondary replaced ({_REPLACE})",
        )
    if ages <= {Relation.EQUAL, Relation.THEIRS_NEWER}:
        return _refused(
            "the replica of the primary is older than that of the secondary, and DRBD would not connect the two: its "
            "history is too short",
            _FAILED_OVER,
        )
    return _refused("DRBD would not connect its replicas, and neither side has all data of the other", _GIVEN_UP)


def _choices(sides: Sides) -> str:
    """The nodes of a split brain whose writes a person may give up, as a command names them; '' for none."""
    if Relation.SPLIT not in sides.relations or sides.ages != sides.relations:
        return ""
    found = [where.value.upper() for where in Where if not _hindrance(sides, where)]
    return "NODE" if len(found) > 1 else "".join(found)


def _split(sides: Sides) -> Verdict:
    """Split brain: whose writes are lost is for a person, and never those of a primary."""
    loser = sides.pair.discard
    if loser is None:
        return _unchosen(sides)
    if hindrance := _hindrance(sides, loser):
        return _refused(_incomplete(sides, loser) or _UNNOTED, hindrance)
    return _demoted(sides, loser) if sides.at(loser).role is Role.PRIMARY else _discarded(sides, loser)


def _discarded(sides: Sides, loser: Where) -> Verdict:
    """A side that is not primary has its writes discarded: those since they were last connected, or all."""
    if not _is_noted(sides):
        return _given_up(sides, _UNNOTED)
    steps = (Step(Action.DISCARD, loser), Step(Action.CONNECT, loser.other))
    if not sides.pair.failed.issuperset(steps):
        return Verdict(Kind.REPAIR, f"split brain: a person gives up what the {loser.value} wrote", steps)
    if steps[0] in sides.pair.undone:
        again = f"{_REPAIR} --discard {loser.value.upper()}"
        return _refused(
            f"split brain, and what the {loser.value} wrote could not be discarded", f"the same again ({again})"
        )
    reason = "split brain, and its nodes do not connect again"
    if _may_give_up(sides, loser):
        return _given_up(sides, reason)
    return _refused(reason, _copied_in_full(sides, loser))


def _unchosen(sides: Sides) -> Verdict:
    reason, choices = "split brain: both replicas were written since they were last connected", _choices(sides)
    if choices:
        chosen = f"a person who chooses the node whose writes are lost ({_REPAIR} --discard {choices})"
        by_hand = "" if _incomplete(sides, Where.PRIMARY) else _hindrance(sides, Where.PRIMARY)
        return _refused(reason, f"{chosen}; to give up what the primary wrote, {by_hand}" if by_hand else chosen)
    texts = [f"to give up what the {where.value} wrote, {_hindrance(sides, where)}" for where in Where]
    return _refused(reason, "; ".join(texts))


def _hindrance(sides: Sides, loser: Where) -> str:
    """What a person must do before what this side wrote can be discarded; '' where it can be now."""
    if _incomplete(sides, loser):
        return _GIVEN_UP
    if _is_noted(sides) or _may_give_up(sides, loser):
        return ""
    return _copied_in_full(sides, loser)


def _incomplete(sides: Sides, loser: Where) -> str:
    """That the other side is not whole either, or has older data; '' where it has all."""
    newer = Relation.THEIRS_NEWER if loser is Where.SECONDARY else Relation.OURS_NEWER
    if newer in sides.relations or not sides.at(loser.other).is_whole:
        return f"split brain: the {loser.other.value} does not have all data either, so nothing is discarded"
    return ""


def _is_noted(sides: Sides) -> bool:
    """Whether DRBD would copy all that differs when it connects the two."""
    return all(is_noted(ours, theirs) for ours, theirs in sides.generations)


def _may_give_up(sides: Sides, loser: Where) -> bool:
    """Whether a side may be copied in full by commands: it is the secondary, and its primary is up to date."""
    return loser is Where.SECONDARY and sides.primary.is_up_to_date


def _given_up(sides: Sides, reason: str) -> Verdict:
    """The secondary is invalidated, so that it can be replaced, which copies all data."""
    if all(volume.disk is Disk.INCONSISTENT for volume in sides.secondary.volumes):
        return _refused(
            "split brain: what the secondary wrote is given up, and the two do not connect",
            f"the secondary replaced ({_REPLACE}), which removes its snapshots, too",
        )
    step = Step(Action.GIVE_UP, Where.SECONDARY)
    if step in sides.pair.failed:
        return _refused(reason, _copied_in_full(sides, Where.SECONDARY))
    return Verdict(Kind.REPAIR, f"{reason}: a person gives up what the secondary wrote", (step,))


def _demoted(sides: Sides, loser: Where) -> Verdict:
    """DRBD's Primary never discards, and DRBD closes no disk that a guest has open."""
    step = Step(Action.DEMOTE, loser)
    if step in sides.pair.failed:
        return _refused(
            f"split brain: the {loser.value} is DRBD's Primary and its disk is in use, so nothing is discarded there",
            "the instance stopped (roundsman instance stop NAME), or the other node named",
        )
    return Verdict(Kind.REPAIR, f"split brain: the {loser.value} is DRBD's Primary", (step,))


def _copied_in_full(sides: Sides, loser: Where) -> str:
    """Where DRBD would copy a part only, or not connect, the side that is given up is invalidated, and replaced."""
    invalidated = (
        "invalidated (there, `drbdadm disconnect` of the resource unless it is StandAlone, then `drbdadm invalidate`)"
    )
    # The new secondary needs a primary that is up to date; a failover makes its target so.
    forced = (
        "the replica of the primary made up to date (`drbdadm primary --force`, then `drbdadm secondary` there), then "
    )
    if loser is Where.PRIMARY:
        return (
            f"the instance failed over to its secondary ({_FAIL_OVER}), then its old primary {invalidated}, "
            f"then replaced ({_REPLACE_OLD})"
        )
    first = "" if sides.primary.is_up_to_date else forced
    return f"{first}the secondary {invalidated}, then replaced ({_REPLACE})"


def _replaced(reason: str) -> Verdict:
    return Verdict(Kind.REPAIR, reason, (Step(Action.REPLACE, Where.SECONDARY),))


def _refused(reason: str, unblock: str) -> Verdict:
    return Verdict(Kind.REFUSED, reason, unblock=unblock)
