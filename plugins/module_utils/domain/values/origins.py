"""Whom an address belongs to, for limits that count clients."""

from __future__ import annotations

import ipaddress


def origin(address: str) -> str:
    """The client that an address stands for: in IPv6 one client has a whole /64."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


def address(text: str) -> str:
    """An address in its usual form, so that two of the same are equal; what is none is left as it is."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)
