"""Clusters in trouble, made from a number: groups, nodes and instances of all kinds, with incidents of all kinds.

The same number makes the same cluster for ever: of Python's generator only `random()` is used, whose sequence for a
seed is promised not to change. Each number has a theme, which says what is common in it; everything else happens too.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import epo
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.unit.plugins.plugin_utils.rounds import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Item = TypeVar("Item")
NOW = 1_700_000_000.0
"""The time in all clusters: unix seconds."""
GENERATION = 0x10A0
THEMES = (
    "room",
    "tight",
    "groups",
    "dead",
    "held",
    "storm",
    "reserve",
    "repairs",
    "balance",
    "load",
    "immovable",
    "going on",
    "tags",
    "power",
    "anything",
)
TEMPLATES = {
    "immovable": ("drbd", "drbd", "plain", "file", "sharedfile", "diskless", "swift", "ext"),
    "balance": ("drbd", "drbd", "drbd", "drbd", "sharedfile", "plain"),
    "load": ("drbd", "drbd", "drbd", "rbd", "diskless"),
    "dead": ("drbd", "drbd", "drbd", "drbd", "sharedfile"),
}
UNKNOWN = frozenset({"swift"})
"""Templates of which planners of models know nothing."""
OTHER_TEMPLATES = ("drbd", "drbd", "drbd", "drbd", "drbd", "sharedfile", "diskless", "rbd", "plain", "file")
ROOM = {"tight": 10, "reserve": 18, "room": 40, "balance": 48, "load": 48}
"""GiB of memory of a node, by theme."""


class Luck:
    """What happens by chance, from a seed."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def below(self, limit: int) -> int:
        """A number from 0 on."""
        return int(self._source.random() * limit)

    def between(self, least: int, most: int) -> int:
        """A number, both ends included."""
        return least + self.below(most - least + 1)

    def chance(self, share: float) -> bool:
        """Whether something happens that happens in this share of all cases."""
        return self._source.random() < share

    def pick(self, items: Sequence[Item]) -> Item:
        """One of several."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """All of several, in another order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


@dataclass(frozen=True)
class Heard:
    """What nodes (UUIDs) have reported, and the present."""

    tracks: Mapping[str, replicas.NodeTrack]

    @property
    def now(self) -> replicas.Moment:
        """The moment of each case."""
        return replicas.Moment(NOW)

    @property
    def offs(self) -> Mapping[str, replicas.Moment]:
        """Nobody has followed a clock."""
        return {}


@dataclass(frozen=True)
class Case:
    """A cluster and what a round knows beside its configuration.

    silent: nodes that did not answer; busy: what jobs under way are about; at_work: incidents with unfinished jobs;
    cpus: by node how many are busy. All are UUIDs.
    """

    number: int
    theme: str
    cluster: clusters.Cluster
    heard: Heard
    silent: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    at_work: Mapping[str, bool] = field(default_factory=dict)
    cpus: Mapping[str, float] = field(default_factory=dict)


def make(number: int) -> Case:
    """The case with this number."""
    theme = THEMES[number % len(THEMES)]
    luck = Luck(number)
    cluster = tables.read("\n".join(_Table(theme, luck).lines()))
    cluster = _grouped(cluster, theme, luck)
    cluster = _lived(cluster, theme, luck)
    cluster = _parted(cluster, theme, luck)
    cluster = _maintained(cluster, theme, luck)
    heard = _heard(cluster, luck)
    nodes, instances = list(cluster.nodes), list(cluster.instances)
    share = 0.05 if theme != "anything" else 0.15
    is_balanced = theme in {"balance", "load"}
    return Case(
        number=number,
        theme=theme,
        cluster=cluster,
        heard=heard,
        silent=tuple(uuid for uuid in nodes if luck.chance(share)),
        busy=tuple(uuid for uuid in (*nodes, *instances) if is_balanced and luck.chance(0.02)),
        at_work={
            entry.uuid: True
            for entry in cluster.maintenance.incidents
            if luck.chance(0.3 if theme == "going on" else 0.02)
        },
        cpus={uuid: luck.below(160) / 10 for uuid in nodes if theme != "load" or luck.chance(0.97)},
    )


class _Table:
    """The lines of a table (`tables.py`)."""

    def __init__(self, theme: str, luck: Luck) -> None:
        self._theme, self._luck = theme, luck
        self._groups = luck.between(2, 3) if theme == "groups" or luck.chance(0.2) else 1
        self._count = luck.between(3 * self._groups, 4 * self._groups + 2)
        self._group = {number: f"g{number * self._groups // self._count + 1}" for number in range(self._count)}
        self._free = dict.fromkeys(range(self._count), 1024 * ROOM.get(theme, 20))

    def lines(self) -> list[str]:
        """All lines."""
        nodes = [self._node(number) for number in range(self._count)]
        least, most = (2, 3) if self._theme in {"balance", "load"} else (1, 3)
        count = self._luck.between(least * self._count, most * self._count)
        instances = [self._instance(number + 1) for number in range(count)]
        return [*nodes, *instances, *self._tags(), *self._incidents(), f"settings {' '.join(self._settings())}"]

    def _node(self, number: int) -> str:
        luck, theme = self._luck, self._theme
        memory = self._free[number] if luck.chance(0.7) else self._free[number] * 2
        self._free[number] = memory
        disk = luck.pick((30, 60, 90, 160) if theme == "tight" else (200, 400)) * 1024
        words = [f"node{number + 1}", str(memory), str(disk), f"group={self._group[number]}"]
        words += ["own=1024"] if luck.chance(0.5) else []
        words += [f"cpus={luck.pick((1, 2, 4))}"] if theme == "tags" or luck.chance(0.1) else []
        words += [f"tags=kernel:{luck.between(1, 2)}"] if theme == "tags" else []
        bmc = 0.7 if theme in {"power", "dead"} else 0.3
        words += ["oob"] if luck.chance(bmc) else []
        if number and luck.chance(0.15):
            words.append(luck.pick(("drained", "offline", "incapable", "unpowered", "drained", "offline")))
        words += ["master"] if number == 0 else []
        return " ".join(words)

    def _instance(self, number: int) -> str:
        luck = self._luck
        template = luck.pick(TEMPLATES.get(self._theme, OTHER_TEMPLATES))
        if self._theme in {"balance", "load"} and luck.chance(0.01):
            template = "swift"
        memory = luck.pick((512, 1024, 1024, 2048, 2048, 4096))
        words = [f"instance{number}", template, str(memory), str(1024 * luck.pick((1, 5, 10, 10, 20, 40)))]
        words += [f"node{entry + 1}" for entry in self._place(memory, template)]
        words += ["down"] if luck.chance(0.12) else []
        odd = 0.25 if self._theme == "immovable" else 0.03
        words += ["adopted"] if luck.chance(odd) else []
        words += ["migratable=no"] if luck.chance(odd) else []
        words += [f"vcpus={luck.between(1, 4)}"]
        words += [f"tags={luck.pick(('dns-a', 'dns-b', 'web'))}"] if luck.chance(0.3) else []
        return " ".join(words)

    def _place(self, memory: int, template: str) -> list[int]:
        """The numbers of its nodes: mostly where its memory fits, and mostly of one group."""
        luck = self._luck
        first = luck.below(self._count)
        for _ in range(4):
            if self._free[first] >= memory or self._theme == "tight":
                break
            first = luck.below(self._count)
        self._free[first] -= memory
        if template != "drbd" or luck.chance(0.02):
            return [first]
        is_split = luck.chance(0.2 if self._theme in {"groups", "immovable"} else 0.02)
        others = [entry for entry in self._group if entry != first]
        near = [entry for entry in others if (self._group[entry] == self._group[first]) is not is_split]
        return [first, luck.pick(near or others)]

    def _tags(self) -> list[str]:
        if self._theme != "tags":
            return ["tags htools:iextags:dns-a"] if self._luck.chance(0.1) else []
        known = "htools:iextags:dns htools:migration:kernel htools:allowmigration:kernel:1::kernel:2"
        return [f"tags {known}"]

    def _incidents(self) -> list[str]:
        luck, theme = self._luck, self._theme
        counts = {"storm": (2, 4), "balance": (0, 1), "load": (0, 1), "held": (1, 2)}
        least, most = counts.get(theme, (1, 3))
        nodes = luck.shuffled(range(self._count))[: luck.between(least, most)]
        rows: list[str] = []
        for number in nodes:
            for _ in range(2 if luck.chance(0.4 if theme == "repairs" else 0.08) else 1):
                rows.append(self._incident(len(rows) + 1, number))
        return rows

    def _incident(self, place: int, node: int) -> str:
        luck, theme = self._luck, self._theme
        actions = {
            "repairs": ("live-repair", "live-repair", "live-repair", "evacuate", "evacuate-failover"),
            "dead": ("evacuate-failover", "evacuate-failover", "evacuate"),
            "storm": ("evacuate", "evacuate-failover"),
        }
        action = luck.pick(actions.get(theme, ("evacuate", "evacuate", "evacuate-failover", "live-repair")))
        over = {
            "going on": ("pending", "pending", "noted", "noted", "failed"),
            "balance": ("failed", "completed", "noted"),
        }
        statuses = over.get(theme, ("noted",) * 16 + ("pending", "failed", "completed", "canceled"))
        command = f" command={luck.pick(('fix-disk', 'reseat'))}" if luck.chance(0.8) else ""
        status = luck.pick(statuses)
        return f"incident a{place} node{node + 1} {action} {status} {luck.between(1, 9)}00{command}"

    def _settings(self) -> list[str]:
        luck, theme = self._luck, self._theme
        words = [f"moves_per_node={luck.pick((1, 2, 4))}"]
        words += ["storm_minimum=2"] if theme == "storm" else ["storm_minimum=99"] if luck.chance(0.8) else []
        words += [f"capacity_reserve={luck.pick((1, 5, 20))}"] if theme == "reserve" else []
        words += ["power_off_evacuated=yes"] if theme == "power" or luck.chance(0.1) else []
        return words


def _grouped(cluster: clusters.Cluster, theme: str, luck: Luck) -> clusters.Cluster:
    """Some groups take no new instances, or only where no other does."""
    if theme != "groups":
        return cluster
    policies = ("preferred", "preferred", "preferred", "last_resort", "unallocable")
    groups = {
        uuid: dataclasses.replace(entry, alloc_policy=luck.pick(policies)) for uuid, entry in cluster.nodegroups.items()
    }
    return dataclasses.replace(cluster, nodegroups=groups)


def _lived(cluster: clusters.Cluster, theme: str, luck: Luck) -> clusters.Cluster:
    """Of a node that is evacuated by a failover the power is off, or a person said so, or it lives after that."""
    asking = [entry for entry in cluster.maintenance.incidents if entry.action.value == "evacuate-failover"]
    for entry in asking:
        node = cluster.nodes[entry.node]
        off = NOW - luck.pick((20, 60, 300))
        kind = luck.pick(("off", "off", "stated", "lived", "on", "on")) if theme == "dead" or luck.chance(0.2) else "on"
        if kind in {"off", "lived"}:
            fields: dict[str, object] = {"powered": False, "off_since": off, "ndparams": {"oob_program": "/oob"}}
        else:
            fields = {"off_confirmed": off, "off_since": off} if kind == "stated" else {}
        if kind == "lived" or (kind == "stated" and luck.chance(0.3)):
            fields["alive_at"] = off + 10
        cluster = clusters.with_node(cluster, dataclasses.replace(node, **fields))  # type: ignore[arg-type]
    return cluster


def _parted(cluster: clusters.Cluster, theme: str, luck: Luck) -> clusters.Cluster:
    """Some pairs are apart, and of some a new replica is being made."""
    share, left = 0.15 if theme in {"dead", "going on", "power"} else 0.05, []
    for entry in cluster.instances.values():
        if entry.disk_template != "drbd" or not entry.secondary_nodes:
            continue
        if luck.chance(share):
            parted = replicas.Parted(NOW - 500, luck.pick((0.0, NOW - 600)), entry.primary_node, ("10a0",))
            cluster = clusters.with_instance(cluster, dataclasses.replace(entry, parted=parted))
        elif luck.chance(share):
            others = [uuid for uuid in cluster.nodes if uuid not in entry.nodes]
            left.append(clusters.LeftBehind(luck.pick(others), entry, NOW - 400, is_new=luck.chance(0.7)))
    return dataclasses.replace(cluster, maintenance=dataclasses.replace(cluster.maintenance, left_behind=tuple(left)))


def _maintained(cluster: clusters.Cluster, theme: str, luck: Luck) -> clusters.Cluster:
    """The settings that tables have no word for, dead nodes' incidents, a pause, an emergency power off."""
    found, settings = cluster.maintenance, cluster.maintenance.settings
    if theme in {"balance", "load"} or luck.chance(0.03):
        settings = dataclasses.replace(
            settings,
            balance=True,
            balance_disk_moves=luck.chance(0.6),
            balance_threshold=luck.pick((0.0, 0.1, 0.5)),
            balance_dynamic_load=theme == "load",
        )
    if theme == "held" and luck.chance(0.5):
        settings = dataclasses.replace(settings, paused=luck.pick(("a move of racks", "new switches")))
    if (theme == "held" and not settings.paused) or (theme == "power" and luck.chance(0.2)):
        nodes = tuple(uuid for uuid in cluster.nodes if luck.chance(0.6))
        instances = tuple(uuid for uuid, entry in cluster.instances.items() if entry.primary_node in nodes)
        stands = epo.Epo(nodes, instances, by="ops", since=NOW - 900, returning=luck.chance(0.4))
        found = dataclasses.replace(found, epo=stands)
    incidents = tuple(
        dataclasses.replace(entry, original=dead_nodes.report(cluster.nodes[entry.node]).original)
        if entry.action.value == "evacuate-failover" and luck.chance(0.6 if theme == "dead" else 0.1)
        else entry
        for entry in found.incidents
    )
    return dataclasses.replace(cluster, maintenance=dataclasses.replace(found, settings=settings, incidents=incidents))


def _heard(cluster: clusters.Cluster, luck: Luck) -> Heard:
    """What the nodes have reported of replicas: mostly that all was in sync until the end."""
    tracks = {}
    for node in cluster.nodes.values():
        if luck.chance(0.97):
            luck.pick((30, 60, 60, 400))
        if luck.chance(0.05):
            continue
        volumes: dict[replicas.Volume, replicas.Track] = {}
        for entry in cluster.instances.values():
            if node.uuid in entry.nodes and not luck.chance(0.04):
                role = Role.PRIMARY if node.uuid == entry.primary_node else Role.SECONDARY
                volumes |= {(name, 0): _track(name, role, luck) for name in replica_evidence.resources(entry)}
        at = replicas.Moment(NOW - luck.pick((30, 60)))
        tracks[node.uuid] = replicas.NodeTrack(at, is_known=luck.chance(0.95), volumes=volumes)
    return Heard(tracks)


def _track(resource: str, role: Role, luck: Luck) -> replicas.Track:
    disks = (*(Disk.UP_TO_DATE,) * 8, Disk.OUTDATED, Disk.INCONSISTENT)
    generations = (*(GENERATION,) * 8, GENERATION + 0x20, None)
    connection = Connection.CONNECTING if luck.chance(0.7) else Connection.CONNECTED
    fact = replicas.ReplicaFact(
        resource, 0, role, connection, luck.pick(disks), Disk.UNKNOWN, luck.pick(generations), GENERATION
    )
    in_sync = None if luck.chance(0.1) else replicas.Moment(NOW - luck.pick((30, 60, 60, 60, 900)))
    apart = replicas.Moment(NOW - luck.pick((10, 20, 500))) if luck.chance(0.2) else None
    still_apart = replicas.Moment(NOW - 10) if apart is not None and luck.chance(0.3) else None
    return replicas.Track(None if luck.chance(0.05) else fact, in_sync, GENERATION, apart, still_apart)
