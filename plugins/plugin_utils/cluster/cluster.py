"""The cluster as a value: its parameters, groups, nodes, instances and the state of its maintenance.

Field names are Ganeti's. Memory and disk are in MiB, times in unix seconds; objects refer to each other by UUID.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, FrozenSet, Iterable, Mapping, Optional, Union

from ...module_utils.domain.disks import replicas  # noqa: TC001 - pydantic reads the annotations at run time
from ...module_utils.domain.values import errors
from ..values import natural_order
from . import epo as epo_rules
from . import incidents as incident_rules
from . import job_filters
from .maintenance_settings import Settings as Settings  # noqa: PLC0414 - a part of the cluster's value like the others

VERSION = 2
UNFINISHED = "roundsman:unfinished"
"""The tag of an instance that is being made, or whose making broke off."""
natural = natural_order.key


class Role(Enum):
    """What a node is for the cluster: exactly one of these."""

    MASTER = "master"
    CANDIDATE = "candidate"
    DRAINED = "drained"
    OFFLINE = "offline"
    REGULAR = "regular"


NodeParameter = Union[bool, int, float, str]


@dataclass(frozen=True)
class Parameters:
    """The cluster's own entry; `max_running_jobs` limits the opcodes at work, 0 leaves it to the master's size.

    `ipolicy` is what is set of the instance policy (`instance_policy.py`). The four fields below it are limits of new
    instances: memory and disk (MiB) and vcpus of the largest, their disk template, vcpus for each CPU, the share of a
    node's disk that may be in use; None is not set (seed 004). `failover_max_loss`: seconds (`possible_loss.py`). Disks
    are volumes of `vg_name`, or files in the two folders; `primary_ip_version` is 4 or 6 (seed 004, "IPv6 support").
    """

    cluster_name: str
    uuid: str
    master_node: str
    candidate_pool_size: int = 10
    max_running_jobs: int = 0
    ndparams: Mapping[str, NodeParameter] = field(default_factory=dict)
    ipolicy: Mapping[str, Any] = field(default_factory=dict)
    max_inst_spec: Optional[tuple[int, int, int]] = None
    default_template: Optional[str] = None
    max_cpu_ratio: Optional[float] = None
    max_disk_usage: Optional[float] = None
    failover_max_loss: Optional[int] = None
    vg_name: str = "roundsman"
    file_storage_dir: str = "/var/lib/roundsman/disks"
    shared_file_storage_dir: str = "/srv/roundsman/disks"
    primary_ip_version: int = 4
    default_iallocator: str = ""
    tags: tuple[str, ...] = ()
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0


@dataclass(frozen=True)
class Group:
    """A node group: instances keep their nodes within it.

    `networks` are the names of those its nodes are connected to; policy and limits as the cluster's, where it has none.
    """

    uuid: str
    name: str
    alloc_policy: str = "preferred"
    networks: tuple[str, ...] = ()
    ndparams: Mapping[str, NodeParameter] = field(default_factory=dict)
    ipolicy: Mapping[str, Any] = field(default_factory=dict)
    max_inst_spec: Optional[tuple[int, int, int]] = None
    default_template: Optional[str] = None
    max_cpu_ratio: Optional[float] = None
    max_disk_usage: Optional[float] = None
    failover_max_loss: Optional[int] = None
    tags: tuple[str, ...] = ()
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0


@dataclass(frozen=True)
class Node:
    """A virtualization node.

    `mtotal`, `mnode`, `dtotal` are its memory, the memory it keeps for itself and its disk (MiB), `ctotal` its CPUs;
    `powered` is the power state of record; `off_confirmed` is since when a person, `off_stated_by`, stated that it has
    no power, which its BMC could not say (unix seconds, 0 is never); `off_since` is when it was first known to be off,
    0 while it is not; `off_read` says that its BMC only read off, without a command; `powered_on_at` is when it was
    powered on, 0 where that is not known or it is off since; `alive_at` is when its BMC, or a connection to it, last
    showed that it lives, reports and polls not counted. `hostvars` are the Ansible variables with which it is reached.
    """

    uuid: str
    name: str
    group: str
    primary_ip: str = ""
    secondary_ip: str = ""
    mtotal: int = 0
    mnode: int = 0
    dtotal: int = 0
    ctotal: int = 0
    master_candidate: bool = False
    master_capable: bool = True
    vm_capable: bool = True
    drained: bool = False
    offline: bool = False
    powered: bool = True
    off_confirmed: float = 0.0
    off_stated_by: str = ""
    off_read: bool = False
    off_since: float = 0.0
    powered_on_at: float = 0.0
    alive_at: float = 0.0
    ndparams: Mapping[str, NodeParameter] = field(default_factory=dict)
    hostvars: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0


@dataclass(frozen=True)
class Disk:
    """One disk of an instance; `size` in MiB, `spindles` what it has of a node's on exclusive storage.

    `name` is what an adopted disk is called on its nodes (a DRBD resource, a volume `vg/lv`, a path), "" for one that
    Roundsman made and named. `minor` is the number of a DRBD device, one in the cluster; its port follows from it.
    """

    size: int
    spindles: Optional[int] = None
    name: str = ""
    minor: Optional[int] = None


@dataclass(frozen=True)
class Nic:
    """A network interface of an instance: its network's name, its address, the bridge it is on; "" for none."""

    network: str = ""
    mac: str = ""
    link: str = ""


@dataclass(frozen=True)
class Instance:
    """An instance, the node it runs on and, with replicated disks, its secondary replica; parameters are Ganeti's.

    `parted` stands from the first report that its running primary lost its secondary until both report in sync again.
    `moving` is the node (UUID) to which a migration may have taken it that has not ended, and was not looked for.
    """

    uuid: str
    name: str
    primary_node: str
    secondary_nodes: tuple[str, ...] = ()
    disk_template: str = "drbd"
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()
    memory: int = 0
    vcpus: int = 1
    auto_balance: bool = True
    spindle_use: int = 1
    hypervisor: str = "kvm"
    admin_state: str = "up"
    hvparams: Mapping[str, str] = field(default_factory=dict)
    parted: Optional[replicas.Parted] = None
    moving: str = ""
    tags: tuple[str, ...] = ()
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.primary_node, *self.secondary_nodes)

    @property
    def places(self) -> tuple[str, ...]:
        """The nodes (UUIDs) where it may run: its primary, and where a migration that has not ended was to take it."""
        return (self.primary_node, self.moving) if self.moving else (self.primary_node,)

    def may_run_on(self, node: str) -> bool:
        """Whether it shall run and may run on this node (UUID); one that is moving may run, whatever its state."""
        return node in self.places and (self.is_up or bool(self.moving))

    @property
    def disk_size(self) -> int:
        return sum(disk.size for disk in self.disks)

    @property
    def adopted_disks(self) -> tuple[str, ...]:
        """The names of its disks that were adopted: Roundsman uses them, and neither makes nor removes them."""
        return tuple(disk.name for disk in self.disks if disk.name)

    @property
    def is_up(self) -> bool:
        return self.admin_state == "up"

    @property
    def is_unfinished(self) -> bool:
        """Whether it has not come to the end of its making: its disks may not be there, its memory is kept for it."""
        return UNFINISHED in self.tags

    @property
    def takes_memory(self) -> bool:
        """Whether memory of its primary is its own: it is up, or will be as soon as it is made."""
        return self.is_up or self.is_unfinished

    @property
    def is_bound(self) -> bool:
        """Whether it runs and can never migrate live: only a failover moves it."""
        return self.is_up and self.hvparams.get("migratable") in {"no", "false"}


@dataclass(frozen=True)
class LeftBehind:
    """A replica on a node (UUID) that is none of its instance's, since a time (unix seconds).

    `instance` is the instance as it was then. It was given up while the node did not answer; one that `is_new` is being
    made by a replacement of disks that has not ended, and the instance's primary may write to it instead of to its
    secondary. With such a one `generations` are those of the secondary's replicas, by disk, when the primary was known
    to have all of their data: 16 hex digits each, without the role's bit; empty where that is not known.
    """

    node: str
    instance: Instance
    since: float
    is_new: bool = False
    generations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Maintenance:
    """The state of maintenance: settings, incidents, the round at work, an emergency power off, left replicas."""

    settings: Settings = field(default_factory=Settings)
    incidents: tuple[incident_rules.Incident, ...] = ()
    round: int = 0
    jobs: tuple[int, ...] = ()
    epo: Optional[epo_rules.Epo] = None
    left_behind: tuple[LeftBehind, ...] = ()
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0

    @property
    def is_held(self) -> bool:
        """Whether nothing is begun unasked: maintenance is paused, or an emergency power off stands."""
        return self.epo is not None or bool(self.settings.paused)


@dataclass(frozen=True)
class Cluster:
    """Everything that the configuration holds."""

    cluster: Parameters
    nodegroups: Mapping[str, Group] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    instances: Mapping[str, Instance] = field(default_factory=dict)
    maintenance: Maintenance = field(default_factory=Maintenance)
    filters: Mapping[str, job_filters.Filter] = field(default_factory=dict)
    version: int = VERSION
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0

    def node(self, name: str) -> Node:
        """The node with this name or UUID."""
        found = self.nodes.get(name) or next((node for node in self.nodes.values() if node.name == name), None)
        if found is None:
            raise errors.NotFound(f"there is no node {name!r}")
        return found

    def group(self, name: str) -> Group:
        """The node group with this name or UUID."""
        found = self.nodegroups.get(name) or next(
            (group for group in self.nodegroups.values() if group.name == name), None
        )
        if found is None:
            raise errors.NotFound(f"there is no node group {name!r}")
        return found

    def instance(self, name: str) -> Instance:
        """The instance with this name or UUID."""
        found = self.instances.get(name) or next(
            (instance for instance in self.instances.values() if instance.name == name), None
        )
        if found is None:
            raise errors.NotFound(f"there is no instance {name!r}")
        return found

    def incident(self, uuid: str) -> incident_rules.Incident:
        """The incident with this UUID, or with the one UUID that starts so (at least 4 characters)."""
        return incident_rules.named(self.maintenance.incidents, uuid)

    def node_name(self, uuid: str) -> str:
        """The name of a node, or its UUID when it has left the cluster."""
        return self.nodes[uuid].name if uuid in self.nodes else uuid

    def primaries(self, node: str) -> list[Instance]:
        """The instances whose primary is this node (UUID), by name."""
        return _by_name(instance for instance in self.instances.values() if instance.primary_node == node)

    def secondaries(self, node: str) -> list[Instance]:
        """The instances that keep a secondary replica on this node (UUID), by name."""
        return _by_name(instance for instance in self.instances.values() if node in instance.secondary_nodes)

    def possibly_running(self, node: str) -> list[Instance]:
        """The instances that shall run and may run on this node (UUID), by name."""
        return _by_name(instance for instance in self.instances.values() if instance.may_run_on(node))

    def held(self, node: str) -> list[Instance]:
        """The instances with a replica on this node (UUID), and those that may run there, by name."""
        return _by_name(instance for instance in self.instances.values() if node in (*instance.nodes, *instance.places))


@dataclass(frozen=True)
class Observed(Cluster):
    """A cluster as plans are made for it: with what is known of its nodes beside the configuration.

    `silent` are the nodes (UUIDs) that did not answer when they were last asked. It is never written.
    """

    silent: FrozenSet[str] = frozenset()


Object = Union[Parameters, Group, Node, Instance]


def _by_name(found: object) -> list[Instance]:
    return sorted(found, key=lambda instance: natural(instance.name))  # type: ignore[call-overload, no-any-return]


def role(cluster: Cluster, node: Node) -> Role:
    """A node's role: master before all, then offline, drained, candidate, regular."""
    if node.uuid == cluster.cluster.master_node:
        return Role.MASTER
    if node.offline:
        return Role.OFFLINE
    if node.drained:
        return Role.DRAINED
    return Role.CANDIDATE if node.master_candidate else Role.REGULAR


def inherited(cluster: Cluster, node: Node, name: str) -> Optional[NodeParameter]:
    """A node parameter as it was set, inherited node → group → cluster; None where nobody set it."""
    sources = [node.ndparams, cluster.nodegroups[node.group].ndparams, cluster.cluster.ndparams]
    return next((source[name] for source in sources if name in source), None)


def parameter(cluster: Cluster, node: Node, name: str) -> Optional[str]:
    """A node parameter that is a text; `!` or an empty string opts out (seed 001)."""
    value = inherited(cluster, node, name)
    return None if value in {None, "", "!"} else str(value)


def reachable(cluster: Cluster, node: Node) -> bool:
    """Whether anything but its BMC may contact a node: not offline, and powered, or without OOB and not stated off."""
    return not node.offline and may_have_power(cluster, node)


def may_have_power(cluster: Cluster, node: Node) -> bool:
    """Whether a node is neither recorded as powered off, which counts where it has OOB, nor stated to be off."""
    return not node.off_confirmed and (node.powered or parameter(cluster, node, "oob_program") is None)


def observed(cluster: Cluster, *, silent: Iterable[str]) -> Cluster:
    """The cluster as it is planned for, of which these nodes (UUIDs) did not answer when they were last asked."""
    known = {attribute.name: getattr(cluster, attribute.name) for attribute in dataclasses.fields(Cluster)}
    return Observed(**known, silent=frozenset(silent))


def is_silent(cluster: Cluster, node: Node) -> bool:
    """Whether it is known of an observed cluster that a node did not answer when it was last asked."""
    return isinstance(cluster, Observed) and node.uuid in cluster.silent


def answers(cluster: Cluster, node: Node) -> bool:
    """Whether a node may be contacted, and is not known to be silent."""
    return reachable(cluster, node) and not is_silent(cluster, node)


def with_node(cluster: Cluster, node: Node) -> Cluster:
    return dataclasses.replace(cluster, nodes={**cluster.nodes, node.uuid: node})


def with_instance(cluster: Cluster, instance: Instance) -> Cluster:
    return dataclasses.replace(cluster, instances={**cluster.instances, instance.uuid: instance})
