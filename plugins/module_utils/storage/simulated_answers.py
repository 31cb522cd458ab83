"""How DRBD on a node of a lab prints the state of a resource; the texts have the form recorded from version 8.4.11."""

from __future__ import annotations

from typing import Dict

from .simulated_replica import (
    CONNECTED,
    CONNECTING,
    DISKLESS,
    PAUSED_SOURCE,
    PAUSED_TARGET,
    SECONDARY,
    STANDALONE,
    SYNCING,
    Device,
    Side,
    resync_left,
)


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
        return resync_left(side.device, now=now, speed=speed)
    is_known = side.device is not None and side.device.is_attached and side.metadata is not None
    return side.metadata.dirty if is_known and side.metadata else 0


def _percent(side: Side, left: int) -> float:
    return 100.0 * (side.size - left) / side.size if side.size else 100.0


def show_text(name: str, device: Device) -> str:
    """A resource in `drbdsetup show`."""
    two = "        allow-two-primaries\tyes;\n" if device.two_primaries else ""
    net = f'    net {{\n        cram-hmac-alg   \t"sha256";\n{two}    }}\n' if device.connection != STANDALONE else ""
    return f"resource {name} {{\n    options {{\n    }}\n{net}}}\n"
