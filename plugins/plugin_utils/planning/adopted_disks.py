"""The disks of a domain as disks of an instance: what they are on their host, and which node has the other copy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...module_utils.domain import cluster as clusters
from ...module_utils.domain import errors

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Kept:
    """How an instance keeps its disks: the template, the disks, and the host of the other copy or ""."""

    template: str
    disks: tuple[clusters.Disk, ...] = ()
    peer: str = ""


class Disks:
    """The disks of hosts, by what `host_inventory_info` read on each (by its name)."""

    def __init__(self, seen: Mapping[str, Mapping[str, Any]]) -> None:
        self._seen = seen
        self._names = {told["hostname"]: name for name, told in seen.items()}

    def of(self, host: str, domain: Mapping[str, Any]) -> Kept:
        """How a domain of a host keeps its disks.

        Raises:
            InvalidInput: that cannot be represented; the text says why, and what to do.
        """
        found = [self._one(host, disk) for disk in domain["disks"]]
        if not found:
            return Kept("diskless")
        templates = sorted({one.template for one in found})
        if len(templates) > 1:
            raise errors.InvalidInput(f"its disks are of several kinds, {' and '.join(templates)}: make them of one")
        peers = sorted({one.peer for one in found})
        if len(peers) > 1:
            raise errors.InvalidInput(f"its disks have copies on several nodes, {' and '.join(peers)}: use one of them")
        return Kept(templates[0], tuple(disk for one in found for disk in one.disks), peers[0])

    def _one(self, host: str, disk: Mapping[str, str]) -> Kept:
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
                return Kept("plain", (clusters.Disk(size, name=volume),))
        told = source or "nothing"
        raise errors.InvalidInput(
            f"its disk {target} is {told} ({disk['type']}): only DRBD resources, logical volumes and files are known: "
            "move it to one of them"
        )

    def _file(self, host: str, path: str) -> Kept:
        told = self._seen[host]["storage"]["files"].get(path)
        if told is None:
            raise errors.InvalidInput(f"its disk {path} is not there: mount what it is on")
        return Kept("sharedfile" if told["shared"] else "file", (clusters.Disk(int(told["size"]), name=path),))

    def _resource(self, host: str, device: str) -> Mapping[str, Any] | None:
        own = self._seen[host]["hostname"]
        for one in self._seen[host]["storage"]["resources"]:
            for index, volume in enumerate(one["hosts"].get(own, {"volumes": ()})["volumes"]):
                names = {f"/dev/drbd{volume['minor']}", f"/dev/drbd/by-res/{one['name']}", volume["device"]}
                names |= {f"/dev/drbd/by-res/{one['name']}/{index}", f"/dev/drbd_{one['name']}"}
                if device in names - {""}:
                    found: Mapping[str, Any] = one
                    return found
        return None

    def _drbd(self, host: str, resource: Mapping[str, Any]) -> Kept:
        name, ends = resource["name"], resource["hosts"]
        others = [one for one in ends if one != self._seen[host]["hostname"]]
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
        size = self._seen[host]["storage"]["devices"].get(f"/dev/drbd{own[0]['minor']}", 0)
        size = size or self._backing(host, own[0]["disk"], name)
        disk = clusters.Disk(size, name=name, minor=minors.pop())
        return Kept("drbd", (disk,), self._names[others[0]])

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
        mapped = {"/dev/mapper/" + "-".join(part.replace("-", "--") for part in one.split("/")): one for one in known}
        return mapped.get(device, "")
