"""The programs of DRBD 8.4 and LVM on a node of a lab: they take the commands of the real ones and answer as those do.

Their texts have the form recorded from version 8.4.11 (`simulated_answers`); what a command does is in
`simulated_drbd`, LVM is in `simulated_lvm`.

A node whose `VERSION_FILE` says so has version 9. What is different then is from that version's manual and sources and
was not seen on a real node: status in JSON, the numbers of nodes, and metadata that keep what a peer lacks under the
number of that peer until it is forgotten.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Optional, Tuple

from ....plugins.module_utils.domain.values import errors
from ....plugins.module_utils.storage import drbd_node, drbd_resource, program_output
from . import node_journal, simulated_lvm, simulated_node, simulated_resource, simulated_store
from .simulated_answers import claimed, proc_rows, show_text, show_text_9, status_json, status_text
from .simulated_records import MIB, Replica
from .simulated_replica import STANDALONE, Metadata, Rejected, Side
from .simulated_resource import Configured, resource_name
from .simulated_store import Store

if TYPE_CHECKING:
    import pathlib

    from .simulated_drbd import Pair

VERSION = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: F73C670A7EC572DB9CF3E5B \n"
VERSION_9 = "version: 9.2.8 (api:2/proto:86-122)\nsrcversion: F73C670A7EC572DB9CF3E5B \n"
_CONNECTING = frozenset({"adjust", "connect", "net-options"})
"""Verbs of drbdadm whose child gets the options of the connection."""
Act = Callable[[Store, List[str], Tuple[str, ...]], str]


class SimulatedPrograms:
    """Runs the programs of the node with this root, whose siblings are the other nodes of its lab.

    `opcode` is written beside what happens to replicas; `clock` counts in ns.
    """

    def __init__(self, root: pathlib.Path, *, opcode: str = "", clock: Optional[Callable[[], int]] = None) -> None:
        self._root = root.resolve()
        self._opcode = opcode
        self._clock = clock
        is_full = bool(simulated_node.fault(self._root, simulated_node.FULL))
        lvm = simulated_lvm.SimulatedLvm(self._root.name, opcode=opcode, is_full=is_full)
        self._acts: Dict[str, Act] = {
            "modprobe": self._modprobe,
            "lvs": lvm.lvs,
            "vgs": lvm.vgs,
            "lvcreate": lvm.lvcreate,
            "lvchange": lvm.lvchange,
            "lvremove": lvm.lvremove,
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
        resource = resource_name(command[-1])
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
            resource = resource_name(words[-1])
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
        if self._opcode == drbd_node.REPORT:
            self._note_report(store, self._true_sides(store))
        sides = self._sides(store)
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
        names = {
            store.replica(self._node, name).instance
            for name, (side, _) in sides.items()
            if side.device and side.device.is_alone
        }
        entry = {"event": "reported", "opcode": "", "alone": sorted(names)}
        node_journal.append(self._root, entry, is_durable=False)

    def _show(self, store: Store, _words: List[str], _command: Tuple[str, ...]) -> str:
        devices = {name: side.device for name, (side, _) in self._sides(store).items() if side.device}
        known = {name: store.replica(self._node, name) for name in devices}
        show = show_text_9 if self._is_nine else show_text
        return "\n".join(show(name, device, known[name]) for name, device in devices.items())

    def _sides(self, store: Store) -> Dict[str, Tuple[Side, int]]:
        """The resources that are up, as DRBD prints them to whoever asks."""
        sides = self._true_sides(store)
        if os.environ.get(simulated_node.FROM_AGENT) and simulated_node.fault(self._root, simulated_node.LIES):
            return {name: (claimed(side), speed) for name, (side, speed) in sides.items()}
        return sides

    def _true_sides(self, store: Store) -> Dict[str, Tuple[Side, int]]:
        found = {name: store.side(self._node, name) for name in store.names(self._node)}
        return {
            name: (side, store.speed(self._node, side.device.other))
            for name, side in found.items()
            if side.device is not None
        }

    def _get_gi(self, store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        resource = resource_name(words[-1])
        found = store.pair(self._node, resource).sides[0]
        if found.metadata is None:
            raise Rejected("No valid meta data found", status=255)
        return f"{found.metadata.text()}\n"

    def _lower_device(self, _store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        return f"/dev/{self._configured(resource_name(words[-1])).data}\n"

    def _net_options(self, store: Store, words: List[str], command: Tuple[str, ...]) -> str:
        resource = words[-1]
        pair = store.pair(self._node, resource)
        self._is_up(pair, resource)
        allowed = "--allow-two-primaries=yes" in command
        self._keep(store, resource, pair, lambda: pair.allow_two(0, allowed=allowed))
        return ""

    def _attach(self, store: Store, words: List[str], _command: Tuple[str, ...]) -> str:
        resource = resource_name(words[-1])
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
        resource = resource_name(words[-1])
        wanted = self._configured(resource)
        if self._is_nine:
            simulated_resource.refuse_numbers(wanted, store.replica(self._node, resource).side.metadata)
        pair = store.pair(self._node, resource)
        device = pair.sides[0].device
        if device is None:
            known = store.replica(self._node, resource)
            renamed = dataclasses.replace(known, data=wanted.data, metadata=wanted.metadata, instance=wanted.instance)
            store.put(self._node, resource, renamed)
            alone = dataclasses.replace(pair, sides=(pair.sides[0], Side()))
            made = alone.up(0, minor=wanted.minor, peer=wanted.peer, secret=wanted.secret, addresses=wanted.addresses)
            self._keep(store, resource, alone, lambda: made)
        elif (device.peer, device.secret, device.address, device.peer_address) != (
            wanted.peer,
            wanted.secret,
            *wanted.addresses,
        ):
            is_other = device.peer != wanted.peer or device.peer_address not in {"", wanted.addresses[1]}
            if is_other and device.connection != STANDALONE:
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
        resource = resource_name(words[-1])
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
            own, other = wanted.addresses
            device = dataclasses.replace(
                known.side.device, peer=wanted.peer, secret=wanted.secret, address=own, peer_address=other
            )
            store.put(
                self._node, resource, dataclasses.replace(known, side=dataclasses.replace(known.side, device=device))
            )

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
        resource = resource_name(words[-1])
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
            wanted = simulated_resource.parse(text)
        else:
            wanted = self._configured(resource)
        known = store.replica(self._node, resource)
        if known.side.device is not None and known.side.device.is_attached:
            raise Rejected("Device '0' is configured!", status=20)
        volume = store.volume(self._node, wanted.data)
        if volume is None or store.volume(self._node, wanted.metadata) is None:
            raise Rejected(f"open(/dev/{wanted.metadata}) failed: No such file or directory", status=20)
        if not store.names_of(self._node, wanted.instance):
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
        return simulated_resource.parse(path.read_text())

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
