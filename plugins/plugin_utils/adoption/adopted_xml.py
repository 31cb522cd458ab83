"""Which definitions of domains may be adopted: other nodes give them to libvirt as root, and no host is trusted.

An allow-list: elements, types and paths that honest definitions have. Format: libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, FrozenSet, Mapping, Tuple
from xml.etree import ElementTree as ET

from ...module_utils.domain.values import errors

DEEPEST = 16
_DEVICES = "domain/devices"
_METADATA = "domain/metadata"
_FREE_TEXT = r"domain/(title|description|sysinfo/[A-Za-z]+/entry)|domain/devices/disk/(serial|vendor|product)"
"""Where libvirt takes any text for what it is."""


def _words(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


def _devices(kinds: Mapping[str, str]) -> Dict[str, FrozenSet[str]]:
    usual = "address alias boot driver acpi"
    return {f"{_DEVICES}/{kind}": _words(f"{usual} {children}") for kind, children in kinds.items()}


_CHARACTER_DEVICE = "source target protocol"
_CHARACTER_TYPES = _words("pty null vc unix spicevmc spiceport qemu-vdagent")
_BY_KIND = {
    "emulator": "",
    "disk": "target iotune serial wwn vendor product readonly shareable transient blockio geometry",
    "controller": "model target master",
    "interface": "mac source model target bandwidth vlan virtualport mtu link rom filterref guest port coalesce",
    **dict.fromkeys(("serial", "parallel", "console", "channel"), _CHARACTER_DEVICE),
    "input": "",
    "tpm": "backend",
    "graphics": "listen image jpeg zlib playback streaming clipboard filetransfer mouse channel gl",
    "sound": "codec audio",
    "audio": "",
    "video": "model",
    "memballoon": "stats",
    "rng": "backend rate",
    "watchdog": "",
    "panic": "",
    "vsock": "cid",
    "redirdev": "source protocol",
    "redirfilter": "usbdev",
    "hub": "",
    "smartcard": "",
    "iommu": "",
    "memory": "source target uuid",
    "crypto": "backend",
}
_CHILDREN: Mapping[str, FrozenSet[str]] = {
    "domain": _words(
        "name uuid genid title description metadata memory currentMemory maxMemory memoryBacking memtune blkiotune "
        "vcpu vcpus iothreads iothreadids defaultiothread cputune numatune resource sysinfo os features cpu clock "
        "on_poweroff on_reboot on_crash on_lockfailure pm perf devices seclabel"
    ),
    "domain/os": _words("type firmware boot bootmenu bios smbios loader nvram"),
    _DEVICES: frozenset(_BY_KIND),
    f"{_DEVICES}/tpm/backend": _words("active_pcr_banks"),
    **_devices(_BY_KIND),
}
"""Which elements an element may have; one that is not here may have any, and is held by the rules of values."""
_TYPES: Mapping[Tuple[str, str], FrozenSet[str]] = {
    ("domain", "type"): _words("kvm qemu"),
    ("domain/seclabel", "type"): _words("dynamic"),
    ("domain/sysinfo", "type"): _words("smbios"),
    ("domain/os/type", ""): _words("hvm"),
    ("domain/os/loader", "readonly"): _words("yes"),
    ("domain/os/nvram", "type"): _words("file"),
    (f"{_DEVICES}/disk", "device"): _words("disk cdrom floppy"),
    (f"{_DEVICES}/disk", "rawio"): _words("no"),
    (f"{_DEVICES}/disk", "sgio"): _words("filtered"),
    (f"{_DEVICES}/disk/driver", "name"): _words("qemu"),
    (f"{_DEVICES}/disk/driver", "type"): _words("raw qcow2"),
    (f"{_DEVICES}/interface", "type"): _words("bridge network direct"),
    **{
        (f"{_DEVICES}/{kind}", "type"): _CHARACTER_TYPES
        for kind in ("serial", "parallel", "console", "channel", "redirdev", "smartcard")
    },
    **{(f"{_DEVICES}/{kind}/source", "mode"): _words("bind") for kind in ("serial", "parallel", "console", "channel")},
    (f"{_DEVICES}/smartcard", "mode"): _words("passthrough"),
    (f"{_DEVICES}/input", "type"): _words("mouse tablet keyboard"),
    (f"{_DEVICES}/tpm/backend", "type"): _words("emulator"),
    (f"{_DEVICES}/graphics", "type"): _words("vnc spice"),
    (f"{_DEVICES}/graphics/listen", "type"): _words("address network none"),
    (f"{_DEVICES}/audio", "type"): _words("none spice"),
    (f"{_DEVICES}/rng/backend", "model"): _words("random builtin"),
    (f"{_DEVICES}/memory", "model"): _words("dimm virtio-mem"),
    (f"{_DEVICES}/crypto/backend", "model"): _words("builtin"),
}
"""By element and attribute (or "" for its text) the accepted values, where it is there."""
_NEEDED = {
    (f"{_DEVICES}/smartcard", "type"),
    *((f"{_DEVICES}/{kind}", "type") for kind in ("redirdev", "input", "audio", "interface")),
    (f"{_DEVICES}/tpm/backend", "type"),
    (f"{_DEVICES}/rng/backend", "model"),
}
_PROGRAM = r"/usr/(bin|libexec|lib|lib64)/([A-Za-z0-9_-]+/)*(qemu-system-[A-Za-z0-9_]+|qemu-kvm|kvm|kvm-spice)"
_FIRMWARE = r"/usr/share/([A-Za-z0-9_+][A-Za-z0-9_+.-]*/)*[A-Za-z0-9_+][A-Za-z0-9_+.-]*"
_CHANNEL = (
    r"/var/lib/libvirt/qemu/[A-Za-z0-9_-][A-Za-z0-9_.-]*\.agent|"
    r"(/var/lib|/var/run|/run)/libvirt/qemu/channel/([A-Za-z0-9_-][A-Za-z0-9_.-]*/)*[A-Za-z0-9_-][A-Za-z0-9_.-]*"
)
_PATHS: Mapping[Tuple[str, str], str] = {
    (f"{_DEVICES}/emulator", ""): _PROGRAM,
    ("domain/os/loader", ""): rf"|{_FIRMWARE}",
    ("domain/os/nvram", "template"): _FIRMWARE,
    (f"{_DEVICES}/rng/backend", ""): r"|/dev/(u?random|hwrng)",
    ("domain/resource/partition", ""): r"/machine(\.slice)?(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*",
    ("domain/clock", "timezone"): r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*",
    **{
        (f"{_DEVICES}/{kind}/source", "path"): rf"/dev/pts/[0-9]+|{_CHANNEL}"
        for kind in ("serial", "parallel", "console", "channel")
    },
    (f"{_DEVICES}/console", "tty"): r"/dev/pts/[0-9]+",
}
"""Where a path may be, and which; anywhere else nothing has a slash."""
_NVRAM = r"(/var/lib/libvirt/qemu/nvram/{name}_VARS\.[A-Za-z0-9_.-]+)"


@dataclass(frozen=True)
class Accepted:
    """A definition that may be recorded, and the removable media (paths) that were taken out of it."""

    xml: str
    media: Tuple[str, ...] = ()


def accept(name: str, xml: str) -> Accepted:
    """The definition of a domain without its removable media, which other nodes do not have.

    Raises:
        InvalidInput: it has something that is not on the allow-list; the text names it.
    """
    if "<!DOCTYPE" in xml:
        raise errors.InvalidInput("its definition has a document type")
    try:
        root = ET.fromstring(xml)  # noqa: S314 - without a document type there are no entities
    except (ET.ParseError, ValueError) as error:
        raise errors.InvalidInput(f"its definition is not XML: {error}") from error
    if root.tag != "domain":
        raise errors.InvalidInput(f"its definition is of {ascii(root.tag)[:100]}, and not of a domain")
    media = _without_media(root)
    accepted = Accepted(ET.tostring(root, encoding="unicode") if media else xml, media)
    for disk in root.findall("devices/disk"):
        # The instance's own disks take the place of these.
        for found in [*disk.findall("source"), *disk.findall("backingStore")]:
            disk.remove(found)
        disk.attrib.pop("type", None)
    _Check(name).element(root, "domain", 0)
    return accepted


def _without_media(root: ET.Element) -> Tuple[str, ...]:
    media = []
    for drive in root.findall("devices/disk"):
        if drive.get("device") in {"cdrom", "floppy"}:
            media += [_medium(source) for source in drive.findall("source")]
            for found in [*drive.findall("source"), *drive.findall("backingStore")]:
                drive.remove(found)
            drive.set("type", "file")
    return tuple(media)


def _medium(source: ET.Element) -> str:
    return next((source.attrib[key] for key in ("file", "dev", "name") if key in source.attrib), "")


class _Check:
    def __init__(self, name: str) -> None:
        self._paths = {**_PATHS}
        nvram = _NVRAM.format(name=re.escape(name))
        self._paths["domain/os/nvram", ""] = rf"|{nvram}"
        self._paths["domain/os/nvram/source", "file"] = nvram

    def element(self, element: ET.Element, place: str, depth: int) -> None:
        if depth > DEEPEST:
            raise errors.InvalidInput(f"its definition has elements deeper than {DEEPEST} below {place}")
        values = {**element.attrib, "": (element.text or "").strip()}
        for key, value in values.items():
            self._value(place, key, value)
        for where, key in _NEEDED:
            if where == place and key not in element.attrib:
                raise _refusal(place, key, "")
        if place == "domain/os/loader" and element.get("type") == "pflash" and not element.get("readonly"):
            raise _refusal(place, "readonly", "")
        children = _CHILDREN.get(place)
        for child in element:
            inside = f"{place}/{child.tag}"
            if "}" in child.tag or (children is not None and child.tag not in children):
                told = child.tag.rpartition("}")[2]
                raise errors.InvalidInput(f"its definition has the element {ascii(told)[1:-1][:100]} in {place}")
            if inside != _METADATA:
                self.element(child, inside, depth + 1)

    def _value(self, place: str, key: str, value: str) -> None:
        if "}" in key:
            raise _refusal(place, key.rpartition("}")[2], value)
        if (place, key) in _TYPES and value not in _TYPES[place, key]:
            raise _refusal(place, key, value)
        if not key and re.fullmatch(_FREE_TEXT, place):
            return
        pattern = self._paths.get((place, key))
        is_right = re.fullmatch(pattern, value) if pattern is not None else "/" not in value
        if not is_right:
            raise _refusal(place, key, value)


def _refusal(place: str, key: str, value: str) -> errors.InvalidInput:
    what = f"{place}/@{key}" if key else place
    return errors.InvalidInput(f"its definition has {ascii(value)[:200]} as {ascii(what)[1:-1][:200]}")
