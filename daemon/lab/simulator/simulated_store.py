"""The files of a lab's simulated disks: read when they are asked for, written all together or not at all.

Below a node's root `lab/drbd/<resource>.json` is its replica of a disk, `lab/volumes.json` its logical volumes. One
lock serves a lab, `disks.lock` in the folder of its nodes. What a call changes is first written to `disks.pending`
there: whoever takes the lock after a process that was killed finishes its writing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import json
import os
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from . import node_journal, simulated_node, simulated_records
from .simulated_drbd import Pair
from .simulated_records import Replica, Volume
from .simulated_replica import CONNECTED, CONNECTING, SPEED, Device, Side

if TYPE_CHECKING:
    from pathlib import Path

REPLICAS = "lab/drbd"
VOLUMES = "lab/volumes.json"
SPEED_FILE = "lab/resync-speed"
"""KiB per second of a resync in which the node takes part, as a text; without the file `SPEED`."""
VERSION_FILE = "lab/drbd-version"
"""The major version of the node's DRBD, as a text; without the file 8, whose release is 8.4."""
BUSY_FILE = "lab/drbd-busy"
"""While it exists, drbdadm does not wait for its children on this node, which do their work, and prints a command."""
LOCK, PENDING = "disks.lock", "disks.pending"


class Store:
    """The disks of all nodes of a lab at one moment, for whoever has the lab's lock; `opcode` is who asks."""

    def __init__(self, nodes: Path, *, now: int, opcode: str = "") -> None:
        self._nodes = nodes
        self._now = now
        self._opcode = opcode
        self._facts: Dict[str, simulated_node.NodeFacts] = {}
        self._replicas: Dict[Tuple[str, str], Optional[Replica]] = {}
        self._volumes: Dict[str, Dict[str, Volume]] = {}
        self._changed: Dict[Tuple[str, str], None] = {}
        self._events: List[Tuple[str, Dict[str, Any]]] = []

    @property
    def now(self) -> int:
        """The moment, in ns."""
        return self._now

    def facts(self, node: str) -> simulated_node.NodeFacts:
        """What the files of a node say."""
        if node not in self._facts:
            self._facts[node] = simulated_node.facts(self._nodes / node)
        return self._facts[node]

    def is_linked(self, node: str, peer: str) -> bool:
        """Whether two nodes reach each other."""
        ours, theirs = self.facts(node), self.facts(peer)
        is_cut = ours.is_cut or theirs.is_cut or peer in ours.links_cut or node in theirs.links_cut
        return ours.is_on and theirs.is_on and not is_cut

    def names(self, node: str) -> List[str]:
        """The resources of which a node has a replica, or metadata."""
        folder = self._nodes / node / REPLICAS
        there = {path.stem for path in folder.glob("*.json")} if folder.is_dir() else set()
        for (where, name), found in self._replicas.items():
            if where == node:
                (there.add if found else there.discard)(name)
        return sorted(there)

    def replica(self, node: str, name: str) -> Replica:
        """A replica as it was written last; an empty one where there is none."""
        key = (node, name)
        if key not in self._replicas:
            self._replicas[key] = simulated_records.read_replica(self._nodes / node / REPLICAS / f"{name}.json")
        return self._replicas[key] or Replica()

    def put(self, node: str, name: str, replica: Optional[Replica]) -> None:
        """Keep a replica, or remove it."""
        self._replicas[node, name] = replica
        self._changed[node, name] = None

    def names_of(self, node: str, instance: str) -> List[str]:
        """The resources of an instance of which a node has a replica, or metadata."""
        return [name for name in self.names(node) if self.replica(node, name).instance == instance]

    def side(self, node: str, name: str) -> Side:
        """A side as it is now, for what it says of itself; reads the peer's only where that may have changed it."""
        found = self.replica(node, name)
        device = found.side.device
        if device is None:
            return found.side
        is_same = self.facts(node).is_on and found.boot == self.facts(node).boot
        is_quiet = device.connection == CONNECTED and self.is_linked(node, device.other)
        is_quiet = is_quiet and self.facts(device.other).boot == device.peer_boot
        # A peer's failed disk is seen here, too.
        is_quiet = is_quiet and not any(self._has_failed(where, found) for where in (node, device.other))
        return found.side if is_same and is_quiet else self.pair(node, name).sides[0]

    def pair(self, node: str, name: str) -> Pair:
        """Both sides as they are now, this node's first; what power, links and disks did to them is kept at once."""
        own = self.replica(node, name)
        peer = self._other(node, name)
        other = self.replica(peer, name) if peer else Replica()
        is_mutual = self._are_ends(node, peer, name)
        sides = (own.side, other.side if is_mutual else Side())
        before = Pair(sides, now=self._now, is_linked=is_mutual, speed=self.speed(node, peer)).at(self._now)
        pair = before
        for i, (where, replica) in enumerate(((node, own), (peer, other if is_mutual else Replica()))):
            facts = self.facts(where) if where else None
            if (
                facts is not None
                and replica.side.device is not None
                and not (facts.is_on and replica.boot == facts.boot)
            ):
                self._note_death(where, name, pair.sides[i])
                pair = pair.lose_power(i)
            if facts is not None and self._has_failed(where, replica) != replica.side.has_failed:
                pair = pair.with_failed_disk(i, has_failed=not replica.side.has_failed)
        if peer:
            pair = pair.link() if is_mutual and self.is_linked(node, peer) else pair.cut()
        if pair != dataclasses.replace(before, is_linked=pair.is_linked):
            self.keep(node, name, pair)
        return dataclasses.replace(pair, events=())

    def _other(self, node: str, name: str) -> str:
        """The node at the other end, '' for none: what DRBD 8.4 listens for may come from any node.

        Of two that wait for this node the wrong one comes first, as it may.
        """
        device = self.replica(node, name).side.device
        if device is None or device.stranger:
            return device.stranger if device else ""
        if not device.is_together and not is_nine(self._nodes / node):
            for dialer in self.nodes_with(name):
                if dialer not in {node, device.peer} and self._dials(dialer, node, name):
                    return dialer
        return device.peer

    def _are_ends(self, node: str, peer: str, name: str) -> bool:
        """Whether two nodes are the ends of a connection, or may be: both name each other, or one lets the other in."""
        ours, theirs = (self.replica(where, name).side.device if where else None for where in (node, peer))
        if ours is None or theirs is None:
            return False
        if node in (theirs.stranger, theirs.peer) and peer in (ours.stranger, ours.peer):
            return ours.other == peer and theirs.other == node
        listener, dialer = (peer, node) if ours.peer == peer else (node, peer)
        return self._other(listener, name) == dialer

    def _dials(self, node: str, peer: str, name: str) -> bool:
        """Whether a node waits for this peer, and reaches it."""
        device = self.replica(node, name).side.device
        return (
            device is not None
            and (device.peer, device.connection) == (peer, CONNECTING)
            and not is_nine(self._nodes / node)
            and self.is_linked(node, peer)
        )

    def end_boot(self, node: str, name: str) -> None:
        """A side loses its power now; the instance that wrote here is noted with its last counter."""
        pair = self.pair(node, name)
        if pair.sides[0].device is not None:
            self._note_death(node, name, pair.sides[0])
            self.keep(node, name, pair.lose_power(0))

    def died(self, node: str, name: str, instance: str) -> Optional[int]:
        """The last counter of an instance that died with the node, which is asked once."""
        found = self.replica(node, name)
        if found.died[0] != instance:
            return None
        self.put(node, name, dataclasses.replace(found, died=("", 0)))
        return found.died[1]

    def keep(self, node: str, name: str, pair: Pair) -> None:
        """Keep both sides of a pair, this node's first, and write into the journals what happened to them."""
        peer = self._other(node, name) or (pair.sides[0].device or Device(0, "")).peer
        for i, where in ((0, node), (1, peer)):
            if i == 1 and pair.sides[1] == Side():
                continue
            device = pair.sides[i].device
            found = self.replica(where, name)
            boot = found.boot if found.side.device is not None else self.facts(where).boot
            side = pair.sides[i]
            if device is not None and device.peer:
                other = (peer, node)[i]
                stranger = other if device.is_together and other != device.peer else ""
                met = dataclasses.replace(device, stranger=stranger, peer_boot=self.facts(other).boot)
                side = dataclasses.replace(side, device=met)
            if found.side != side or found.boot != boot:
                self.put(where, name, dataclasses.replace(found, side=side, boot=boot))
                self._note_state(where, name, found.side.device, device)
            self._follow(where, found, is_open=device is not None and device.is_attached)
        for event in pair.events:
            where = (node, peer)[event.side]
            entry = {"instance": self.replica(where, name).instance, "opcode": self._opcode, "event": "overwritten"}
            self.note(where, {**entry, "counter": event.counter, "newest": event.newest, "lost": event.lost})

    def volumes(self, node: str) -> Dict[str, Volume]:
        """The logical volumes of a node, as they were written last."""
        if node not in self._volumes:
            self._volumes[node] = simulated_records.read_volumes(self._nodes / node / VOLUMES)
        return self._volumes[node]

    def volume(self, node: str, name: str) -> Optional[Volume]:
        """A logical volume as it is now."""
        found = self.volumes(node).get(name)
        if found is None:
            return None
        has_failed = bool(found.instance) and found.instance in self.facts(node).failed
        return dataclasses.replace(found.at(self._now), has_failed=has_failed)

    def put_volume(self, node: str, name: str, volume: Optional[Volume]) -> None:
        """Keep a logical volume, or remove it."""
        known = self.volumes(node)
        if volume is None:
            known.pop(name, None)
        else:
            known[name] = volume
        self._changed[node, ""] = None

    def note(self, node: str, entry: Dict[str, Any]) -> None:
        """Write an event into a node's journal, together with the disks."""
        self._events.append((node, {"ns": time.monotonic_ns(), **entry}))

    def write(self) -> None:
        """Write what was changed, wholly even if this process is killed."""
        if not self._changed and not self._events:
            return
        files: Dict[str, Optional[str]] = {}
        for node, name in self._changed:
            if name:
                found = self._replicas[node, name]
                files[f"{node}/{REPLICAS}/{name}.json"] = json.dumps(simulated_records.encode(found)) if found else None
            else:
                rows = {key: simulated_records.encode(volume) for key, volume in self._volumes[node].items()}
                files[f"{node}/{VOLUMES}"] = json.dumps(rows)
        events = [[node, json.dumps(entry)] for node, entry in self._events]
        _replace(self._nodes / PENDING, json.dumps({"files": files, "events": events}))
        finish_pending(self._nodes)

    def nodes_with(self, name: str) -> List[str]:
        """The nodes that have a replica of a resource."""
        there = {path.parents[2].name for path in self._nodes.glob(f"*/{REPLICAS}/{glob.escape(name)}.json")}
        for (node, known), found in self._replicas.items():
            if known == name:
                (there.add if found else there.discard)(node)
        return sorted(there)

    def resources(self, instance: str) -> List[str]:
        """The resources of an instance on any node."""
        folder, found = f"*/{REPLICAS}", set()
        paths = list(self._nodes.glob(f"{folder}/{glob.escape(instance)}-disk*.json")) or self._nodes.glob(
            f"{folder}/*.json"
        )
        for path in paths:
            if self.replica(path.parents[2].name, path.stem).instance == instance:
                found.add(path.stem)
        return sorted(found)

    def counter(self, node: str, name: str) -> Optional[int]:
        """The counter on a replica; None where there is none."""
        found = self.replica(node, name)
        return self.pair(node, name).sides[0].content.counter if found.side.size else None

    def speed(self, node: str, peer: str) -> int:
        """KiB per second of a resync between two nodes: that of the slower one."""
        return min(_speed_of(self._nodes / where) for where in (node, peer) if where)

    def _note_state(self, node: str, name: str, before: Optional[Device], after: Optional[Device]) -> None:
        """Write into the node's journal how a replica is from now on, if that has changed."""
        if _state(before) != _state(after):
            entry = {"instance": self.replica(node, name).instance, "opcode": "", "event": "replica"}
            self.note(node, {**entry, "resource": name, **_state(after)})

    def _note_death(self, node: str, name: str, side: Side) -> None:
        writer = side.device.writer if side.device else None
        if writer is not None:
            died = (writer.instance, writer.counter)
            self.put(node, name, dataclasses.replace(self.replica(node, name), died=died))

    def _has_failed(self, node: str, replica: Replica) -> bool:
        return bool(replica.instance) and replica.instance in self.facts(node).failed

    def _follow(self, node: str, replica: Replica, *, is_open: bool) -> None:
        """The volumes below a replica are open while it is attached."""
        for name in (replica.data, replica.metadata):
            volume = self.volumes(node).get(name)
            if volume is not None and volume.is_open != is_open:
                self.put_volume(node, name, dataclasses.replace(volume, is_open=is_open))


def _state(device: Optional[Device]) -> Dict[str, Any]:
    if device is None:
        return {"role": "", "disk": "", "peer": "", "is_connected": False}
    return {"role": device.role, "disk": device.disk, "peer": device.other, "is_connected": device.is_together}


@contextlib.contextmanager
def opened(nodes: Path, *, opcode: str = "", now: Optional[int] = None) -> Iterator[Store]:
    """The disks of a lab, with its lock; what was changed is written at the end, and nothing of it after an error."""
    nodes.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(str(nodes / LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        finish_pending(nodes)
        store = Store(nodes, now=time.monotonic_ns() if now is None else now, opcode=opcode)
        yield store
        store.write()
    finally:
        os.close(descriptor)


def finish_pending(nodes: Path) -> None:
    """Write the files and events that a call, perhaps of a process that was killed, has decided on."""
    pending = nodes / PENDING
    try:
        content = json.loads(pending.read_text())
    except FileNotFoundError:
        return
    for name, text in content["files"].items():
        path = nodes / name
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, text)
    for node, line in content["events"]:
        node_journal.append_once(nodes / node, line)
    pending.unlink()


def is_nine(root: Path) -> bool:
    """Whether the node with this root has version 9."""
    path = root / VERSION_FILE
    return path.exists() and path.read_text().strip() == "9"


def is_busy(root: Path) -> bool:
    """Whether drbdadm does not wait for its children on the node with this root."""
    return (root / BUSY_FILE).exists()


def _speed_of(root: Path) -> int:
    try:
        return int((root / SPEED_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return SPEED


def _replace(path: Path, text: str) -> None:
    made = path.with_name(path.name + ".new")
    made.write_text(text)
    made.replace(path)
