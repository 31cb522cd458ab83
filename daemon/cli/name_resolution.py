"""Addresses of names, by getaddrinfo and nothing else: it knows both versions of IP (seed 004, "Name resolution")."""

from __future__ import annotations

import ipaddress
import socket

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


def address_of(name: str, *, version: int) -> str:
    """The first address of a name in one version of IP; '' where it has none that other machines can reach."""
    try:
        found = socket.getaddrinfo(name, None, family=FAMILIES[version], type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""
    addresses = [str(entry[4][0]) for entry in found]
    return next((address for address in addresses if _is_reachable(address)), "")


def _is_reachable(address: str) -> bool:
    # Addresses of one link only need an interface, which is another one on each machine.
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified)
