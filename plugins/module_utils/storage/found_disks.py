"""What a node keeps disks on, as it is found: DRBD resources, volumes, files. It is for an adoption and only reads."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Dict, Iterable, List
from xml.etree import ElementTree as ET

from ..domain.values import errors
from . import volumes

if TYPE_CHECKING:
    from .programs import Runner

SHARED_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "ceph", "cifs", "gfs2", "glusterfs", "lustre", "ocfs2", "fuse.ceph", "fuse.glusterfs", "gpfs"}
)
_MIB = 1024 * 1024


def found(runner: Runner, paths: Iterable[str], *, mounts: str, folder: str) -> Dict[str, Any]:
    """Resources and their devices, volumes, groups and their sizes (MiB), files among some paths, the disk of a folder.

    Also where shared file systems are mounted, of `mounts`, the text of /proc/mounts. Programs that are not there have
    nothing to tell.

    Raises:
        Failed: a program that is there fails.
    """
    told: Dict[str, Any] = {"resources": [], "volumes": {}, "groups": {}}
    if shutil.which("drbdadm"):
        told["resources"] = resources(runner.run("drbdadm", "dump-xml"))
    if shutil.which("lvs"):
        told["volumes"] = {name: volume.size for name, volume in volumes.Volumes(runner).found().items()}
        said = runner.run("vgs", "--reportformat", "json", "--units", "m", "--nosuffix", "-o", "vg_name,vg_size")
        told["groups"] = groups(said)
    minors = {
        volume["minor"]
        for resource in told["resources"]
        for end in resource["hosts"].values()
        for volume in end["volumes"]
    }
    told["devices"] = {f"/dev/drbd{minor}": _size_of(f"drbd{minor}") for minor in sorted(minors)}
    told["files"] = {path: _file(runner, path, mounts) for path in paths if os.path.isfile(path)}  # noqa: PTH113 - cheap
    told["shared_folders"] = shared_folders(mounts)
    told["disk"] = _disk_of(folder)
    return told


def resources(xml: str) -> List[Dict[str, Any]]:
    """The resources of `drbdadm dump-xml`: their hosts, each with its address and its volumes' devices, minors, disks.

    Raises:
        Failed: the text is not that.
    """
    try:
        root = ET.fromstring(xml)  # noqa: S314 - of this node's own DRBD
        return [
            {
                "name": resource.attrib["name"],
                "hosts": {host.attrib["name"]: _host(host) for host in resource.findall("host")},
            }
            for resource in root.findall("resource")
        ]
    except (ET.ParseError, KeyError, ValueError) as error:
        raise errors.Failed(f"drbdadm dump-xml says what is not as expected: {error!r}") from error


def groups(said: str) -> Dict[str, float]:
    """The sizes (MiB) of volume groups, of the report of vgs.

    Raises:
        Failed: the text is not that.
    """
    try:
        return {row["vg_name"]: float(row["vg_size"]) for report in json.loads(said)["report"] for row in report["vg"]}
    except (ValueError, KeyError, TypeError) as error:
        raise errors.Failed(f"the report of vgs is not as expected: {error!r}") from error


def filesystem(path: str, mounts: str) -> str:
    """The type of the file system that a path is on, of the text of /proc/mounts."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 2:  # noqa: PLR2004 - device, folder, type
            at = fields[1].encode().decode("unicode_escape")
            is_below = path == at or path.startswith(at.rstrip("/") + "/")
            if is_below and len(at) >= len(best):
                best, kind = at, fields[2]
    return kind


def shared_folders(mounts: str) -> List[str]:
    """Where file systems are mounted that several nodes share, of the text of /proc/mounts."""
    lines = [line.split() for line in mounts.splitlines()]
    folders = [line[1] for line in lines if len(line) > 2 and line[2] in SHARED_FILESYSTEMS]  # noqa: PLR2004 - as above
    return sorted({folder.encode().decode("unicode_escape") for folder in folders})


def _host(host: ET.Element) -> Dict[str, Any]:
    address = host.findtext("address", "")
    return {
        "address": address.strip(),
        "volumes": [
            {
                "minor": int(volume.findall("device")[0].attrib["minor"]),
                "device": volume.findtext("device", "").strip(),
                "disk": volume.findtext("disk", "").strip(),
            }
            for volume in host.findall("volume")
        ],
    }


def _file(runner: Runner, path: str, mounts: str) -> Dict[str, Any]:
    size = os.path.getsize(path)  # noqa: PTH202 - as above
    if shutil.which("qemu-img"):
        # What the guest sees: an image in a format of its own is smaller than that. -U, because a guest may hold it.
        told = json.loads(runner.run("qemu-img", "info", "-U", "--output=json", path))
        size = int(told["virtual-size"])
    kind = filesystem(os.path.realpath(path), mounts)
    return {"size": -(-size // _MIB), "filesystem": kind, "shared": kind in SHARED_FILESYSTEMS}


def _size_of(device: str) -> int:
    """The size (MiB) of a block device; 0 where it is not there."""
    try:
        with open(f"/sys/class/block/{device}/size", encoding="ascii") as stream:  # noqa: PTH123 - as above
            return int(stream.read()) * 512 // _MIB
    except (OSError, ValueError):
        return 0


def _disk_of(folder: str) -> int:
    while folder != "/" and not os.path.isdir(folder):  # noqa: PTH112 - as above
        folder = os.path.dirname(folder)  # noqa: PTH120 - as above
    found_there = os.statvfs(folder)
    return found_there.f_blocks * found_there.f_frsize // _MIB
