from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.plugins.module_utils.storage.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

NET = """    net {
        cram-hmac-alg   \t"sha256";
        shared-secret   \t"s3";
    }
    _remote_host {
        address\t\t\tipv4 192.0.2.2:11000;
    }
"""
DISK = """            disk\t\t\t"/dev/roundsman/u-1.disk0";
            meta-disk\t\t\t"/dev/roundsman/u-1.meta0";
            disk {
            }
"""
OWN = "        address\t\t\tipv4 192.0.2.1:11000;\n"
SHOWN = """resource web1-disk0 {{
    options {{
    }}
{net}    _this_host {{
{own}        volume 0 {{
            device\t\t\tminor 0;
{disk}        }}
    }}
}}
"""
"""As version 8.4.11 printed it on a real node, save the names."""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path / "n1")
    found.place()
    return found


def test_show_of_a_resource_has_the_addresses_of_both_nodes(machine: Machine) -> None:
    assert machine.do("drbdsetup", "show") == SHOWN.format(net=NET, own=OWN, disk=DISK)


def test_a_resource_that_stands_alone_shows_nothing_of_its_connection(machine: Machine) -> None:
    machine.drbdadm("disconnect", "web1-disk0")
    assert machine.do("drbdsetup", "show") == SHOWN.format(net="", own="", disk=DISK)
    machine.drbdadm("connect", "web1-disk0")
    assert machine.do("drbdsetup", "show") == SHOWN.format(net=NET, own=OWN, disk=DISK)


def test_a_resource_without_its_disk_shows_nothing_of_it(machine: Machine) -> None:
    machine.drbdadm("detach", "web1-disk0")
    assert machine.do("drbdsetup", "show") == SHOWN.format(net=NET, own=OWN, disk="")


def test_resources_are_printed_with_a_line_between_them(machine: Machine) -> None:
    machine.place("web2", "u-2", minors=(1,))
    assert "}\n\nresource web2-disk0 {\n" in machine.do("drbdsetup", "show")
