from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.cli import name_resolution

if TYPE_CHECKING:
    import pytest

KNOWN = {
    ("node1", socket.AF_INET): ["192.0.2.1"],
    ("node1", socket.AF_INET6): ["fe80::1%eth0", "2001:db8::1"],
    ("here", socket.AF_INET): ["127.0.1.1"],
}


def test_a_name_has_the_first_address_of_a_version_that_others_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str, _port: None, *, family: int, type: int) -> list[Any]:  # noqa: A002 - the name in socket
        if (name, family) not in KNOWN:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(family, type, 6, "", (address, 0)) for address in KNOWN[name, socket.AddressFamily(family)]]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    asked = [("node1", 4), ("node1", 6), ("here", 4), ("nowhere", 6)]
    told = [name_resolution.address_of(name, version=version) for name, version in asked]
    assert told == ["192.0.2.1", "2001:db8::1", "", ""]
