from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import own_addresses
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from pathlib import Path

TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 192.0.2.0/24 2 0 2
        +-- 192.0.2.0/30 2 0 2
           |-- 192.0.2.0
              /24 link UNICAST
           |-- 192.0.2.2
              /32 host LOCAL
        |-- 192.0.2.7
           /32 universe UNICAST
        |-- 192.0.2.255
           /32 link BROADCAST
Id 9:
     |-- 198.51.100.2
        /32 host LOCAL
"""
INET6 = """20010db8000000000000000000000002 04 40 00 82     eth0
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "fib_trie").write_text(TRIE)
    (tmp_path / "if_inet6").write_text(INET6)
    return tmp_path


@pytest.mark.parametrize(
    "address", ["192.0.2.2", "198.51.100.2", "2001:DB8::2", "fe80::fc:ff:fe00:1%eth0", "127.0.0.9"]
)
def test_addresses_of_interfaces_and_of_the_loopback_are_its_own(net: Path, address: str) -> None:
    own_addresses.require(address, name="node2", net=net)


@pytest.mark.parametrize(
    "address", ["192.0.2.0", "192.0.2.7", "192.0.2.9", "192.0.2.255", "2001:db8::3", "0.0.0.0", "::"]
)
def test_others_are_not_and_the_refusal_has_the_remedy(net: Path, address: str) -> None:
    with pytest.raises(errors.Refused, match=f"^node2 does not have the address {address}, .*`roundsman node modify"):
        own_addresses.require(address, name="node2", net=net)


@pytest.mark.parametrize(
    ("found", "is_own"),
    [
        (["192.0.2.2"], True),
        (["192.0.2.2", "2001:db8::2"], True),
        (["127.0.1.1"], True),
        (["192.0.2.2", "192.0.2.9"], False),
        (["192.0.2.9"], False),
        ([], False),
    ],
)
def test_a_name_is_its_own_if_all_its_addresses_are(
    net: Path, monkeypatch: pytest.MonkeyPatch, found: list[str], *, is_own: bool
) -> None:
    def resolve(_host: str, _port: None) -> list[Any]:
        if not found:
            raise socket.gaierror
        return [(None, None, None, "", (address, 0)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert own_addresses.is_own("node2.example.com", net=net) is is_own


def test_a_kernel_without_a_version_of_ip_has_no_addresses_of_it(net: Path) -> None:
    (net / "if_inet6").unlink()
    assert own_addresses.is_own("192.0.2.2", net=net)
    assert not own_addresses.is_own("2001:db8::2", net=net)


def test_the_kernel_of_this_machine_lists_them() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        assert own_addresses.is_own(probe.getsockname()[0])
    assert not own_addresses.is_own("203.0.113.254")
