"""A cluster as the planner's peers see it: what is placed, on what, under which policies (Ganeti's htools).

Memory and disk are in MiB. Nodes and instances name each other by name, nodes their group by UUID, as the text format
of htools does; a source of the model (text, allocator request, configuration) makes these values, nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

OFFLINE = "ADMIN_offline"
STOPPED = frozenset({OFFLINE, "ADMIN_down", "USER_down", "ERROR_down"})


class AllocPolicy(Enum):
    """Whether new instances may go to a group; the order is the order of preference."""

    PREFERRED = "preferred"
    LAST_RESORT = "last_resort"
    UNALLOCABLE = "unallocable"


class Template(Enum):
    """How an instance keeps its disks."""

    DISKLESS = "diskless"
    FILE = "file"
    SHAREDFILE = "sharedfile"
    PLAIN = "plain"
    BLOCKDEV = "blockdev"
    DRBD = "drbd"
    RBD = "rbd"
    EXT = "ext"
    GLUSTER = "gluster"

    @property
    def is_local(self) -> bool:
        """Whether the disks are on the instance's own nodes and take their space."""
        return self in {Template.PLAIN, Template.FILE, Template.DRBD}

    @property
    def is_on_volumes(self) -> bool:
        """Whether its disks are volumes of the node, what the text format counts as disk; files are not."""
        return self in {Template.PLAIN, Template.DRBD}

    @property
    def is_movable(self) -> bool:
        """Whether another node can take an instance over without copying its disks there first, or has a replica."""
        return self.is_mirrored or self.is_shared

    @property
    def can_leave(self) -> bool:
        """Whether an instance can leave its node; one without disks can, though balancing (hbal) lets it alone."""
        return self.is_movable or self is Template.DISKLESS

    @property
    def is_mirrored(self) -> bool:
        """Whether a second node keeps a replica."""
        return self is Template.DRBD

    @property
    def is_shared(self) -> bool:
        """Whether every node of the group reaches the disks."""
        return self in {Template.SHAREDFILE, Template.BLOCKDEV, Template.RBD, Template.EXT, Template.GLUSTER}


@dataclass(frozen=True)
class Spec:
    """The size of one instance: memory and disk in MiB, the rest counts."""

    memory: int
    vcpus: int
    disk: int
    disks: int = 1
    nics: int = 1
    spindle_use: int = 1


@dataclass(frozen=True)
class Policy:
    """Which instances are allowed, in pairs of min and max, and how far CPUs and spindles are overcommitted."""

    std: Spec = Spec(128, 1, 1024)
    bounds: tuple[tuple[Spec, Spec], ...] = ((Spec(128, 1, 1024), Spec(32768, 8, 1048576, 16, 8, 12)),)
    templates: tuple[Template, ...] = tuple(Template)
    vcpu_ratio: float = 4.0
    spindle_ratio: float = 32.0


@dataclass(frozen=True)
class Group:
    """A node group; without a policy of its own it has the built-in one."""

    name: str
    uuid: str
    alloc_policy: AllocPolicy = AllocPolicy.PREFERRED
    tags: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    policy: Policy = Policy()


@dataclass(frozen=True)
class Node:
    """A node: `t_`, `n_`, `f_` are total, the node's own and free; `offline` also stands for drained and unreachable.

    `is_known` is false when its numbers could not be read: it takes nothing, as if offline.
    """

    name: str
    group: str
    t_mem: float
    n_mem: int
    f_mem: int
    t_disk: float
    f_disk: int
    pcpus: float
    offline: bool = False
    master: bool = False
    spindles: int = 1
    tags: tuple[str, ...] = ()
    exclusive_storage: bool = False
    free_spindles: int = 0
    os_vcpus: int = 1
    cpu_speed: float = 1.0
    is_known: bool = True


@dataclass(frozen=True)
class Load:
    """How much an instance uses of what is not allotted; without measurements each instance counts as one."""

    cpu: float = 1.0
    memory: float = 1.0
    disk: float = 1.0
    net: float = 1.0


@dataclass(frozen=True)
class Instance:
    """An instance, its primary and, or "", its secondary; `status` is Ganeti's (running, ADMIN_down, ...).

    `networks` are those that its group has to be connected to, named as the group's.
    """

    name: str
    memory: int
    disk: int
    vcpus: int
    status: str
    auto_balance: bool
    primary: str
    secondary: str = ""
    template: Template = Template.DRBD
    tags: tuple[str, ...] = ()
    spindle_use: int = 1
    spindles: int | None = None
    forthcoming: bool = False
    load: Load = Load()
    networks: tuple[str, ...] = ()

    @property
    def is_offline(self) -> bool:
        """Whether it is set offline: it may not start, and counts neither vcpus nor reserved memory."""
        return self.status == OFFLINE

    @property
    def takes_memory(self) -> bool:
        """Whether it runs, or should: forthcoming and stopped instances take none."""
        return self.status not in STOPPED and not self.forthcoming

    @property
    def reserves_memory(self) -> bool:
        """Whether its secondary keeps memory for it, even if it is stopped."""
        return self.auto_balance and not self.is_offline and not self.forthcoming


@dataclass(frozen=True)
class Model:
    """Groups, nodes and instances in the order of their source, the cluster's tags and its own policy."""

    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    instances: tuple[Instance, ...] = ()
    tags: tuple[str, ...] = ()
    policy: Policy = Policy()
