"""The domains that libvirt has on a node, as they are found: who runs, of what size, with which disks and interfaces.

For an adoption: nothing here changes anything. Format: libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict
from xml.etree import ElementTree as ET

from ..domain.values import errors
from . import virsh_output

if TYPE_CHECKING:
    from . import virsh

_MIB = {"b": 2.0**-20, "bytes": 2.0**-20, "kb": 1000 / 2.0**20, "k": 2.0**-10, "kib": 2.0**-10, "mb": 1e6 / 2.0**20}
_MIB.update({"m": 1.0, "mib": 1.0, "gb": 1e9 / 2.0**20, "g": 2.0**10, "gib": 2.0**10, "tib": 2.0**20})
_SOURCES = ("file", "dev", "dir", "name", "volume", "path")


def found(client: virsh.Virsh) -> Dict[str, Any]:
    """What `memory` (MiB), memory in use by the node itself, and `cpus` it has, and its `domains`.

    Raises:
        Failed: libvirt does not answer.
    """
    domains = [_domain(client, name, uuid) for name, uuid in sorted(_names(client).items())]
    running = sum(domain["memory"] for domain in domains if domain["running"])
    return {**node(client.run("nodeinfo"), client.run("nodememstats"), running=running), "domains": domains}


def node(info: str, statistics: str, *, running: int) -> Dict[str, int]:
    """The size of a node, of `nodeinfo` and `nodememstats`: what is used there by others than the domains is its own.

    Raises:
        Failed: the text is not that.
    """
    known, counted = _values(info), _values(statistics)
    try:
        total = counted["total"] // 1024
        used = (counted["total"] - sum(counted.get(name, 0) for name in ("free", "buffers", "cached"))) // 1024
        return {"memory": total, "own_memory": max(0, used - running), "cpus": known["CPU(s)"]}
    except KeyError as error:
        raise errors.Failed(f"virsh does not say {error} of this node") from error


def described(xml: str) -> Dict[str, Any]:
    """A domain of its XML: memory in MiB, vcpus, disks and interfaces in their order.

    Of a disk there are its `type`, its `source` (a path or the first name of what it is), the `target` in the guest;
    removable media are left out. Of an interface there are `mac`, `type` and what it is connected to as `link`.

    Raises:
        Failed: it is not the XML of a domain.
    """
    try:
        root = ET.fromstring(xml)  # noqa: S314 - of this node's own libvirt
        memory = root.findall("memory")[0]
        size = float(memory.text or "") * _MIB[memory.get("unit", "KiB").lower()]
        vcpu = root.find("vcpu")
        vcpus = 1 if vcpu is None else int(vcpu.get("current", vcpu.text or "1"))
    except (ET.ParseError, IndexError, KeyError, ValueError) as error:
        raise errors.Failed(f"the definition of a domain is not as expected: {error!r}") from error
    disks = [disk for disk in root.findall("devices/disk") if disk.get("device", "disk") in {"disk", "lun"}]
    return {
        "memory": int(-(-size // 1)),
        "vcpus": vcpus,
        "disks": [_disk(disk) for disk in disks],
        "nics": [_nic(interface) for interface in root.findall("devices/interface")],
    }


def _names(client: virsh.Virsh) -> Dict[str, str]:
    return virsh_output.uuids(client.run("list", "--all", "--uuid", "--name"))


def _domain(client: virsh.Virsh, name: str, uuid: str) -> Dict[str, Any]:
    told = _values_of_text(client.run("dominfo", uuid))
    running = told.get("State", "") not in {"shut off", ""}
    seen = client.run("dumpxml", uuid) if running else client.run("dumpxml", "--inactive", uuid)
    return {
        "name": name,
        "uuid": uuid,
        "running": running,
        "autostart": told.get("Autostart") == "enable",
        "persistent": told.get("Persistent") == "yes",
        "xml": client.run("dumpxml", "--inactive", uuid),
        **described(seen),
    }


def _disk(device: ET.Element) -> Dict[str, str]:
    source = device.find("source")
    given = {} if source is None else source.attrib
    target = device.find("target")
    return {
        # What passes SCSI commands on is no disk that could be anywhere else.
        "type": "lun" if device.get("device") == "lun" else device.get("type", ""),
        "source": next((given[name] for name in _SOURCES if name in given), ""),
        "target": "" if target is None else target.get("dev", ""),
    }


def _nic(interface: ET.Element) -> Dict[str, str]:
    mac, source = interface.find("mac"), interface.find("source")
    given = {} if source is None else source.attrib
    return {
        "type": interface.get("type", ""),
        "mac": "" if mac is None else mac.get("address", "").lower(),
        "link": next((given[name] for name in ("bridge", "network", "dev") if name in given), ""),
    }


def _values_of_text(text: str) -> Dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _values(text: str) -> Dict[str, int]:
    numbers = {name: re.match(r"[0-9]+", value) for name, value in _values_of_text(text).items()}
    return {name: int(value[0]) for name, value in numbers.items() if value}
