"""What the DRBD peers of silent nodes report of them, from the configuration and the newest reports."""

from __future__ import annotations

import dataclasses
import itertools
import types
from collections import defaultdict
from typing import TYPE_CHECKING

from ..module_utils.domain.disks.drbd import Connection
from . import replica_evidence
from .disks import possible_loss
from .silent_nodes import witnesses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ..module_utils.domain.disks import replicas
    from .cluster import cluster as clusters
    from .silent_nodes import dead_nodes

EARLIER = 30.0
"""Seconds before the first question that a node missed from which a peer that lost it says it of the same fault."""
MUTE_AFTER = 600.0
"""Seconds of a silence after which a peer that answers, and of which no report counts, is mute."""
_GIVEN_UP = Connection.STANDALONE
"""The connection of a replica that waits for no peer: it says nothing of the other node."""


def words(
    cluster: clusters.Cluster,
    tracks: Mapping[str, replicas.NodeTrack],
    silences: Mapping[str, dead_nodes.Silence],
    *,
    answering: Collection[str],
    current: Collection[str],
    moving: Collection[str] = frozenset(),
    mute: Mapping[str, Collection[str]] = types.MappingProxyType({}),
) -> dict[str, list[witnesses.Peer]]:
    """By silent node (UUID) its DRBD peers that answer, with their words of it.

    A peer without a replica that is up and shared with the node has none; the reports of the nodes `current` (UUIDs)
    count. Jobs are at work on the instances `moving`: to whom their nodes are connected is not known. `mute` are those
    that are, by silent node (`Mute`).
    """
    found: dict[str, list[witnesses.Peer]] = {}
    unsure = {left.instance.uuid for left in cluster.maintenance.left_behind if left.is_new}.union(moving)
    for uuid, shared in _shared(cluster, answering).items() if silences else ():
        silent = sorted(silences.keys() & shared.keys())
        if silent:
            told = _Report(tracks.get(uuid) if uuid in current else None, shared, unsure=unsure)
            for node in silent:
                names = cluster.node_name(uuid), cluster.node_name(node)
                peer = told.peer(node, names, since=silences[node].since, answering=answering)
                if peer is not None:
                    is_mute = uuid not in current and uuid in mute.get(node, ())
                    found.setdefault(node, []).append(dataclasses.replace(peer, is_mute=is_mute))
    return found


class Mute:
    """Since when nodes (UUIDs) answer and no report of them counts: it is refused, or there is none."""

    def __init__(self) -> None:
        self._mute: dict[str, float] = {}
        self._silent: dict[tuple[str, float], float] = {}

    def among(
        self,
        silences: Mapping[str, dead_nodes.Silence],
        answering: Collection[str],
        current: Collection[str],
        *,
        now: float,
    ) -> dict[str, set[str]]:
        """Those that have been so for long, by the nodes that have been silent for as long.

        `current` are the nodes whose reports count; `now` is monotonic.
        """
        self._mute = {uuid: self._mute.get(uuid, now) for uuid in answering if uuid not in current}
        silent = ((uuid, silence.since) for uuid, silence in silences.items())
        self._silent = {each: self._silent.get(each, now) for each in silent}
        mute = {uuid for uuid, since in self._mute.items() if now - since > MUTE_AFTER}
        return {uuid: mute for (uuid, _), since in self._silent.items() if now - since > MUTE_AFTER}


def _shared(
    cluster: clusters.Cluster, nodes: Collection[str]
) -> Mapping[str, Mapping[str, Collection[clusters.Instance]]]:
    """The replicated instances that each of these nodes shares with each other node."""
    found: dict[str, dict[str, list[clusters.Instance]]] = defaultdict(lambda: defaultdict(list))
    for instance in cluster.instances.values():
        if instance.disk_template == replica_evidence.REPLICATED:
            for node, other in itertools.permutations(instance.nodes, 2):
                if node in nodes:
                    found[node][other].append(instance)
    return found


class _Report:
    """The newest report of a node that answers; without one that counts it has no word of any node."""

    def __init__(
        self,
        track: replicas.NodeTrack | None,
        shared: Mapping[str, Collection[clusters.Instance]],
        *,
        unsure: Collection[str],
    ) -> None:
        self._track = track
        self._shared = shared
        self._unsure = unsure
        self._by_resource: dict[str, set[Connection]] = defaultdict(set)
        for (resource, _), volume in track.volumes.items() if track is not None else ():
            if volume.fact is not None:
                self._by_resource[resource].add(volume.fact.connection)

    def peer(
        self, silent: str, names: tuple[str, str], *, since: float, answering: Collection[str]
    ) -> witnesses.Peer | None:
        """Its word of a node (UUID) that is silent since a unix time; `names` are its own and that of the node."""
        known, at = self._connections(self._sure(silent)), self._track.at.wall if self._track is not None else 0.0
        why = self._unknown(silent, names, since=since)
        if why:
            return witnesses.Peer(names[0], witnesses.Word.UNKNOWN, at, why)
        if Connection.CONNECTED in known:
            return witnesses.Peer(names[0], witnesses.Word.CONNECTED, at)
        if unread := self._unread(silent):
            return _unreadable(names, at, *unread)
        if Connection.CONNECTED in self._connections(self._shared[silent]):
            why = f"{names[0]} may be connected to {names[1]}: disks that they share are being moved or replaced"
            return witnesses.Peer(names[0], witnesses.Word.UNKNOWN, at, why)
        if not known - {_GIVEN_UP}:
            return None
        others = self._shared.keys() - {silent}
        third = [
            other
            for other in others & set(answering)
            if self._unread(other) or self._connections(self._shared[other]) - {_GIVEN_UP}
        ]
        return witnesses.Peer(
            names[0],
            witnesses.Word.LOST,
            at,
            reaches=any(Connection.CONNECTED in self._connections(self._sure(other)) for other in others),
            has_third=bool(third),
        )

    def _unknown(self, silent: str, names: tuple[str, str], *, since: float) -> str:
        """Why what it reports does not tell whether it is connected to a silent node, or ''."""
        own, name = names
        is_connected = Connection.CONNECTED in self._connections(self._shared[silent])
        if self._track is None or self._track.at.wall <= (since if is_connected else since - EARLIER):
            return f"{own} has not reported since {name} fell silent, so whether it is connected to it is not known"
        if not self._track.is_known:
            return f"the report of {own} does not say whether it is connected to {name}"
        late = self._track.at.wall - since
        if Connection.CONNECTED in self._connections(self._sure(silent)):
            told = (
                f"{own} was still connected to {name} {late:.0f} s after that fell silent, and DRBD notices a loss of"
            )
            return f"{told} power up to {possible_loss.NOTICED:.0f} s late" if late <= possible_loss.NOTICED else ""
        return ""

    def _unread(self, silent: str) -> tuple[str, str] | None:
        """The first resource shared with a silent node that cannot be read, and the reason; None without one."""
        shared = {each for instance in self._shared[silent] for each in replica_evidence.resources(instance)}
        unread = self._track.unread if self._track is not None else {}
        return min(((name, reason) for name, reason in unread.items() if name in shared), default=None)

    def _sure(self, node: str) -> Iterable[clusters.Instance]:
        return (instance for instance in self._shared[node] if instance.uuid not in self._unsure)

    def _connections(self, instances: Iterable[clusters.Instance]) -> set[Connection]:
        return {
            connection
            for instance in instances
            for name in replica_evidence.resources(instance)
            for connection in self._by_resource.get(name, ())
        }


def _unreadable(names: tuple[str, str], at: float, resource: str, reason: str) -> witnesses.Peer:
    own, silent = names
    because = f" ({reason})" if reason else ""
    why = f"{own} cannot read its resource {resource}{because}, so whether it is connected to {silent} is not known"
    cure = f"{resource} readable on {own} again (run `drbdsetup status {resource}` there)"
    return witnesses.Peer(own, witnesses.Word.UNKNOWN, at, why, cure=cure)
