"""Which addresses this machine has, as its kernel lists them for the network namespace of this process."""

from __future__ import annotations

import ipaddress
import pathlib
import re
import socket
from typing import Iterator, Set

from .domain.values import errors, ip_addresses

NET = pathlib.Path("/proc/net")
_LOCAL = re.compile(r"\|-- (?P<address>[0-9.]+)\s+/32 host LOCAL")


def require(host: str, *, name: str, net: pathlib.Path = NET) -> None:
    """Go on only if this machine, the node of that name, has the address, or all addresses of the host's name.

    Raises:
        Refused: it has not, or the name cannot be resolved here; the text has the remedy.
    """
    if not is_own(host, net=net):
        raise errors.Refused(
            f"{name} does not have the address {host}, at which other nodes would reach it; record an address that it "
            f"has, with `roundsman node modify {name} primary_ip=ADDRESS` (or secondary_ip), then retry"
        )


def is_own(host: str, *, net: pathlib.Path = NET) -> bool:
    """Whether an address, or each address that a name has here, is one of this machine."""
    found = {host.partition("%")[0]} if ip_addresses.is_address(host) else _resolved(host)
    known = {address for address in found if not ipaddress.ip_address(address).is_loopback}
    return bool(found) and {ipaddress.ip_address(address) for address in known} <= listed(net)


def listed(net: pathlib.Path = NET) -> Set[ipaddress._BaseAddress]:
    """The addresses of this machine's interfaces."""
    return {*_of_version_4(net / "fib_trie"), *_of_version_6(net / "if_inet6")}


def _of_version_4(path: pathlib.Path) -> Iterator[ipaddress.IPv4Address]:
    for match in _LOCAL.finditer(_text(path)):
        yield ipaddress.IPv4Address(match["address"])


def _of_version_6(path: pathlib.Path) -> Iterator[ipaddress.IPv6Address]:
    for line in _text(path).splitlines():
        yield ipaddress.IPv6Address(int(line.split()[0], 16))


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except FileNotFoundError:
        # A kernel without this version of IP.
        return ""


def _resolved(host: str) -> Set[str]:
    try:
        return {str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(host, None)}
    except (OSError, ValueError):
        return set()
