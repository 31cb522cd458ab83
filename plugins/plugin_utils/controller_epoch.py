"""The epoch in which this controller leads: a file beside the configuration, which each step on a node names.

The file says where it was written, so that a copy of it in another folder or on another machine is known as one: its
epoch is that of another controller.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..module_utils.domain.agent import epochs
from ..module_utils.domain.values import errors
from . import durable_files, sealed_json, unsynced
from .cluster import locks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..module_utils.domain.values import tree
    from .cluster import cluster as clusters

OFFERED = 100
"""How many offers in vain are kept."""
MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True)
class Record:
    """What the file says: the order that each step names, and the epochs that were offered to nodes since, in vain.

    `order` is None until nodes have promised to follow an epoch of this controller, which happened in `boot`. `place`
    is where the file was written. `voters` are the nodes (UUIDs) that have voted: one of them on which no agent listens
    any more counts as silent, others cannot vote yet. `waits` are the nodes (UUIDs) on which steps of a controller that
    led before this one may still be at work. `boots` are the boot ids by node (UUID) in which nodes do what it orders.
    """

    order: epochs.Order | None
    offered: tuple[epochs.Epoch, ...]
    place: str
    boot: str
    voters: frozenset[str] = frozenset()
    waits: frozenset[str] = frozenset()
    boots: Mapping[str, str] = field(default_factory=dict)

    @property
    def highest(self) -> epochs.Epoch | None:
        """The highest epoch that the file names, whose ever it is."""
        return max(self._named, key=lambda epoch: epoch.number, default=None)

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the epochs that the file names."""
        return frozenset(epoch.id for epoch in self._named)

    @property
    def _named(self) -> list[epochs.Epoch]:
        return [*self.offered, *([self.order.epoch] if self.order is not None else [])]


def place(where: tree.Tree) -> str:
    """A name for this machine and this folder, which no copy of the folder elsewhere has."""
    try:
        machine = MACHINE_ID.read_text().strip()
    except OSError:
        machine = ""
    return hashlib.sha256(f"{machine}\0{where.root.resolve()}".encode()).hexdigest()


def load(where: tree.Tree, node: str = "") -> epochs.Order | None:
    """What each step on a node (UUID) names; None where no start of this controller had an epoch yet.

    Raises:
        StoreFailed: the file cannot be read, or it is a copy from another controller; nothing may be ordered then.
    """
    record = read(where)
    if record is None:
        return None
    if record.place != place(where):
        raise errors.StoreFailed(
            f"{where.epoch} was written on another machine or in another folder: start roundsmand here first, which "
            "begins an epoch of its own unless another controller leads"
        )
    return dataclasses.replace(record.order, boot=record.boots.get(node, "")) if record.order is not None else None


def require_clear(where: tree.Tree, cluster: clusters.Cluster, wants: Iterable[str]) -> None:
    """Let no play by hand without a daemon touch instances on which steps of another controller may be at work.

    `wants` are the locks that it takes. What the daemon has not noted as answered is not.

    Raises:
        Refused: another controller led before this one. StoreFailed: as `load`.
    """
    order, record = load(where), read(where)
    if record is None or not record.waits:
        return
    epoch = order.epoch if order is not None else record.highest
    nodes = locks.objects(wants, "node", known=cluster.nodes)
    for uuid in sorted(locks.objects(wants, "instance", known=cluster.instances) & cluster.instances.keys()):
        instance = cluster.instances[uuid]
        for node in sorted({*instance.nodes, *instance.places, *nodes} & record.waits):
            raise errors.Refused(
                f"another controller led before {epoch}, and its steps on {instance.name} may still be at work: "
                f"{cluster.node_name(node)} has not answered; start roundsmand here, which asks that node, and reads "
                "its power where it is recorded as off"
            )


def read(where: tree.Tree) -> Record | None:
    """What the file says, even where it is a copy; None where there is none.

    Raises:
        StoreFailed: it cannot be read.
    """
    try:
        data = where.epoch.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.StoreFailed(f"{where.epoch}: {error.strerror}") from error
    try:
        found = json.loads(sealed_json.unseal(data))
        return Record(
            order=epochs.order(found["order"]),
            offered=tuple(epochs.Epoch(int(number), str(name)) for number, name in found["offered"]),
            place=str(found["place"]),
            boot=str(found["boot"]),
            voters=frozenset(map(str, found["voters"])),
            waits=frozenset(map(str, found["waits"])),
            boots={str(uuid): str(boot) for uuid, boot in found.get("boots", {}).items()},
        )
    except (errors.InvalidInput, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.StoreFailed(
            f"{where.epoch} cannot be read ({error}): remove it, and start roundsmand, which begins a new epoch; "
            "in a cluster without agents run `roundsmand --no-voting --yes-do-it` once instead"
        ) from error


def write(
    where: tree.Tree,
    order: epochs.Order,
    *,
    voters: Iterable[str] = (),
    waits: Iterable[str] = (),
    boots: Mapping[str, str] | None = None,
) -> None:
    """Lead in this epoch from now on, durably; `voters`, `waits` and `boots` as in `Record`.

    Raises:
        StoreFailed, StateUnknown.
    """
    kept = Record(order, (), place(where), unsynced.boot(), frozenset(voters), frozenset(waits), dict(boots or {}))
    _write(where, kept)


def remember(where: tree.Tree, offered: epochs.Epoch, *, waits: Iterable[str] = ()) -> None:
    """Keep durably that this epoch is offered to nodes from here; what steps name stays as it is.

    What a copy from another controller names is dropped. `waits` as in `Record`.

    Raises:
        StoreFailed, StateUnknown.
    """
    here, before = place(where), read(where)
    if before is None or before.place != here:
        before = Record(None, (), here, "", before.voters) if before is not None else Record(None, (), here, "")
    _write(where, dataclasses.replace(before, offered=(*before.offered, offered)[-OFFERED:], waits=frozenset(waits)))


def confirm(where: tree.Tree, boots: Mapping[str, str]) -> None:
    """Have steps name these boots by node (UUID) from now on, durably; all else stays as it is.

    Raises:
        StoreFailed, StateUnknown.
    """
    record = read(where)
    if record is not None:
        _write(where, dataclasses.replace(record, boots={**record.boots, **boots}))


def _write(where: tree.Tree, record: Record) -> None:
    document = {
        "order": "" if record.order is None else str(record.order),
        "offered": [[epoch.number, epoch.id] for epoch in record.offered],
        "place": record.place,
        "boot": record.boot,
        "voters": sorted(record.voters),
        "waits": sorted(record.waits),
        "boots": dict(sorted(record.boots.items())),
    }
    durable_files.replace(where.epoch, sealed_json.seal(json.dumps(document).encode()), is_of_folder=True)
