"""The definition of a domain of libvirt, made of an instance's facts: pure.

Facts are `uuid`, `memory` (MiB), `vcpus`, `devices` (paths of its disks in order), `nics` (each with `mac` and `link`)
and `hvparams` (texts by name). Format: libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import string
import uuid as uuids
from typing import Any, List, Mapping, Sequence
from xml.etree import ElementTree as ET

from ..domain.values import errors, hvparams

Element = ET.Element
QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
MOST_DISKS = 26
TYPES = {"kvm": "kvm", "tcg": "qemu"}
BOOT = {"disk": "hd", "network": "network"}
MACHINE = "q35"
_SCRIPTS = ("script", "downscript")


def definition(name: str, facts: Mapping[str, Any]) -> str:
    """The XML of an instance's domain: that of its adoption with the facts put in, where there is one.

    Raises:
        InvalidInput: the facts make no domain; the text names what is wrong.
    """
    given = hvparams.kvm(facts["hvparams"])
    try:
        uuids.UUID(facts["uuid"])
    except ValueError as error:
        raise errors.InvalidInput(f"{name}: uuid {facts['uuid']!r} is none") from error
    if facts["memory"] < 1 or facts["vcpus"] < 1:
        raise errors.InvalidInput(f"{name}: it needs memory and vcpus, and has {facts['memory']} and {facts['vcpus']}")
    root = _adopted(name, given, facts) if given.domain_xml else _made(name, given, facts)
    ET.register_namespace("qemu", QEMU)
    return ET.tostring(root, encoding="unicode")


def programs(definition: str) -> List[str]:
    """The programs (paths) that libvirt would start for a definition, as an adopted one may name them."""
    devices = ET.fromstring(definition).findall("devices/*")  # noqa: S314 - made by `definition`
    scripts = [script.get("path", "") for device in devices for script in device if script.tag in _SCRIPTS]
    return [path for path in [*(device.text or "" for device in devices if device.tag == "emulator"), *scripts] if path]


def _made(name: str, given: hvparams.Kvm, facts: Mapping[str, Any]) -> Element:
    accel = given.accel or "kvm"
    root = Element("domain", type=TYPES[accel])
    _identity(root, name, facts)
    system = _child(root, "os")
    _child(system, "type", "hvm", arch="x86_64", machine=given.machine or MACHINE)
    _child(system, "boot", dev=BOOT[given.boot])
    features = _child(root, "features")
    _child(features, "acpi")
    _child(features, "apic")
    _cpu(root, given.cpu or ("host-model" if accel == "kvm" else ""))
    _child(root, "clock", offset="utc")
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _child(root, f"on_{event}", action)
    devices = _child(root, "devices")
    for index, path in enumerate(_devices(name, facts["devices"])):
        _disk(devices, path, letter=string.ascii_lowercase[index])
    for index, nic in enumerate(facts["nics"]):
        _interface(devices, nic, what=f"{name}: nic {index}")
    _consoles(devices, given)
    _child(_child(devices, "rng", model="virtio"), "backend", "/dev/urandom", model="random")
    return root


def _adopted(name: str, given: hvparams.Kvm, facts: Mapping[str, Any]) -> Element:
    try:
        root = ET.fromstring(given.domain_xml)  # noqa: S314 - the configuration's own, not a stranger's
    except ET.ParseError as error:
        raise errors.InvalidInput(f"{name}: hvparams.domain_xml is not XML: {error}") from error
    if root.tag != "domain":
        raise errors.InvalidInput(f"{name}: hvparams.domain_xml is the XML of a {root.tag}, and not of a domain")
    if given.accel:
        root.set("type", TYPES[given.accel])
    _drop_run_time(root)
    _identity(root, name, facts)
    topology = root.find("cpu/topology")
    if topology is not None and _product(topology) != facts["vcpus"]:
        root.findall("cpu")[0].remove(topology)
    disks = [device for device in root.findall("devices/disk") if device.get("device", "disk") == "disk"]
    paths = _devices(name, facts["devices"])
    if len(disks) != len(paths):
        raise errors.InvalidInput(
            f"{name}: hvparams.domain_xml has {len(disks)} disks, and the instance has {len(paths)}"
        )
    for disk, path in zip(disks, paths):  # noqa: B905 - as many of the one as of the other, and strict= is of 3.10
        for found in [*disk.findall("source"), *disk.findall("backingStore")]:
            disk.remove(found)
        _source(disk, path)
    return root


def _drop_run_time(root: Element) -> None:
    """Take away what only a running domain has."""
    root.attrib.pop("id", None)
    for label in root.findall("seclabel"):
        if label.get("type") == "dynamic":
            root.remove(label)
    for parent in root.findall("devices/*"):
        for alias in parent.findall("alias"):
            if not alias.get("name", "").startswith("ua-"):
                parent.remove(alias)


def _identity(root: Element, name: str, facts: Mapping[str, Any]) -> None:
    """Say who it is and how large, in the place of what is said of that already."""
    pinned = root.find("vcpu")
    on = {key: value for key, value in pinned.items() if key != "current"} if pinned is not None else {}
    for tag in ("name", "uuid", "memory", "currentMemory", "vcpu", "vcpus"):
        for found in root.findall(tag):
            root.remove(found)
    texts = {"name": name, "uuid": facts["uuid"], "memory": facts["memory"], "vcpu": facts["vcpus"]}
    for place, (tag, text) in enumerate(texts.items()):
        element = Element(tag, {"memory": {"unit": "MiB"}, "vcpu": on}.get(tag, {}))
        element.text = str(text)
        root.insert(place, element)


def _cpu(root: Element, model: str) -> None:
    if model in {"host-model", "host-passthrough", "maximum"}:
        _child(root, "cpu", mode=model)
    elif model:
        _child(_child(root, "cpu", mode="custom", match="exact"), "model", model, fallback="forbid")


def _disk(devices: Element, path: str, *, letter: str) -> None:
    disk = _child(devices, "disk", device="disk")
    # Without a cache of its own it may migrate; halted by an error it loses nothing, and goes on once that is repaired.
    _child(disk, "driver", name="qemu", type="raw", cache="none", error_policy="stop", rerror_policy="stop")
    _source(disk, path)
    _child(disk, "target", dev=f"vd{letter}", bus="virtio")


def _source(disk: Element, path: str) -> None:
    is_block = path.startswith("/dev/")
    disk.set("type", "block" if is_block else "file")
    disk.insert(1, Element("source", {"dev" if is_block else "file": path}))


def _interface(devices: Element, nic: Mapping[str, str], *, what: str) -> None:
    if not nic.get("link"):
        raise errors.InvalidInput(f"{what} has no link: name the bridge that it is on")
    interface = _child(devices, "interface", type="bridge")
    if nic.get("mac"):
        _child(interface, "mac", address=nic["mac"])
    _child(interface, "source", bridge=nic["link"])
    _child(interface, "model", type="virtio")


def _consoles(devices: Element, given: hvparams.Kvm) -> None:
    serial = _child(devices, "serial", type="pty")
    if given.serial_log:
        _child(serial, "log", file=given.serial_log, append="on")
    if given.vnc:
        _child(devices, "graphics", type="vnc", autoport="yes", listen=given.vnc)
        _child(_child(devices, "video"), "model", type="vga")


def _devices(name: str, paths: Sequence[str]) -> Sequence[str]:
    if len(paths) > MOST_DISKS:
        raise errors.InvalidInput(f"{name}: it has {len(paths)} disks, {MOST_DISKS} is the most")
    for path in paths:
        if not path.startswith("/"):
            raise errors.InvalidInput(f"{name}: {path!r} is no absolute path of a disk")
    return paths


def _product(topology: Element) -> int:
    made = 1
    for level in ("sockets", "dies", "clusters", "cores", "threads"):
        made *= int(topology.get(level, "1"))
    return made


def _child(parent: Element, tag: str, text: str = "", **attributes: str) -> Element:
    made = ET.SubElement(parent, tag, attributes)
    made.text = text or None
    return made
