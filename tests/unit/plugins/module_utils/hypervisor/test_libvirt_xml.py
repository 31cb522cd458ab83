from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import libvirt_xml

from . import recorded_libvirt

UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"


def facts(**changed: Any) -> dict[str, Any]:
    return {
        "uuid": UUID,
        "memory": 1024,
        "vcpus": 2,
        "devices": ["/dev/drbd3", "/srv/x/disk1"],
        "nics": [{"mac": "52:54:00:12:34:56", "link": "br0"}, {"mac": "", "link": "br1"}],
        "hvparams": {},
        **changed,
    }


def made(**changed: Any) -> ET.Element:
    return ET.fromstring(libvirt_xml.definition("web1", facts(**changed)))


def found(root: ET.Element, path: str, attribute: str = "") -> list[str | None]:
    return [one.get(attribute) if attribute else one.text for one in root.findall(path)]


def test_an_instance_has_its_identity_and_size() -> None:
    root = made()
    assert [found(root, tag) for tag in ("name", "uuid", "memory", "vcpu")] == [["web1"], [UUID], ["1024"], ["2"]]
    assert (root.get("type"), found(root, "memory", "unit")) == ("kvm", ["MiB"])
    assert (found(root, "cpu", "mode"), found(root, "os/type", "machine")) == (["host-model"], ["q35"])
    assert root.find("features/acpi") is not None, "a soft stop takes ACPI"


def test_disks_are_in_order_without_a_cache_and_halt_on_errors() -> None:
    root = made()
    assert found(root, "devices/disk", "type") == ["block", "file"]
    assert (found(root, "devices/disk/source", "dev"), found(root, "devices/disk/source", "file")) == (
        ["/dev/drbd3", None],
        [None, "/srv/x/disk1"],
    )
    assert found(root, "devices/disk/target", "dev") == ["vda", "vdb"]
    assert found(root, "devices/disk/driver", "cache") == ["none", "none"]
    assert found(root, "devices/disk/driver", "error_policy") == ["stop", "stop"]


def test_interfaces_are_on_their_bridges_and_may_leave_the_address_to_libvirt() -> None:
    root = made()
    assert found(root, "devices/interface/source", "bridge") == ["br0", "br1"]
    assert found(root, "devices/interface/mac", "address") == ["52:54:00:12:34:56"]


def test_parameters_are_put_in() -> None:
    root = made(
        hvparams={
            "accel": "tcg",
            "machine": "pc",
            "cpu": "Penryn",
            "boot": "network",
            "vnc": "::1",
            "serial_log": "/var/log/a&b",
            "migration_limit": "5",
        }
    )
    assert root.get("type") == "qemu"
    assert found(root, "os/type", "machine") == ["pc"]
    assert found(root, "os/boot", "dev") == ["network"]
    assert found(root, "cpu/model") == ["Penryn"]
    assert found(root, "devices/graphics", "listen") == ["::1"]
    assert found(root, "devices/serial/log", "file") == ["/var/log/a&b"]


def test_the_serial_console_is_a_terminal_and_there_is_no_screen_unless_asked_for() -> None:
    root = made()
    assert found(root, "devices/serial", "type") == ["pty"]
    assert root.find("devices/graphics") is root.find("devices/serial/log") is None
    assert made(hvparams={"accel": "tcg"}).find("cpu") is None
    assert found(made(hvparams={"cpu": "host-passthrough"}), "cpu", "mode") == ["host-passthrough"]


def test_an_adopted_definition_stands_but_for_what_the_configuration_has() -> None:
    root = made(devices=["/dev/drbd3"], nics=[], hvparams={"domain_xml": recorded_libvirt.DUMP})
    assert [found(root, tag) for tag in ("name", "uuid", "memory", "vcpu")] == [["web1"], [UUID], ["1024"], ["2"]]
    assert found(root, "memory", "unit") == ["MiB"]
    assert root.find("currentMemory") is None
    assert [dict(one.attrib) for one in root.findall("vcpu")] == [{"placement": "static"}]
    disk = root.findall("devices/disk")[1]
    assert (disk.get("type"), found(disk, "source", "dev"), found(disk, "driver", "type")) == (
        "block",
        ["/dev/drbd3"],
        ["qcow2"],
    )
    assert root.findall("devices/disk")[0].find("source") is None, "its CD stays as it is"
    assert (found(root, "os/type", "machine"), root.get("type")) == (["pc-i440fx-7.2"], "qemu")
    assert found(root, "devices/interface/mac", "address") == ["52:54:00:aa:bb:cc"]
    assert found(root, f"{{{libvirt_xml.QEMU}}}commandline/{{{libvirt_xml.QEMU}}}arg", "value") == ["-no-user-config"]


def test_what_only_a_running_domain_has_is_left_out() -> None:
    root = made(devices=["/dev/drbd3"], hvparams={"domain_xml": recorded_libvirt.DUMP})
    assert (root.get("id"), root.find("seclabel"), root.find("devices/disk/backingStore")) == (None, None, None)
    assert found(root, "devices/*/alias", "name") == ["ua-first"]
    assert found(root, "devices/disk/address", "slot") == ["0x02"]


@pytest.mark.parametrize(("vcpus", "kept"), [(2, True), (3, False)])
def test_a_topology_that_does_not_fit_any_more_goes(vcpus: int, kept: bool) -> None:
    root = made(devices=["/a"], vcpus=vcpus, hvparams={"domain_xml": recorded_libvirt.DUMP})
    assert (root.find("cpu/topology") is not None) is kept
    assert found(root, "cpu/model") == ["qemu64"]


def test_an_adopted_instance_can_be_accelerated_otherwise() -> None:
    root = made(devices=["/a"], hvparams={"domain_xml": recorded_libvirt.DUMP, "accel": "kvm"})
    assert root.get("type") == "kvm"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"uuid": "none"}, "web1: uuid 'none' is none"),
        ({"memory": 0}, "web1: it needs memory and vcpus, and has 0 and 2"),
        ({"devices": ["disk"]}, "web1: 'disk' is no absolute path of a disk"),
        ({"devices": ["/x"] * 27}, "web1: it has 27 disks, 26 is the most"),
        ({"nics": [{"mac": "", "link": ""}]}, "web1: nic 0 has no link: name the bridge that it is on"),
        ({"hvparams": {"domain_xml": "<domain>"}}, r"web1: hvparams\.domain_xml is not XML: no element found"),
        ({"hvparams": {"domain_xml": "<network/>"}}, "is the XML of a network, and not of a domain"),
        ({"hvparams": {"domain_xml": recorded_libvirt.DUMP}}, "has 1 disks, and the instance has 2"),
        ({"hvparams": {"accel": "xen"}}, r"hvparams\.accel: 'xen' is not one of kvm, tcg"),
    ],
)
def test_facts_that_make_no_domain_are_refused(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.InvalidInput, match=text):
        libvirt_xml.definition("web1", facts(**changed))
