"""IP addresses as texts."""

from __future__ import annotations

import ipaddress
import re

VERSIONS = (4, 6)


def is_address(text: str) -> bool:
    """Whether a text is an IP address; the zone of an IPv6 address must be the name of an interface, as %eth0."""
    plain, mark, zone = text.partition("%")
    if mark and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", zone):
        return False
    try:
        return ipaddress.ip_address(plain).version in (VERSIONS[1:] if mark else VERSIONS)
    except ValueError:
        return False


def normal(address: str) -> str:
    """An IP address in its usual form."""
    return str(ipaddress.ip_address(address))


def is_loopback(address: str) -> bool:
    """Whether an IP address is one of the machine that uses it."""
    return ipaddress.ip_address(address).is_loopback


def bracketed(address: str) -> str:
    """A host as it stands in a URL: an IPv6 address is in brackets, a name or an IPv4 address is as it is."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
