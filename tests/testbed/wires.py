"""The two networks of a bed's guests: bridges and taps of this machine, and cables that can be cut."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from . import beds

if TYPE_CHECKING:
    from collections.abc import Iterable

NETWORKS = ("primary", "secondary")
"""SSH and libvirt; copies of disks and migrations."""
PRIMARY, SECONDARY = "10.78", "10.80"
SUBNETS = 250


def ip(*arguments: str) -> str:
    """What `ip` says.

    Raises:
        Failed: it failed; the text has its words.
    """
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise errors.Failed(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def free_subnet(bed: beds.Bed) -> int:
    """The third part of the addresses of a bed's networks: one that nothing on this machine has.

    Raises:
        Failed: all are taken.
    """
    taken = {
        one["local"].rpartition(".")[0]
        for device in json.loads(ip("-json", "-4", "address"))
        for one in device["addr_info"]
    }
    first = int(bed.mark, 16)
    for number in ((first + step) % SUBNETS for step in range(SUBNETS)):
        if f"{PRIMARY}.{number}" not in taken:
            return number
    raise errors.Failed(f"of {PRIMARY}.0.0/16 no network is free on this machine")


def bridge(bed: beds.Bed, network: str) -> str:
    """The name of a network's bridge."""
    return f"rb{bed.mark}{network[0]}"


def tap(bed: beds.Bed, node: str, network: str) -> str:
    """The name of this machine's end of a node's cable."""
    return f"rt{bed.mark}{network[0]}{node.removeprefix('node')}"


def make(bed: beds.Bed, nodes: Iterable[str], *, address: str) -> None:
    """Make both networks; this machine has an address, with its prefix, on the first.

    Raises:
        Missing: this machine has no bridges or no taps.
    """
    try:
        for network in NETWORKS:
            ip("link", "add", bridge(bed, network), "type", "bridge")
            ip("link", "set", bridge(bed, network), "up")
        ip("address", "add", address, "dev", bridge(bed, "primary"))
        for network in NETWORKS:
            for node in nodes:
                ip("tuntap", "add", tap(bed, node, network), "mode", "tap")
                ip("link", "set", tap(bed, node, network), "master", bridge(bed, network), "up")
    except errors.Failed as error:
        raise beds.Missing(
            f"this machine cannot make networks for guests: {error}; it takes root with CAP_NET_ADMIN, and a kernel"
            " with bridges and taps (modprobe bridge tun)"
        ) from error


def cut(bed: beds.Bed, node: str, network: str, *, is_cut: bool) -> None:
    """Pull a node's cable, or plug it in again."""
    ip("link", "set", tap(bed, node, network), "down" if is_cut else "up")


def remove(bed: beds.Bed) -> None:
    """Remove the bed's devices, whatever is there of them.

    Raises:
        Failed: some are still there.
    """
    for name in _devices(bed):
        # One may go by itself meanwhile; what counts is what is left.
        subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)
    if left := _devices(bed):
        raise errors.Failed(f"these devices could not be removed: {', '.join(left)}")


def _devices(bed: beds.Bed) -> list[str]:
    found: list[dict[str, Any]] = json.loads(ip("-json", "link"))
    return [one["ifname"] for one in found if one["ifname"].startswith((f"rb{bed.mark}", f"rt{bed.mark}"))]
