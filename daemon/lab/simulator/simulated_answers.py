"""How DRBD on a node of a lab prints the state of a resource; the texts have the form recorded from version 8.4.11."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Dict

from .simulated_replica import (
    CONNECTED,
    CONNECTING,
    DISKLESS,
    PAUSED_SOURCE,
    PAUSED_TARGET,
    SECONDARY,
    STANDALONE,
    SYNCING,
    UP_TO_DATE,
    Device,
    Side,
    resync_left,
)

if TYPE_CHECKING:
    from .simulated_records import Replica


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
        "paths": [_path(device)],
        "peer_devices": [peer_device],
    }
    return {
        "name": name,
        "role": device.role,
        "devices": [{"volume": 0, "minor": device.minor, "disk-state": device.disk}],
        "connections": [] if device.peer_id is None else [peer],
    }


def _path(device: Device) -> Dict[str, object]:
    ends = {"this_host": device.address, "remote_host": device.peer_address}
    return {**{name: _end(address) for name, address in ends.items()}, "established": device.is_together}


def _end(address: str) -> Dict[str, object]:
    family, _, place = address.partition(" ")
    host, _, port = place.rpartition(":")
    return {"address": host.strip("[]"), "port": int(port or 0), "family": family}


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
        return resync_left(side.device, now=now, speed=speed)
    is_known = side.device is not None and side.device.is_attached and side.metadata is not None
    return side.metadata.dirty if is_known and side.metadata else 0


def _percent(side: Side, left: int) -> float:
    return 100.0 * (side.size - left) / side.size if side.size else 100.0


def show_text(name: str, device: Device, replica: Replica) -> str:
    """A resource in `drbdsetup show`; one that stands alone has forgotten how to reach its peer."""
    net = own = peer = ""
    if device.connection != STANDALONE:
        net = _net(device, 1)
        peer = f"    _remote_host {{\n        address\t\t\t{device.peer_address};\n    }}\n"
        own = f"        address\t\t\t{device.address};\n"
    return (
        f"resource {name} {{\n    options {{\n    }}\n{net}{peer}    _this_host {{\n{own}{_volume(device, replica)}"
        "    }\n}\n"
    )


def show_text_9(name: str, device: Device, replica: Replica) -> str:
    """The same of version 9, which keeps the paths of a connection that stands alone."""
    connection = ""
    if device.peer_id is not None:
        connection = (
            f"    connection {{\n        _peer_node_id {device.peer_id};\n        path {{\n"
            f"            _this_host {device.address};\n            _remote_host {device.peer_address};\n        }}\n"
            f"{_net(device, 2)}    }}\n"
        )
    return (
        f'resource "{name}" {{\n    options {{\n    }}\n    _this_host {{\n{_volume(device, replica)}'
        f"    }}\n{connection}}}\n"
    )


def _net(device: Device, depth: int) -> str:
    edge = "    " * depth
    secret = f'{edge}    shared-secret   \t"{device.secret}";\n' if device.secret else ""
    two = f"{edge}    allow-two-primaries\tyes;\n" if device.two_primaries else ""
    return f'{edge}net {{\n{edge}    cram-hmac-alg   \t"sha256";\n{secret}{two}{edge}}}\n'


def _volume(device: Device, replica: Replica) -> str:
    disk = ""
    if device.is_attached:
        disk = (
            f'            disk\t\t\t"/dev/{replica.data}";\n            meta-disk\t\t\t"/dev/{replica.metadata}";\n'
            "            disk {\n            }\n"
        )
    return f"        volume 0 {{\n            device\t\t\tminor {device.minor};\n{disk}        }}\n"


def claimed(side: Side) -> Side:
    """What an agent says of a replica that claims to be in sync, whatever is so."""
    if side.device is None:
        return side
    device = dataclasses.replace(
        side.device, connection=CONNECTED, disk=UP_TO_DATE, peer_disk=UP_TO_DATE, peer_role=SECONDARY
    )
    return dataclasses.replace(side, device=device)
