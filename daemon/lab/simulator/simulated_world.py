"""The disks of a lab's nodes: what instances write on them, and what becomes of them when something fails.

A node is a folder; the nodes of a lab are siblings. The state of the disks is in files (`simulated_store`); every call
takes the lab's lock, brings what it needs up to now, changes it, and writes it whole. Which power, links and faulty
disks a node has is in the files of `simulated_node`: whoever changes one of these calls `settle` afterwards.

Functions that return a counter return None for an instance without simulated disks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple

from ....plugins.module_utils.domain.values import errors
from ....plugins.module_utils.storage import drbd_node, drbd_resource
from . import simulated_programs, simulated_resource, simulated_store
from .simulated_drbd import Pair
from .simulated_records import MIB, Replica, Volume
from .simulated_replica import Metadata, Rejected, Side, Writer
from .simulated_store import BUSY_FILE, SPEED_FILE, Store

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

    from ....plugins.module_utils.storage.disks import End

WRITES_PER_SECOND = 5.0
Disk = Tuple[str, str]
"""A disk of an instance: `("drbd", resource)` or `("volume", group/name)`."""


def settle(root: Path, *, now: Optional[int] = None) -> None:
    """Let the disks of the node with this root follow the files that say which power, links and disks it has."""
    root = root.resolve()
    with _opened(root, now=now) as store:
        for name in store.names(root.name):
            store.pair(root.name, name)


def lose_power(root: Path, *, now: Optional[int] = None) -> Dict[str, int]:
    """Everything that is up on this node is down at once, as after a power cut or a crash of its kernel.

    Returns the last acknowledged counter of each instance that wrote. The files of its power are left alone.
    """
    known: Dict[str, int] = {}
    root = root.resolve()
    with _opened(root, now=now) as store:
        for name in store.names(root.name):
            store.end_boot(root.name, name)
            instance = store.replica(root.name, name).died[0]
            counter = store.died(root.name, name, instance) if instance else None
            if counter is not None:
                known[instance] = min(counter, known.get(instance, counter))
        for name in list(store.volumes(root.name)):
            volume = store.volume(root.name, name)
            if volume is not None and (volume.writer or volume.opened_by):
                if volume.writer is not None:
                    known[volume.writer.instance] = volume.writer.counter
                store.put_volume(root.name, name, dataclasses.replace(volume, writer=None, opened_by=()))
    (root / drbd_node.PROC).unlink(missing_ok=True)
    return known


def set_resync_speed(root: Path, speed: Optional[int], *, now: Optional[int] = None) -> None:
    """Let resyncs of this node copy so many KiB per second from now on; None is as fast as the lab's disks are."""
    root = root.resolve()
    with _opened(root, now=now) as store:
        for name in store.names(root.name):
            store.keep(root.name, name, store.pair(root.name, name))
        store.write()
        if speed is None:
            (root / SPEED_FILE).unlink(missing_ok=True)
        else:
            (root / SPEED_FILE).write_text(str(speed))


def set_busy(root: Path, *, is_busy: bool) -> None:
    """Let the node be so busy that its drbdadm does not wait for its children, and prints their commands."""
    if is_busy:
        (root / BUSY_FILE).write_text("")
    else:
        (root / BUSY_FILE).unlink(missing_ok=True)


def start_writing(
    root: Path, name: str, *, devices: Sequence[str], opcode: str = "", now: Optional[int] = None
) -> Optional[int]:
    """An instance opens its disks here, reads its counter from them, and writes from now on.

    Returns the counter that it read: the lowest of its disks.

    Raises:
        Failed: a device cannot be opened for writing, or cannot be read.
    """
    if not devices:
        return None
    root = root.resolve()
    with _opened(root, opcode=opcode, now=now) as store:
        disks = _Disks(store, root.name, name)
        found = [disk for disk in (disks.of_device(device) for device in devices) if disk is not None]
        if not found:
            return None
        counter = min(disks.open(disk) for disk in found)
        run = f"{root.name}/{store.now}"
        for disk in found:
            disks.write(disk, Writer(name, run, counter, store.now, WRITES_PER_SECOND))
        return counter


def stop_writing(root: Path, name: str, *, now: Optional[int] = None) -> Optional[int]:
    """An instance closes its disks on this node; returns the last counter whose write was acknowledged to it."""
    root = root.resolve()
    with _opened(root, now=now) as store:
        return _Disks(store, root.name, name).close()


def hand_over(
    source: Path, target: Path, name: str, *, devices: Sequence[str] = (), now: Optional[int] = None
) -> Optional[int]:
    """An instance goes on writing on another node, as after a live migration; returns its last acknowledged counter.

    `devices` are those on the target; without them the same as on the source.

    Raises:
        Failed: a device cannot be opened for writing on the target; nothing was changed.
    """
    source, target = source.resolve(), target.resolve()
    with _opened(source, now=now) as store:
        here, there = _Disks(store, source.name, name), _Disks(store, target.name, name)
        moved = here.opened()
        writers = [writer for writer in (here.writer(disk) for disk in moved) if writer is not None]
        if not writers:
            return None
        named = [there.of_device(device) for device in devices] if devices else moved
        for disk in (found for found in named if found is not None):
            there.open(disk)
        counter = here.close()
        for disk in (found for found in named if found is not None):
            there.write(disk, dataclasses.replace(writers[0], counter=counter or 0, since=store.now))
        return counter


def acknowledged(root: Path, name: str, *, now: Optional[int] = None) -> Optional[int]:
    """The last counter that was acknowledged to an instance that writes on this node now."""
    root = root.resolve()
    with _opened(root, now=now) as store:
        return _Disks(store, root.name, name).acknowledged()


def instances(root: Path) -> List[str]:
    """The instances that have a replica on this node."""
    with simulated_store.opened(root.resolve().parent) as store:
        node = root.resolve().name
        return sorted({store.replica(node, name).instance for name in store.names(node)})


def replicas(nodes: Path, name: str, *, now: Optional[int] = None) -> Dict[str, int]:
    """By node the counter on each replica of an instance's disks; `nodes` is the folder of a lab's nodes."""
    found: Dict[str, int] = {}
    with simulated_store.opened(nodes, now=now) as store:
        for resource in store.resources(name):
            for node in store.nodes_with(resource):
                counter = store.counter(node, resource)
                if counter is not None:
                    found[node] = min(counter, found.get(node, counter))
    return found


class _Disks:
    """The disks of an instance on a node, as devices that it opens."""

    def __init__(self, store: Store, node: str, instance: str) -> None:
        self._store = store
        self._node = node
        self._instance = instance

    def of_device(self, path: str) -> Optional[Disk]:
        """The disk behind the path of a device; None for one that is not simulated."""
        if path.startswith("/dev/drbd"):
            names = self._store.names(self._node)
            for name in sorted(names, key=lambda resource: not resource.startswith(f"{self._instance}-")):
                device = self._store.replica(self._node, name).side.device
                if device is not None and path == f"/dev/drbd{device.minor}":
                    return "drbd", name
            raise errors.Failed(f"{path} is not there: {self._instance} cannot open it")
        name = path.replace("/dev/", "", 1)
        return ("volume", name) if name in self._store.volumes(self._node) else None

    def open(self, disk: Disk) -> int:
        """Open a disk for writing; returns the counter on it."""
        kind, name = disk
        if kind == "volume":
            volume = self._volume(name)
            if not volume.is_active or volume.has_failed:
                why = "Input/output error" if volume.has_failed else "No such file or directory"
                raise errors.Failed(f"{self._instance} cannot open /dev/{name}: {why}")
            holders = (*(opener for opener in volume.opened_by if opener != self._instance), self._instance)
            held = dataclasses.replace(volume, opened_by=holders, instance=self._instance)
            self._store.put_volume(self._node, name, held)
            return volume.content.counter
        pair = self._pair(name)
        try:
            after = pair.open(0, self._instance)
        except Rejected as error:
            raise errors.Failed(
                f"{self._instance} cannot open the disk {name} on {self._node}: {error.text}"
            ) from error
        self._store.keep(self._node, name, after)
        self._store.died(self._node, name, self._instance)
        return after.content(0).counter

    def write(self, disk: Disk, writer: Optional[Writer]) -> None:
        """Let the instance write on a disk from now on."""
        kind, name = disk
        if kind == "volume":
            self._store.put_volume(self._node, name, dataclasses.replace(self._volume(name), writer=writer))
        else:
            self._store.keep(self._node, name, self._pair(name).write_with(0, writer))

    def opened(self) -> List[Disk]:
        """The disks that the instance holds open here."""
        found: List[Disk] = []
        for name in self._store.names(self._node):
            device = self._store.replica(self._node, name).side.device
            if device is not None and self._instance in device.opened_by:
                found.append(("drbd", name))
        volumes = self._store.volumes(self._node).items()
        return found + [("volume", name) for name, volume in volumes if self._instance in volume.opened_by]

    def writer(self, disk: Disk) -> Optional[Writer]:
        """How the instance writes on a disk now."""
        kind, name = disk
        if kind == "volume":
            return self._volume(name).writer
        device = self._pair(name).sides[0].device
        return (
            device.writer if device is not None and device.writer and device.writer.instance == self._instance else None
        )

    def acknowledged(self) -> Optional[int]:
        """The last counter that is on all disks of the instance."""
        writers = [self.writer(disk) for disk in self.opened()]
        return min((writer.counter for writer in writers if writer is not None), default=None)

    def close(self) -> Optional[int]:
        """Close all disks; returns the last acknowledged counter, also where the node died under the instance."""
        counter = self.acknowledged()
        died = [self._store.died(self._node, name, self._instance) for name in self._store.names(self._node)]
        known = [last for last in (*died, counter) if last is not None]
        counter = min(known, default=None)
        for kind, name in self.opened():
            if kind == "volume":
                volume = self._volume(name)
                holders = tuple(opener for opener in volume.opened_by if opener != self._instance)
                closed = dataclasses.replace(volume, opened_by=holders, writer=None)
                self._store.put_volume(self._node, name, closed)
            else:
                self._store.keep(self._node, name, self._pair(name).close(0, self._instance))
        return counter

    def _pair(self, name: str) -> Pair:
        return self._store.pair(self._node, name)

    def _volume(self, name: str) -> Volume:
        found = self._store.volume(self._node, name)
        if found is None:
            raise errors.Failed(f"/dev/{name} is not there: {self._instance} cannot open it")
        return found


def promote(root: Path, name: str) -> None:
    """Bring up and promote the disks of an instance, as the boot scripts of a node do that asks nobody."""
    with simulated_store.opened(root.parent) as store:
        resources = [resource for resource in store.resources(name) if resource in store.names(root.name)]
    runner = simulated_programs.SimulatedPrograms(root, opcode="autostart")
    for command in (
        ("modprobe", "drbd"),
        *(("drbdadm", verb, resource) for resource in resources for verb in ("up", "primary")),
    ):
        runner.run(*command)


def _opened(root: Path, *, opcode: str = "", now: Optional[int] = None) -> contextlib.AbstractContextManager[Store]:
    return simulated_store.opened(root.parent, opcode=opcode, now=now)


@dataclass(frozen=True)
class NewDisks:
    """The replicated disks of an instance, to be placed on two nodes in sync; `sizes` in MiB, the primary first."""

    instance: str
    uuid: str
    sizes: Tuple[int, ...]
    minors: Tuple[int, ...]
    ends: Tuple[End, End]
    vg: str
    secret: str
    is_primary: bool


def place(nodes: Path, wanted: Sequence[NewDisks], *, opcode: str, now: Optional[int] = None) -> None:
    """Make replicas that are connected and in sync, without a command for each; those that are there are left alone."""
    with simulated_store.opened(nodes, opcode=opcode, now=now) as store:
        for made in wanted:
            for number, (size, minor) in enumerate(zip(made.sizes, made.minors)):  # noqa: B905 - Python 3.9
                _place(store, nodes, made, number=number, size=size, minor=minor)
            for end in made.ends:
                store.note(end.name, {"instance": made.instance, "opcode": opcode, "event": "replica created"})
    for node in sorted({end.name for made in wanted for end in made.ends}):
        # Has its /proc/drbd tell of them.
        simulated_programs.SimulatedPrograms(nodes / node, clock=None if now is None else lambda: now).run(
            "drbdsetup", "status"
        )


def _place(store: Store, nodes: Path, made: NewDisks, *, number: int, size: int, minor: int) -> None:
    name = drbd_resource.name(made.instance, made.uuid, number)
    data, metadata = (f"{made.vg}/{made.uuid}.{kind}{number}" for kind in ("disk", "meta"))
    for end, peer in (made.ends, made.ends[::-1]):
        root = nodes / end.name
        for volume, extent in ((data, size), (metadata, drbd_resource.metadata_size(size))):
            store.put_volume(end.name, volume, Volume(extent, resource=name, instance=made.instance))
        text = drbd_resource.Resource(
            name, made.instance, minor, f"/dev/{data}", f"/dev/{metadata}", end.name, end, peer, made.secret
        ).text()
        path = root / drbd_resource.FOLDER / f"roundsman-{name}.res"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (root / drbd_node.PROC).parent.mkdir(parents=True, exist_ok=True)
        (root / drbd_node.PROC).write_text(simulated_programs.VERSION)
        side = Side(size * MIB, Metadata())
        store.put(end.name, name, Replica(data, metadata, made.instance, store.facts(end.name).boot, side))
    first, second = made.ends
    empty = Pair((Side(size * MIB, Metadata()), Side(size * MIB, Metadata())), now=store.now)
    own, other = simulated_resource.parse(text).addresses
    pair = empty.up(0, minor=minor, peer=second.name, secret=made.secret, addresses=(other, own))
    pair = pair.up(1, minor=minor, peer=first.name, secret=made.secret, addresses=(own, other))
    pair = pair.attach(0).attach(1).connect(0).connect(1).skip_resync(0)
    store.keep(first.name, name, pair.promote(0) if made.is_primary else pair)
