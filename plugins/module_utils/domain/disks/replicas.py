"""What nodes report of their replicas, and what is kept of it: the newest facts, and when each was in sync last."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..values import control_characters, ip_addresses, json_values, value_rules
from .drbd import Connection, Disk, Role
from .drbd_generations import bare

MOST = 1000
"""Replicas of one report; of a node with more none is known."""
BOOT_ID, REPLICAS, UNREAD = "boot_id", "replicas", "unread_resources"
"""The keys of a report's message that hold the facts."""
LONGEST_REASON = 300
"""Characters of the reason why a resource cannot be read."""
MOST_ADDRESSES = 8
"""Addresses of peers in the facts of one volume."""
OLDEST = 10 * 365 * 86400.0
"""Seconds for which no node is up: a sight that is older is none, and a date so far away no calendar has."""
_RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_GENERATION = re.compile(r"[0-9a-f]{16}")
_KIB = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"[0-9]{1,5}")

NOT_NEWS = ("seen", "out_of_sync")
"""Ages and amounts among the facts of a replica, by the names of fields and in reports: that they go on is no news."""

Volume = Tuple[str, int]
"""A resource of DRBD and the number of one of its volumes."""


def is_in_sync(connection: Connection, disk: Disk, peer_disk: Disk) -> bool:
    """Whether both replicas of a volume have the same data, now and with the next write."""
    return connection is Connection.CONNECTED and disk is peer_disk is Disk.UP_TO_DATE


@dataclass(frozen=True)
class ReplicaFact:
    """One volume of a resource as its node reports it.

    `current` and `bitmap` are generation identifiers without the bit of the role; None is unknown. `seen` is how many
    seconds before the report the volume was last seen in sync with a peer, by the peer's address for replication.
    `out_of_sync` is how many KiB its node has noted to differ from the peer's; None is unknown.
    """

    resource: str
    volume: int
    role: Role
    connection: Connection
    disk: Disk
    peer_disk: Disk
    current: Optional[int] = None
    bitmap: Optional[int] = None
    seen: Tuple[Tuple[str, float], ...] = ()
    out_of_sync: Optional[int] = None

    @property
    def news(self) -> ReplicaFact:
        """The fact without ages and amounts."""
        unknown: Dict[str, Any] = {
            known.name: known.default for known in dataclasses.fields(self) if known.name in NOT_NEWS
        }
        return dataclasses.replace(self, **unknown)

    @property
    def is_connected(self) -> bool:
        """Whether the peer is connected."""
        return self.connection is Connection.CONNECTED

    @property
    def is_in_sync(self) -> bool:
        """Whether the volume is in sync, as its node reports it."""
        return is_in_sync(self.connection, self.disk, self.peer_disk)

    @property
    def is_alone(self) -> bool:
        """Whether a primary with all data writes to no other replica."""
        has_data = self.role is Role.PRIMARY and self.disk is Disk.UP_TO_DATE
        return has_data and (not self.is_connected or self.peer_disk.is_gone)


@dataclass(frozen=True)
class NodeFacts:
    """What a report says about its node besides the diagnosis; '' and None are unknown.

    `unread` are resources that are up beside the `replicas`, each with the reason why it cannot be read.
    """

    boot_id: str = ""
    replicas: Optional[Tuple[ReplicaFact, ...]] = None
    unread: Mapping[str, str] = field(default_factory=dict)


UNKNOWN = NodeFacts()


def encode(facts: NodeFacts) -> Dict[str, object]:
    """The facts as keys of a report's message; what is unknown has no key.

    Generations are hexadecimal texts, which no reader of JSON rounds.
    """
    found: Dict[str, object] = {}
    if is_boot_id(facts.boot_id):
        found[BOOT_ID] = facts.boot_id
    if facts.replicas is not None and len(facts.replicas) <= MOST:
        found[REPLICAS] = [_encoded(replica) for replica in facts.replicas]
        if facts.unread:
            found[UNREAD] = {name: reason[:LONGEST_REASON] for name, reason in facts.unread.items()}
    return found


def is_boot_id(text: str) -> bool:
    """Whether a text is a boot id of Linux."""
    return value_rules.is_uuid(text)


def _encoded(fact: ReplicaFact) -> Dict[str, object]:
    known = {
        "resource": fact.resource,
        "volume": fact.volume,
        "role": fact.role.value,
        "connection": fact.connection.value,
        "disk": fact.disk.value,
        "peer_disk": fact.peer_disk.value,
    }
    identifiers = {"current": fact.current, "bitmap": fact.bitmap}
    return {
        **known,
        **({"seen": dict(fact.seen)} if fact.seen else {}),
        **({"out_of_sync": fact.out_of_sync} if fact.out_of_sync else {}),
        **{name: f"{identifier:016x}" for name, identifier in identifiers.items() if identifier is not None},
    }


def decode(content: Mapping[str, json_values.Value]) -> NodeFacts:
    """The facts of a report's message. A replica that is not described exactly is unknown; nothing is rejected."""
    boot_id, listed = content.get(BOOT_ID), content.get(REPLICAS)
    known = boot_id if isinstance(boot_id, str) and is_boot_id(boot_id) else ""
    if not isinstance(listed, list) or len(listed) > MOST:
        return NodeFacts(known)
    found: Dict[Volume, Optional[ReplicaFact]] = {}
    for entry in listed:
        fact = _decoded(entry)
        if fact is not None:
            volume = (fact.resource, fact.volume)
            # Of a volume that is described twice nothing is known.
            found[volume] = None if volume in found else fact
    unread = content.get(UNREAD, {})
    if not isinstance(unread, dict) or len(unread) > MOST:
        # Which replicas are unknown is not known, so none is known.
        return NodeFacts(known)
    reasons = {name: _reason(reason) for name, reason in unread.items() if _RESOURCE.fullmatch(name)}
    facts = tuple(fact for fact in found.values() if fact is not None and fact.resource not in reasons)
    return NodeFacts(known, facts, unread=reasons)


def _reason(value: json_values.Value) -> str:
    return control_characters.escaped(value[:LONGEST_REASON]) if isinstance(value, str) else ""


def _decoded(entry: json_values.Value) -> Optional[ReplicaFact]:
    if not isinstance(entry, dict):
        return None
    resource, volume = entry.get("resource"), entry.get("volume")
    if not isinstance(resource, str) or not _RESOURCE.fullmatch(resource):
        return None
    if not isinstance(volume, json_values.Number) or not _NUMBER.fullmatch(volume.token):
        return None
    try:
        return ReplicaFact(
            resource=resource,
            volume=int(volume.token),
            role=Role(entry.get("role")),
            connection=Connection(entry.get("connection")),
            disk=Disk(entry.get("disk")),
            peer_disk=Disk(entry.get("peer_disk")),
            current=_identifier(entry.get("current")),
            bitmap=_identifier(entry.get("bitmap")),
            seen=_seen(entry.get("seen")),
            out_of_sync=_kib(entry.get("out_of_sync")),
        )
    except ValueError:
        return None


def newest(seen: Mapping[str, float]) -> Tuple[Tuple[str, float], ...]:
    """What a fact says of sights, the newest first and no more than it may."""
    return tuple(sorted(seen.items(), key=lambda sight: sight[1])[:MOST_ADDRESSES])


def _seen(value: json_values.Value) -> Tuple[Tuple[str, float], ...]:
    """The sights of a volume; none of them if one is not an address with an age, or they are too many."""
    if not isinstance(value, dict) or len(value) > MOST_ADDRESSES:
        return ()
    found: Dict[str, float] = {}
    for address, age in value.items():
        if not isinstance(age, json_values.Number) or not ip_addresses.is_address(address):
            return ()
        seconds = float(age.token)
        if not 0 <= seconds <= OLDEST:
            return ()
        found[ip_addresses.normal(address)] = seconds
    return newest(found)


def _kib(value: json_values.Value) -> Optional[int]:
    return int(value.token) if isinstance(value, json_values.Number) and _KIB.fullmatch(value.token) else None


def _identifier(value: json_values.Value) -> Optional[int]:
    return bare(int(value, 16)) if isinstance(value, str) and _GENERATION.fullmatch(value) else None


@dataclass(frozen=True)
class Moment:
    """A time of the controller: unix seconds, and those of its monotonic clock where it has run since."""

    wall: float
    monotonic: Optional[float] = None

    def after(self, other: Moment) -> float:
        """Seconds from another moment to this one; a step of the clock counts only across a restart."""
        if self.monotonic is not None and other.monotonic is not None:
            return self.monotonic - other.monotonic
        return self.wall - other.wall

    def earlier(self, seconds: float) -> Moment:
        """The moment so many seconds before."""
        return Moment(self.wall - seconds, None if self.monotonic is None else self.monotonic - seconds)


def made_at(timestamp_ns: int, accepted: Moment) -> Moment:
    """When a report was made, by its node's clock, and never after its acceptance.

    A node whose clock is behind makes its facts look older (docs/decisions/replica-evidence.md, "Clocks").
    """
    return accepted.earlier(max(0.0, accepted.wall - timestamp_ns / 1e9))


@dataclass(frozen=True)
class Track:
    """One volume of one node: its newest fact, the last in sync, the first and the last since that say otherwise.

    `fact` is None while the newest report does not describe the volume.
    """

    fact: Optional[ReplicaFact] = None
    in_sync: Optional[Moment] = None
    generation: Optional[int] = None
    apart: Optional[Moment] = None
    still_apart: Optional[Moment] = None


@dataclass(frozen=True)
class NodeTrack:
    """What one node has reported of its replicas, up to its last report, which was made `at` a moment.

    By the node's clock, that is: `lag` is how many seconds later the report was accepted. `unread` are the resources
    of which that report says that they are up, and why nothing else is known.
    """

    at: Moment
    boot_id: str = ""
    lag: float = 0.0
    is_known: bool = False
    volumes: Mapping[Volume, Track] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def accepted(self) -> Moment:
        """When the last report was accepted."""
        return self.at.earlier(-self.lag)

    def of_resource(self, resource: str) -> Dict[int, Track]:
        """The volumes of a resource, by number."""
        return {number: track for (name, number), track in self.volumes.items() if name == resource}


def followed(before: Optional[NodeTrack], facts: NodeFacts, *, at: Moment, lag: float = 0.0) -> NodeTrack:
    """What is known of a node after its next report; without facts in it, what was known before is kept."""
    known = before.volumes if before is not None else {}
    forgotten = {volume: dataclasses.replace(old, fact=None) for volume, old in known.items()}
    if facts.replicas is None:
        return NodeTrack(at, facts.boot_id, lag, is_known=False, volumes=forgotten)
    found = {(fact.resource, fact.volume): fact for fact in facts.replicas}
    return NodeTrack(
        at,
        facts.boot_id,
        lag,
        is_known=True,
        volumes={
            **{volume: old for volume, old in forgotten.items() if volume[0] in facts.unread},
            **{volume: _track(known.get(volume, Track()), fact, at) for volume, fact in found.items()},
        },
        unread=facts.unread,
    )


def _track(before: Track, fact: ReplicaFact, at: Moment) -> Track:
    if fact.is_in_sync:
        return Track(fact, at, fact.current)
    return Track(fact, before.in_sync, before.generation, before.apart or at, at)


@dataclass(frozen=True)
class Parted:
    """A running primary lost its secondary: since when (unix seconds), which node reported it, what was known.

    `last_in_sync` is the unix time of the last fact that said in sync, 0 for none; `generations` are those of that
    fact by disk, '' where unknown.
    """

    since: float
    last_in_sync: float
    node: str
    generations: Tuple[str, ...] = ()


def alone(node: Optional[NodeTrack], resources: Iterable[str]) -> List[Track]:
    """The volumes of these resources that a node writes as a primary without its peer, by its newest report."""
    if node is None:
        return []
    tracks = [track for resource in resources for track in node.of_resource(resource).values()]
    return [track for track in tracks if track.fact is not None and track.fact.is_alone]


def are_in_sync(node: Optional[NodeTrack], resources: Sequence[str], *, since: float) -> bool:
    """Whether a node's newest report, made after a unix time, says that all these resources are in sync."""
    if node is None or node.at.wall <= since:
        return False
    tracks = [list(node.of_resource(resource).values()) for resource in resources]
    return all(tracks) and all(track.fact is not None and track.fact.is_in_sync for found in tracks for track in found)


def to_outdate(primary: Optional[NodeTrack], secondary: Optional[NodeTrack], resources: Sequence[str]) -> bool:
    """Whether a secondary has a replica to outdate: its primary writes alone, and it would let itself be promoted.

    Never where no side is primary, never where the secondary has its peer, and never both. Nor one that was promoted
    since the two disconnected: whose data count then is for a person.
    """
    if secondary is None:
        return False
    for resource in resources:
        if not any(_is_parted(track) for track in alone(primary, [resource])):
            continue
        if any(_may_be_outdated(track) for track in secondary.of_resource(resource).values()):
            return True
    return False


def _is_parted(track: Track) -> bool:
    return track.fact is not None and not track.fact.is_connected


def _may_be_outdated(track: Track) -> bool:
    fact = track.fact
    if fact is None or fact.role is not Role.SECONDARY or fact.is_connected or fact.bitmap:
        return False
    return fact.disk in {Disk.UP_TO_DATE, Disk.CONSISTENT}


def lost_peer(node: Optional[NodeTrack], resources: Sequence[str]) -> float:
    """When a node said, in its newest word of these resources, that one has not its peer's data (unix seconds, 0: no).

    A primary whose own disk failed writes to its peer.
    """
    tracks = [track for resource in resources for track in node.of_resource(resource).values()] if node else []
    found = [track.still_apart.wall for track in tracks if track.still_apart is not None and not _writes_to_peer(track)]
    return max(found, default=0.0)


def _writes_to_peer(track: Track) -> bool:
    return track.fact is not None and track.fact.is_connected and track.fact.peer_disk is Disk.UP_TO_DATE
