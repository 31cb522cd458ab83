"""What a disk template is asked and answers: whose disks they are, what they shall be on this node, what they are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple

from ..domain.disks.replacements import Node
from ..domain.values import errors
from . import drbd_sides

if TYPE_CHECKING:
    from ..domain.disks.drbd import Generation

UUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


DISK: Dict[str, Any] = {
    "size": {"type": "int", "required": True},
    "name": {"type": "str", "default": ""},
    "minor": {"type": "int"},
}
"""The options of one disk."""
END: Dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "node_id": {"type": "int"},
    "uuid": {"type": "str"},
}
"""The options of a node that has a replica."""


class State(Enum):
    """What the disks of an instance shall be on this node."""

    PRESENT = "present"
    ACTIVE = "active"
    SHARED = "shared"
    STANDBY = "standby"
    UP = "up"
    DISCONNECTED = "disconnected"
    ABSENT = "absent"
    INFO = "info"


@dataclass(frozen=True)
class Disk:
    """A disk that is asked for; `size` in MiB, `name` that of an adopted one, `minor` the number of a DRBD device."""

    size: int
    name: str = ""
    minor: Optional[int] = None


@dataclass(frozen=True)
class End:
    """A node of a replicated disk; `node_id` is DRBD 9's number of it."""

    name: str
    address: str
    node_id: Optional[int] = None


@dataclass(frozen=True)
class Disks:
    """The disks of an instance; those without a name are called after its UUID.

    The `secret` is for a new pair: nodes that are a pair already keep the one that they have, unless `new_secret`. One
    that is changed on one node only parts them.

    `alone` says that a replica may become primary without its peer, `last` that one may be removed although no other is
    known to be in sync: whoever asks for that has checked it. `force` says that one which is whole, though it may be
    old, may become primary without its peer: a person has given up what the peer wrote. `generations` has their
    identifiers read.
    """

    instance: str
    uuid: str
    disks: Tuple[Disk, ...]
    vg: str = ""
    file_dir: str = ""
    here: Optional[End] = None
    peer: Optional[End] = None
    secret: str = ""
    new_secret: bool = False
    alone: bool = False
    force: bool = False
    last: bool = False
    generations: bool = False

    def own_name(self, number: int, kind: str) -> str:
        """What Roundsman calls a disk that it made: `<uuid>.disk<N>`, or `.meta<N>`.

        Raises:
            InvalidInput: the instance's UUID cannot be part of a name.
        """
        if not UUID.fullmatch(self.uuid):
            raise errors.InvalidInput(f"{self.instance}: {self.uuid!r} is no UUID, after which its disks are named")
        return f"{self.uuid}.{kind}{number}"


@dataclass(frozen=True)
class LocalDisk:
    """One disk as it is on this node: its path, its size in MiB (None: it is not there), and whether it is in sync.

    `trouble` is what keeps a replica that is not in sync from ever becoming so. Of a replica that is up `role`, `disk`
    and `peer_disk` are DRBD's words; they are '' where there is none, and `peer` and `peer_address` are the node that
    its file names and that node's address. `generation` is read where that was asked for. `seen` is how many seconds
    ago the replica was last seen in sync with a peer, by the peer's address. `out_of_sync` is what DRBD has noted to
    differ (KiB).
    """

    path: str
    size: Optional[float] = None
    is_synced: bool = True
    progress: float = 100.0
    text: str = ""
    trouble: str = ""
    node_id: Optional[int] = None
    role: str = ""
    disk: str = ""
    peer_disk: str = ""
    is_connected: bool = False
    peer: str = ""
    generation: Optional[Generation] = None
    peer_address: str = ""
    seen: Mapping[str, float] = field(default_factory=dict)
    out_of_sync: Optional[int] = None


@dataclass(frozen=True)
class Step:
    """Something to do, said before it is done."""

    text: str
    act: Callable[[], object]


class Storage(Protocol):
    """What every disk template can do with the disks of one instance on its own node."""

    def steps(self, wanted: State) -> List[Step]:
        """What makes the disks what they shall be; nothing if they are.

        Raises:
            Refused: a rule is against it; nothing was done.
        """

    def local_disks(self) -> List[LocalDisk]:
        """The disks as they are."""


def of_options(given: Mapping[str, Any]) -> Disks:
    """The disks that the options of a module describe."""
    return Disks(
        instance=given["instance"],
        uuid=given["uuid"],
        disks=tuple(Disk(disk["size"], disk.get("name") or "", disk.get("minor")) for disk in given["disks"]),
        vg=given["vg"],
        file_dir=given["file_dir"],
        here=_end(given["here"]),
        peer=_end(given["peer"]),
        secret=given["secret"],
        new_secret=given.get("new_secret", False),
        alone=given.get("alone", False),
        force=given.get("force", False),
        last=given.get("last", False),
        generations=given.get("generations", False),
    )


def as_result(found: List[LocalDisk]) -> Dict[str, Any]:
    """What a module returns of the disks."""
    return {
        "present": all(disk.size is not None for disk in found),
        "devices": [disk.path for disk in found],
        "disks": [
            {
                "path": disk.path,
                "size": disk.size,
                "synced": disk.is_synced,
                "progress": disk.progress,
                "text": disk.text,
                "trouble": disk.trouble,
                "role": disk.role,
                "disk": disk.disk,
                "peer_disk": disk.peer_disk,
                "connected": disk.is_connected,
                "peer": disk.peer,
                "peer_address": disk.peer_address,
                "seen": dict(disk.seen),
                "generation": drbd_sides.encode_generation(disk.generation),
                "out_of_sync": disk.out_of_sync,
            }
            for disk in found
        ],
        "synced": all(disk.is_synced for disk in found),
        "progress": min((disk.progress for disk in found), default=100.0),
        "node_id": next((disk.node_id for disk in found if disk.node_id is not None), None),
    }


def as_node(name: str, told: Optional[Sequence[Mapping[str, Any]]]) -> Node:
    """A node with what `as_result` told of its disks; without replicas where that is missing or not understood."""
    replicas = None if told is None else drbd_sides.decode_replicas(told)
    return Node(name, replicas, "" if replicas is not None else drbd_sides.NOT_UNDERSTOOD)


def _end(given: Optional[Mapping[str, Any]]) -> Optional[End]:
    return None if given is None else End(given["name"], given["address"], given.get("node_id"))
