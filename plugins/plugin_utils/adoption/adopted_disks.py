"""The disks of a domain as disks of an instance: what they are on their host, and which node has the other replica."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from ..settings import instance_making

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Layout:
    """How an instance keeps its disks: the template, the disks, and the host of the other replica or ""."""

    template: str
    disks: tuple[clusters.Disk, ...] = ()
    peer: str = ""


SYSTEM_FOLDERS = (
    *(
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/sys",
    ),
    *("/usr", "/var"),
)
IMAGE_FOLDERS = ("/var/lib/libvirt/images", "/var/lib/libvirt/filesystems", "/var/lib/nova", "/var/local", "/var/vms")
"""Folders below the system's that are for images."""


class Disks:
    """The disks of hosts, by what `host_inventory_info` read on each (by its name).

    `storage_folders` are the folders where the cluster has its files.
    """

    def __init__(self, seen: Mapping[str, Mapping[str, Any]], storage_folders: Sequence[str] = ()) -> None:
        self._seen = seen
        self._storage_folders = tuple(storage_folders)
        self._names = {told["hostname"]: name for name, told in seen.items()}

    def layout(self, host: str, domain: Mapping[str, Any]) -> Layout:
        """How a domain of a host keeps its disks.

        Raises:
            InvalidInput: that cannot be represented; the text says why, and what to do.
        """
        found = [self._disk_layout(host, disk) for disk in domain["disks"]]
        if not found:
            return Layout("diskless")
        templates = sorted({layout.template for layout in found})
        if len(templates) > 1:
            raise errors.InvalidInput(f"its disks are of several kinds, {' and '.join(templates)}: make them of one")
        peers = sorted({layout.peer for layout in found})
        if len(peers) > 1:
            raise errors.InvalidInput(
                f"its disks have replicas on several nodes, {' and '.join(peers)}: use one of them"
            )
        return Layout(templates[0], tuple(disk for layout in found for disk in layout.disks), peers[0])

    def _disk_layout(self, host: str, disk: Mapping[str, str]) -> Layout:
        source, target = disk["source"], disk["target"]
        if disk["type"] == "file":
            return self._file(host, source)
        if disk["type"] == "block":
            resource = self._resource(host, source)
            if resource is not None:
                return self._drbd(host, resource)
            volume = self._volume(host, source)
            if volume:
                size = int(-(-self._seen[host]["storage"]["volumes"][volume] // 1))
                return Layout("plain", (clusters.Disk(size, name=volume),))
        told = source or "nothing"
        raise errors.InvalidInput(
            f"its disk {target} is {told} ({disk['type']}): only DRBD resources, logical volumes and files are known: "
            "move it to one of them"
        )

    def _file(self, host: str, path: str) -> Layout:
        told = self._seen[host]["storage"]["files"].get(path)
        if told is None:
            raise errors.InvalidInput(f"its disk {path} is not there: mount what it is on")
        allowed = (*self._storage_folders, *IMAGE_FOLDERS)
        is_hidden = any(part.startswith(".") for part in path.split("/"))
        if is_hidden or (_is_below(path, SYSTEM_FOLDERS) and not _is_below(path, allowed)):
            raise errors.InvalidInput(
                f"its disk {path} is in a folder of the system, or hidden: move it to a folder of images, such as "
                "/var/lib/libvirt/images"
            )
        if told["shared"] and not self._is_shared_elsewhere(host, path):
            raise errors.InvalidInput(
                f"its disk {path} is on a shared file system, and no other host that answered has one mounted there: "
                "mount it on another host, and adopt both together"
            )
        return Layout("sharedfile" if told["shared"] else "file", (clusters.Disk(int(told["size"]), name=path),))

    def _is_shared_elsewhere(self, host: str, path: str) -> bool:
        others = [seen["storage"]["shared_folders"] for name, seen in self._seen.items() if name != host]
        return any(_is_below(path, folders) for folders in others)

    def _resource(self, host: str, device: str) -> Mapping[str, Any] | None:
        own = self._seen[host]["hostname"]
        for resource in self._seen[host]["storage"]["resources"]:
            for index, volume in enumerate(resource["hosts"].get(own, {"volumes": ()})["volumes"]):
                names = {f"/dev/drbd{volume['minor']}", f"/dev/drbd/by-res/{resource['name']}", volume["device"]}
                names |= {f"/dev/drbd/by-res/{resource['name']}/{index}", f"/dev/drbd_{resource['name']}"}
                if device in names - {""}:
                    found: Mapping[str, Any] = resource
                    return found
        return None

    def _drbd(self, host: str, resource: Mapping[str, Any]) -> Layout:
        name, ends = resource["name"], resource["hosts"]
        # Texts below name it, also in a command.
        instance_making.check_resource("its DRBD resource", name)
        others = [hostname for hostname in ends if hostname != self._seen[host]["hostname"]]
        if len(others) != 1:
            told = ", ".join(others) or "none"
            raise errors.InvalidInput(f"its DRBD resource {name} has the peers {told}: leave it exactly one")
        own = ends[self._seen[host]["hostname"]]["volumes"]
        if len(own) != 1:
            raise errors.InvalidInput(f"its DRBD resource {name} has {len(own)} volumes: make a resource of each")
        minors = {volume["minor"] for end in ends.values() for volume in end["volumes"]}
        if len(minors) != 1:
            told = " and ".join(map(str, sorted(minors)))
            raise errors.InvalidInput(f"its DRBD resource {name} has the minors {told}: give it one on both nodes")
        if others[0] not in self._names:
            raise errors.InvalidInput(
                f"its DRBD resource {name} has the peer {others[0]}, which is no host that answered"
            )
        self._refuse_unconfirmed(self._names[others[0]], resource)
        size = self._seen[host]["storage"]["devices"].get(f"/dev/drbd{own[0]['minor']}", 0)
        size = size or self._backing(host, own[0]["disk"], name)
        disk = clusters.Disk(size, name=name, minor=minors.pop())
        return Layout("drbd", (disk,), self._names[others[0]])

    def _refuse_unconfirmed(self, peer: str, resource: Mapping[str, Any]) -> None:
        """Refuse a resource that its other host does not have between the same two hosts with the same minors."""
        known = [theirs for theirs in self._seen[peer]["storage"]["resources"] if theirs["name"] == resource["name"]]
        if len(known) != 1 or _minors(known[0]) != _minors(resource):
            told = " and ".join(sorted(known[0]["hosts"])) if known else "no hosts"
            raise errors.InvalidInput(
                f"its DRBD resource {resource['name']} is on {' and '.join(sorted(resource['hosts']))}, and {peer} has "
                f"it on {told}, or with other minors: make their resource files the same"
            )

    def _backing(self, host: str, device: str, resource: str) -> int:
        """The size (MiB) of what a resource keeps its data on."""
        volume = self._volume(host, device)
        if not volume:
            raise errors.InvalidInput(f"its DRBD resource {resource} on {device} is not up: `drbdadm up {resource}`")
        return int(-(-self._seen[host]["storage"]["volumes"][volume] // 1))

    def _volume(self, host: str, device: str) -> str:
        """The volume `group/name` that a device is, or ''."""
        known: Mapping[str, float] = self._seen[host]["storage"]["volumes"]
        path = re.fullmatch(r"/dev/([^/]+)/([^/]+)", device)
        if path and f"{path[1]}/{path[2]}" in known:
            return f"{path[1]}/{path[2]}"
        mapped = {
            "/dev/mapper/" + "-".join(part.replace("-", "--") for part in volume.split("/")): volume for volume in known
        }
        return mapped.get(device, "")


def claims(cluster: clusters.Cluster, instance: clusters.Instance) -> set[tuple[str, str]]:
    """What an instance has of its nodes alone: its UUID, and for each node (or all of them) its disks.

    A disk that Roundsman made is called after the instance's UUID.
    """
    found = {("the UUID", instance.uuid)}
    for disk in instance.disks:
        for node in instance.nodes:
            if disk.minor is not None:
                found.add((f"on {cluster.node_name(node)} the DRBD device", f"/dev/drbd{disk.minor}"))
            if disk.name and instance.disk_template != "sharedfile":
                found.add((f"on {cluster.node_name(node)} the disk", disk.name))
        if disk.name and instance.disk_template == "sharedfile":
            found.add(("the shared file", disk.name))
    return found


def _minors(resource: Mapping[str, Any]) -> dict[str, list[int]]:
    return {name: [volume["minor"] for volume in end["volumes"]] for name, end in resource["hosts"].items()}


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)
