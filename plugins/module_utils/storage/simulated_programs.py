"""The programs of DRBD 8.4 and LVM on a node of a lab: they take the commands of the real ones and answer as those do.

Their texts have the form recorded from version 8.4.11 and LVM 2.03; what a command does is in `simulated_drbd`.

A node whose `VERSION_FILE` says so has version 9. What is different then is from that version's manual and sources and
was not seen on a real node: status in JSON, the numbers of nodes, and metadata that keep what a peer lacks under the
number of that peer until it is forgotten.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..domain import errors
from ..hypervisor import node_journal
from . import drbd_node, drbd_resource, program_output, simulated_drbd, simulated_store
from .simulated_drbd import (
    CONNECTED,
    CONNECTING,
    DISKLESS,
    PAUSED_SOURCE,
    PAUSED_TARGET,
    PRIMARY,
    SECONDARY,
    STANDALONE,
    SYNCING,
    UP_TO_DATE,
    Device,
    Metadata,
    Pair,
    Rejected,
    Side,
)
from .simulated_store import MIB, Replica, Store, Volume

if TYPE_CHECKING:
    import pathlib

VERSION = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: F73C670A7EC572DB9CF3E5B \n"
VERSION_9 = "version: 9.2.8 (api:2/proto:86-122)\nsrcversion: F73C670A7EC572DB9CF3E5B \n"
GROUP_SIZE = 4 * 1024 * 1024
"""MiB of a volume group, whichever."""
EXTENT = 4
_BLOCK = re.compile(
    r"on (?P<host>\S+) \{.*?minor (?P<minor>\d+);.*?disk (?P<data>\S+);.*?meta-disk (?P<metadata>\S+);", re.DOTALL
)
_SECRET = re.compile(r'shared-secret "([^"]*)"')
_INSTANCE = re.compile(r"^# Written by Roundsman for (\S+),", re.MULTILINE)
_CONNECTING = frozenset({"adjust", "connect", "net-options"})
"""Verbs of drbdadm whose child gets the options of the connection."""
Act = Callable[[Store, List[str], Tuple[str, ...]], str]


def is_alone(device: Optional[Device]) -> bool:
    """Whether a primary with all data writes to no other replica, as `replicas.ReplicaFact.is_alone` has it."""
    if device is None or device.role != PRIMARY or device.disk != UP_TO_DATE:
        return False
    return not device.is_together or device.peer_disk == DISKLESS


class Configured(NamedTuple):
    """What the file of a resource says of it on this node; the names of volumes are `group/volume`."""

    instance: str
    minor: int
    data: str
    metadata: str
    peer: str
    secret: str = ""
    node_ids: Tuple[int, ...] = ()


class SimulatedPrograms:
    """Runs the programs of the node with this root, whose siblings are the other nodes of its lab.

    `opcode` is written beside what happens to replicas; `clock` counts in ns.
    """

    def __init__(self, root: pathlib.Path, *, opcode: str = "", clock: Optional[Callable[[], int]] = None) -> None:
        self._root = root.resolve()
        self._opcode = opcode
        self._clock = clock
        self._acts: Dict[str, Act] = {
            "modprobe": self._modprobe,
            "lvs": self._lvs,
            "vgs": self._vgs,
            "lvcreate": self._lvcreate,
            "lvchange": self._lvchange,
            "lvremove": self._lvremove,
            "drbdsetup status": self._status,
            "drbdsetup show": self._show,
            "drbdsetup down": self._down,
            "drbdadm down": self._down,
            "drbdadm up": self._adjust,
            "drbdadm adjust": self._adjust,
            "drbdadm create-md": self._create_metadata,
            "drbdadm get-gi": self._get_gi,
            "drbdadm sh-ll-dev": self._lower_device,
            "drbdadm attach": self._attach,
            "drbdadm connect": self._connect,
            "drbdadm net-options": self._net_options,
            "drbdadm forget-peer": self._forget_peer,
            "drbdsetup del-peer": self._delete_peer,
        }
        self._changes: Dict[str, Callable[[Pair, Tuple[str, ...]], Pair]] = {
            "primary": lambda pair, command: pair.promote(0, force="--force" in command),
            "secondary": lambda pair, _: pair.demote(0),
            "disconnect": lambda pair, _: pair.disconnect(0),
            "detach": lambda pair, _: pair.detach(0),
            "invalidate": lambda pair, _: pair.invalidate(0),
            "outdate": lambda pair, _: pair.outdate(0),
            "pause-sync": lambda pair, _: pair.pause(0),
            "resume-sync": lambda pair, _: pair.resume(0),
            "new-current-uuid": lambda pair, _: pair.skip_resync(0),
        }

    @property
    def _node(self) -> str:
        return self._root.name

    @property
    def _is_nine(self) -> bool:
        return simulated_store.is_nine(self._root)

    def run(self, *command: str, time_limit: float = 120.0, accepted: Tuple[int, ...] = (0,)) -> str:  # noqa: ARG002 - the port's
        """As `Runner.run`."""
        now = self._clock() if self._clock else None
        try:
            with simulated_store.opened(self._root.parent, opcode=self._opcode, now=now) as store:
                told = self._act(store, command)
                self._tell_proc(store)
            self._require_patience(command)
        except Rejected as error:
            if error.status in accepted:
                return ""
            said = program_output.failure_text(error.text.encode()) or f"status {error.status}"
            raise errors.Failed(f"{' '.join(command[:3])}: {said}") from error
        return told

    def _require_patience(self, command: Tuple[str, ...]) -> None:
        """On a busy node drbdadm fails though its child did its work, and prints that child's whole command."""
        if command[0] != "drbdadm" or command[1] not in _CONNECTING or not simulated_store.is_busy(self._root):
            return
        resource = _resource(command[-1])
        child = f"drbdsetup new-peer {resource} 1" if self._is_nine else f"drbdsetup-84 connect {resource}"
        options = (
            "--after-sb-2pri=disconnect --after-sb-1pri=disconnect --after-sb-0pri=disconnect "
            f"--shared-secret={self._configured(resource).secret} --cram-hmac-alg=sha256 --protocol=C"
        )
        raise Rejected(f"Command '{child} {options}' did not terminate within 5 seconds", status=20)

    def _act(self, store: Store, command: Tuple[str, ...]) -> str:
        words = [word for word in command if not word.startswith("--")]
        name = " ".join(words[:2]) if words[0].startswith("drbd") else words[0]
        if "--config-file" in command:
            name = "drbdadm create-md"
        act = self._acts.get(name)
        if act is not None:
            return act(store, words, command)
        verb = name.partition(" ")[2]
        if words[0] in {"drbdadm", "drbdsetup"} and verb in self._changes:
            resource = _resource(words[-1])
            pair = store.pair(self._node, resource)
            if verb != "outdate":
                self._is_up(pair, resource, is_minor=verb in {"primary", "secondary", "detach", "invalidate"})
            self._keep(store, resource, pair, lambda: self._changes[verb](pair, command))
            return ""
        raise Rejected(f"the simulated programs of a lab do not know this: {' '.join(command)}", status=127)

    # DRBD

    def _modprobe(self, store: Store, _words: List[str], _command: Tuple[str, ...]) -> str:
        path = self._root / drbd_node.PROC
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(VERSION_9 if self._is_nine else VERSION)
        del store
        return ""

    def _status(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        sides = self._sides(store)
        if self._opcode == drbd_node.REPORT:
            self._note_report(store, sides)
        if self._is_nine:
            return json.dumps(
                [status_json(name, side, now=store.now, speed=speed) for name, (side, speed) in sides.items()]
            )
        if "--json" in command:
            raise Rejected("status: unrecognized option '--json'", status=20)
        if not sides:
            return "# No currently configured DRBD found.\n"
        return "".join(status_text(name, side, now=store.now, speed=speed) for name, (side, speed) in sides.items())

    def _note_report(self, store: Store, sides: Mapping[str, Tuple[Side, int]]) -> None:
        """Write into the node's journal that it makes a report, and which instances that says write here alone."""
        names = {store.replica(self._node, name).instance for name, (side, _) in sides.items() if is_alone(side.device)}
        entry = {"event": "reported", "opcode": "", "alone": sorted(names)}
        node_journal.append(self._root, entry, is_durable=False)

    def _show(self, store: Store, _words: List[str], _command: Tuple[str, ...]) -> str:
        return "".join(_shown(name, side.device) for name, (side, _) in self._sides(store).items() if side.device)

    def _sides(self, store: Store) -> Dict[str, Tuple[Side, int]]:
        found = {name: store.side(self._node, name) for name in store.names(self._node)}
        return {
            name: (side, store.speed(self._node, side.device.other))
            for name, side in found.items()
            if side.device is not None
        }

    def _get_gi(self, store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        resource = _resource(words[-1])
        found = store.pair(self._node, resource).sides[0]
        if found.metadata is None:
            raise Rejected("No valid meta data found", status=255)
        return f"{found.metadata.text()}\n"

    def _lower_device(self, _store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        return f"/dev/{self._configured(_resource(words[-1])).data}\n"

    def _net_options(self, store: Store, words: List[str], command: Tuple[str, ...]) -> str:
        resource = words[-1]
        pair = store.pair(self._node, resource)
        self._is_up(pair, resource)
        allowed = "--allow-two-primaries=yes" in command
        self._keep(store, resource, pair, lambda: pair.allow_two(0, allowed=allowed))
        return ""

    def _attach(self, store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        resource = _resource(words[-1])
        pair = store.pair(self._node, resource)
        self._is_up(pair, resource)
        self._keep(store, resource, pair, lambda: self._attached(store, resource, pair))
        return ""

    def _attached(self, store: Store, resource: str, pair: Pair) -> Pair:
        known = store.replica(self._node, resource)
        for name, number in ((known.data, 104), (known.metadata, 105)):
            volume = store.volume(self._node, name)
            if volume is None or not volume.is_active:
                raise Rejected(f"Failure: ({number}) Can not open backing device.", status=10)
        return pair.attach(0)

    def _down(self, store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        resource = words[-1]
        pair = store.pair(self._node, resource)
        if pair.sides[0].device is not None:
            self._keep(store, resource, pair, lambda: pair.down(0))
        return ""

    def _adjust(self, store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        """Bring a resource to what its file says: up, with its disk, waiting for its peer."""
        resource = _resource(words[-1])
        wanted = self._configured(resource)
        if self._is_nine:
            self._refuse_numbers(store, resource, wanted)
        pair = store.pair(self._node, resource)
        device = pair.sides[0].device
        if device is None:
            known = store.replica(self._node, resource)
            renamed = dataclasses.replace(known, data=wanted.data, metadata=wanted.metadata, instance=wanted.instance)
            store.put(self._node, resource, renamed)
            alone = dataclasses.replace(pair, sides=(pair.sides[0], Side()))
            made = alone.up(0, minor=wanted.minor, peer=wanted.peer, secret=wanted.secret)
            self._keep(store, resource, alone, lambda: made)
        elif (device.peer, device.secret) != (wanted.peer, wanted.secret):
            if device.peer != wanted.peer and device.connection != STANDALONE:
                self._keep(store, resource, pair, lambda: pair.disconnect(0))
            self._take_peer(store, resource, wanted)
        pair = store.pair(self._node, resource)
        if pair.sides[0].device is not None and not pair.sides[0].device.is_attached:
            before = pair
            self._keep(store, resource, before, lambda: self._attached(store, resource, before))
        if self._is_nine:
            self._number(store, resource, wanted)
        pair = store.pair(self._node, resource)
        device = pair.sides[0].device
        if device is not None and device.connection == STANDALONE:
            self._keep(store, resource, pair, lambda: pair.connect(0))
        elif device is not None and device.two_primaries:
            self._keep(store, resource, pair, lambda: pair.allow_two(0, allowed=False))
        return ""

    def _connect(self, store: Store, words: List[str], command: Tuple[str, ...]) -> str:
        """Wait for the peer that the file says, with its secret, as `drbdadm` of 8.4 tells the kernel both."""
        resource = _resource(words[-1])
        pair = store.pair(self._node, resource)
        self._is_up(pair, resource)
        device = pair.sides[0].device
        if device is not None and device.connection == STANDALONE:
            self._take_peer(store, resource, self._configured(resource))
            pair = store.pair(self._node, resource)
        self._keep(store, resource, pair, lambda: pair.connect(0, discards="--discard-my-data" in command))
        return ""

    def _take_peer(self, store: Store, resource: str, wanted: Configured) -> None:
        known = store.replica(self._node, resource)
        if known.side.device is not None:
            device = dataclasses.replace(known.side.device, peer=wanted.peer, secret=wanted.secret)
            store.put(
                self._node, resource, dataclasses.replace(known, side=dataclasses.replace(known.side, device=device))
            )

    def _refuse_numbers(self, store: Store, resource: str, wanted: Configured) -> None:
        """A real one would take what the old peer with this number lacks for what the new one lacks."""
        found = store.replica(self._node, resource).side.metadata
        if len(wanted.node_ids) != 2:  # noqa: PLR2004 - a resource has two nodes
            raise Rejected("the file of the resource does not give its nodes a node-id", status=10)
        own, number = wanted.node_ids
        if found is not None and found.node_id not in {None, own}:
            raise Rejected(f"ambiguous node id: meta-data: {found.node_id}, config: {own}", status=10)
        known = dict(found.known_peers).get(number, wanted.peer) if found is not None else wanted.peer
        if known != wanted.peer:
            raise Rejected(f"node-id {number} keeps what {known} lacks: forget that peer first", status=10)

    def _number(self, store: Store, resource: str, wanted: Configured) -> None:
        """Store the numbers of this node and its peer, and connect under them."""
        own, number = wanted.node_ids
        known = store.replica(self._node, resource)
        metadata, device = known.side.metadata, known.side.device
        if metadata is None or device is None:
            return
        peers = tuple(sorted({**dict(metadata.known_peers), number: wanted.peer}.items()))
        side = dataclasses.replace(
            known.side,
            metadata=dataclasses.replace(metadata, node_id=own, known_peers=peers),
            device=dataclasses.replace(device, peer_id=number),
        )
        store.put(self._node, resource, dataclasses.replace(known, side=side))

    def _delete_peer(self, store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        resource, number = words[-2], int(words[-1])
        pair = store.pair(self._node, resource)
        self._is_up(pair, resource)
        device = pair.sides[0].device
        if device is None or device.peer_id != number:
            raise Rejected(f"{resource}: Failure: (162) unknown connection", status=10)
        if device.connection != STANDALONE:
            self._keep(store, resource, pair, lambda: pair.disconnect(0))
        known = store.replica(self._node, resource)
        gone = dataclasses.replace(known.side.device or device, peer="", peer_id=None)
        store.put(self._node, resource, dataclasses.replace(known, side=dataclasses.replace(known.side, device=gone)))
        return ""

    def _forget_peer(self, store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        """Forget what the peer in the file lacks, which must not be connected."""
        resource = _resource(words[-1])
        wanted = self._configured(resource)
        known = store.replica(self._node, resource)
        metadata, device = known.side.metadata, known.side.device
        if device is not None and device.peer_id is not None:
            raise Rejected(f"{resource}: the connection to {wanted.peer} is still configured", status=10)
        if metadata is None:
            raise Rejected("No valid meta data found", status=255)
        peers = tuple((number, peer) for number, peer in metadata.known_peers if number != wanted.node_ids[1])
        side = dataclasses.replace(known.side, metadata=dataclasses.replace(metadata, known_peers=peers))
        store.put(self._node, resource, dataclasses.replace(known, side=side))
        return ""

    def _create_metadata(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        resource = command[-1]
        if "--config-file" in command:
            text = (self._root / command[command.index("--config-file") + 1]).read_text()
            wanted = _parse(text)
        else:
            wanted = self._configured(resource)
        known = store.replica(self._node, resource)
        if known.side.device is not None and known.side.device.is_attached:
            raise Rejected("Device '0' is configured!", status=20)
        volume = store.volume(self._node, wanted.data)
        if volume is None or store.volume(self._node, wanted.metadata) is None:
            raise Rejected(f"open(/dev/{wanted.metadata}) failed: No such file or directory", status=20)
        if not self._of_instance(store, wanted.instance):
            entry = {"instance": wanted.instance, "opcode": self._opcode, "event": "replica created"}
            store.note(self._node, entry)
        for name in (wanted.data, wanted.metadata):
            found = store.volumes(self._node)[name]
            named = dataclasses.replace(found, resource=resource, instance=wanted.instance)
            store.put_volume(self._node, name, named)
        side = dataclasses.replace(known.side, size=volume.size * MIB, metadata=Metadata())
        replica = Replica(wanted.data, wanted.metadata, wanted.instance, known.boot, side)
        store.put(self._node, resource, replica)
        return "initializing activity log\nWriting meta data...\nNew drbd meta data block successfully created.\n"

    def _configured(self, resource: str) -> Configured:
        path = self._root / drbd_resource.FOLDER / f"roundsman-{resource}.res"
        if not path.exists():
            raise Rejected(f"'{resource}' not defined in your config (for this host).", status=10)
        return _parse(path.read_text())

    def _keep(self, store: Store, resource: str, pair: Pair, change: Callable[[], Pair]) -> None:
        """Keep what a command made of a pair; what it refuses is told with the number of the device."""
        try:
            after = change()
        except Rejected as error:
            device = pair.sides[0].device
            prefix = "" if device is None else f"{device.minor}: "
            raise Rejected(f"{prefix}{error.text}", status=error.status) from error
        if after != pair:
            store.keep(self._node, resource, after)

    def _is_up(self, pair: Pair, resource: str, *, is_minor: bool = False) -> None:
        if pair.sides[0].device is None:
            if is_minor:
                raise Rejected("Failure: (127) Device minor not allocated", status=10)
            raise Rejected(f"{resource}: Failure: (158) Unknown resource", status=10)

    def _of_instance(self, store: Store, instance: str) -> List[str]:
        names = store.names(self._node)
        return [name for name in names if store.replica(self._node, name).instance == instance]

    def _tell_proc(self, store: Store) -> None:
        """Write /proc/drbd, if the module is loaded."""
        path = self._root / drbd_node.PROC
        try:
            old = path.read_text()
        except FileNotFoundError:
            return
        rows = [proc_rows(side, now=store.now, speed=speed) for side, speed in self._sides(store).values()]
        new = VERSION_9 if self._is_nine else VERSION + "".join(rows)
        if new != old:
            made = path.with_name("drbd.new")
            made.write_text(new)
            made.replace(path)

    # LVM

    def _lvs(self, store: Store, _words: List[str], _command: Tuple[str, ...]) -> str:
        rows = []
        for name, volume in store.volumes(self._node).items():
            group, _, short = name.partition("/")
            state = {
                "lv_active": "active" if volume.is_active else "",
                "lv_device_open": "open" if volume.is_open or volume.opened_by else "",
            }
            rows.append({"vg_name": group, "lv_name": short, "lv_size": f"{volume.size}.00", **state})
        return json.dumps({"report": [{"lv": rows}]})

    def _vgs(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        used: Dict[str, int] = dict.fromkeys(command[command.index("-o") + 2 :], 0)
        for name, volume in store.volumes(self._node).items():
            group = name.partition("/")[0]
            used[group] = used.get(group, 0) + volume.size
        rows = [
            {"vg_name": group, "vg_size": f"{GROUP_SIZE}.00", "vg_free": f"{GROUP_SIZE - size}.00"}
            for group, size in used.items()
        ]
        return json.dumps({"report": [{"vg": rows}]})

    def _lvcreate(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        size = int(command[command.index("--size") + 1].rstrip("m"))
        group, _, origin = command[-1].partition("/")
        name = f"{group}/{command[command.index('--name') + 1]}"
        if bool(origin) is not ("--snapshot" in command):
            raise Rejected("a snapshot has an origin, and nothing else has one", status=3)
        known = store.volumes(self._node)
        if name in known:
            raise Rejected(
                f'Logical Volume "{name.partition("/")[2]}" already exists in volume group "{group}"', status=5
            )
        rounded = -(-size // EXTENT) * EXTENT
        free = GROUP_SIZE - sum(volume.size for other, volume in known.items() if other.startswith(f"{group}/"))
        if rounded > free:
            raise Rejected(f'Volume group "{group}" has insufficient free space', status=5)
        made = Volume(rounded)
        if origin:
            made = dataclasses.replace(made, content=self._content(store, f"{group}/{origin}"))
        store.put_volume(self._node, name, made)
        return ""

    def _content(self, store: Store, name: str) -> simulated_drbd.Content:
        volume = store.volume(self._node, name)
        if volume is None:
            raise Rejected(f'Failed to find logical volume "{name}"', status=5)
        return store.pair(self._node, volume.resource).sides[0].content if volume.resource else volume.content

    def _lvchange(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        name, is_active = command[-1], command[command.index("--activate") + 1] == "y"
        volume = self._found(store, name)
        if not is_active and (volume.is_open or volume.opened_by):
            raise Rejected(f"Logical volume {name} in use.", status=5)
        store.put_volume(self._node, name, dataclasses.replace(volume, is_active=is_active))
        return ""

    def _lvremove(self, store: Store, _words: List[str], command: Tuple[str, ...]) -> str:
        name = command[-1]
        volume = self._found(store, name)
        if volume.is_open or volume.opened_by:
            raise Rejected(f"Logical volume {name} in use.", status=5)
        store.put_volume(self._node, name, None)
        known = store.replica(self._node, volume.resource) if volume.resource else Replica()
        if known.data == name:
            self._removed(store, volume.resource, known)
        elif known.metadata == name:
            side = dataclasses.replace(known.side, metadata=None)
            store.put(self._node, volume.resource, dataclasses.replace(known, side=side))
        return ""

    def _removed(self, store: Store, resource: str, known: Replica) -> None:
        """The data of a replica are gone; with those of its last disk the instance has none here any more."""
        counter = store.pair(self._node, resource).sides[0].content.counter
        store.put(self._node, resource, None)
        if self._of_instance(store, known.instance):
            return
        newest = max(
            (store.counter(node, resource) or 0 for node in store.nodes_with(resource) if node != self._node), default=0
        )
        entry = {"instance": known.instance, "opcode": self._opcode, "event": "replica removed"}
        store.note(self._node, {**entry, "counter": counter, "newest": newest})

    def _found(self, store: Store, name: str) -> Volume:
        volume = store.volume(self._node, name)
        if volume is None:
            raise Rejected(f'Failed to find logical volume "{name}"', status=5)
        return volume


def status_text(name: str, side: Side, *, now: int, speed: int) -> str:
    """A resource in `drbdsetup status --verbose --statistics`."""
    device = side.device
    if device is None:
        return ""
    size = side.size if device.is_attached else 0
    text = (
        f"{name} role:{device.role} suspended:no\n    write-ordering:flush\n"
        f"  volume:0 minor:{device.minor} disk:{device.disk}\n"
        f"      size:{size} read:0 written:0 al-writes:8 bm-writes:0 upper-pending:0\n"
        "      lower-pending:0 al-suspended:no blocked:no\n"
    )
    if device.connection == STANDALONE:
        return text + "\n"
    connection = "Connecting" if device.connection == CONNECTING else CONNECTED
    replication = {CONNECTING: "Off", CONNECTED: "Established"}.get(device.connection, device.connection)
    left = out_of_sync(side, now=now, speed=speed)
    done = f" done:{_percent(side, left):.2f}" if device.connection in SYNCING else ""
    held = "user" if device.is_paused else "peer" if device.peer_paused else "no"
    return text + (
        f"  peer connection:{connection} role:{device.peer_role} congested:no\n"
        f"    volume:0 replication:{replication} peer-disk:{device.peer_disk}{done}\n"
        f"        resync-suspended:{held}\n"
        f"        received:0 sent:0 out-of-sync:{left} pending:0 unacked:0\n\n"
    )


def status_json(name: str, side: Side, *, now: int, speed: int) -> Dict[str, object]:
    """A resource in `drbdsetup status --json` of version 9."""
    device = side.device or Device(0, "")
    left = out_of_sync(side, now=now, speed=speed)
    connection = {STANDALONE: STANDALONE, CONNECTING: "Connecting"}.get(device.connection, CONNECTED)
    together = {CONNECTED: "Established"}.get(device.connection, device.connection)
    peer_device = {
        "volume": 0,
        "replication-state": together if device.is_together else "Off",
        "peer-disk-state": device.peer_disk,
        "resync-suspended": "user" if device.is_paused else "peer" if device.peer_paused else "no",
        "out-of-sync": left,
        "percent-in-sync": round(_percent(side, left), 2),
    }
    peer = {
        "peer-node-id": device.peer_id,
        "name": device.peer,
        "connection-state": connection,
        "peer-role": device.peer_role,
        "peer_devices": [peer_device],
    }
    return {
        "name": name,
        "role": device.role,
        "devices": [{"volume": 0, "minor": device.minor, "disk-state": device.disk}],
        "connections": [] if device.peer_id is None else [peer],
    }


def proc_rows(side: Side, *, now: int, speed: int) -> str:
    """The rows of a device in /proc/drbd."""
    device = side.device
    if device is None:
        return ""
    if device.connection == STANDALONE and device.disk == DISKLESS and device.role == SECONDARY:
        return f"{device.minor:2d}: cs:Unconfigured\n"
    left = out_of_sync(side, now=now, speed=speed)
    protocol = " " if device.connection == STANDALONE else "C"
    flags = f"r-{'p' if device.peer_paused else '-'}{'u' if device.is_paused else '-'}--"
    rows = (
        f"{device.minor:2d}: cs:{device.connection} ro:{device.role}/{device.peer_role} "
        f"ds:{device.disk}/{device.peer_disk} {protocol} {flags}\n"
        f"    ns:0 nr:0 dw:0 dr:0 al:8 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:{left}\n"
    )
    if device.connection in SYNCING - {PAUSED_SOURCE, PAUSED_TARGET}:
        rows += f"\t[>...................] sync'ed: {_percent(side, left):.1f}% ({left}/{side.size})K\n"
    return rows


def out_of_sync(side: Side, *, now: int, speed: int) -> int:
    """KiB that the peer lacks, as far as this side knows."""
    if side.device is not None and side.device.connection in SYNCING:
        return simulated_drbd.resync_left(side.device, now=now, speed=speed)
    is_known = side.device is not None and side.device.is_attached and side.metadata is not None
    return side.metadata.dirty if is_known and side.metadata else 0


def _percent(side: Side, left: int) -> float:
    return 100.0 * (side.size - left) / side.size if side.size else 100.0


def _shown(name: str, device: Device) -> str:
    two = "        allow-two-primaries\tyes;\n" if device.two_primaries else ""
    net = f'    net {{\n        cram-hmac-alg   \t"sha256";\n{two}    }}\n' if device.connection != STANDALONE else ""
    return f"resource {name} {{\n    options {{\n    }}\n{net}}}\n"


def _resource(word: str) -> str:
    """The name of a resource; of a volume of it too."""
    return word.partition("/")[0]


def _parse(text: str) -> Configured:
    blocks = list(_BLOCK.finditer(text))
    instance, secret = _INSTANCE.search(text), _SECRET.search(text)
    if len(blocks) != 2:  # noqa: PLR2004 - a resource has two nodes
        raise Rejected("the file of the resource does not name two nodes", status=10)
    own, peer = blocks
    data, metadata = (own.group(name).replace("/dev/", "", 1) for name in ("data", "metadata"))
    return Configured(
        instance=instance.group(1) if instance else "",
        minor=int(own.group("minor")),
        data=data,
        metadata=metadata,
        peer=peer.group("host"),
        secret=secret.group(1) if secret else "",
        node_ids=tuple(drbd_resource.written_ids(text)),
    )
