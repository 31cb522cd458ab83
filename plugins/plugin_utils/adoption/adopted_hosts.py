"""The hosts that are adopted: whether their answers can be read, and what of each becomes a field of a node.

No host is trusted: its answer must have the shape that `host_inventory_info` gives it.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...module_utils.domain.values import errors, value_rules
from ..settings import host_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_ITEMS = 10_000
LONGEST_TEXT, LONGEST_DEFINITION = 4096, 1 << 20
_NUMBER, _TEXT, _DEFINITION, _FLAG = "a number", "a short text", "a text", "true or false"
_VOLUMES = [{"minor": _NUMBER, "device": _TEXT, "disk": _TEXT}]
SHAPE: Any = {
    "hostname": _TEXT,
    "libvirt": {
        "memory": _NUMBER,
        "own_memory": _NUMBER,
        "cpus": _NUMBER,
        "domains": [
            {
                "name": _TEXT,
                "uuid": _TEXT,
                "xml": _DEFINITION,
                "memory": _NUMBER,
                "vcpus": _NUMBER,
                "running": _FLAG,
                "autostart": _FLAG,
                "disks": [{"type": _TEXT, "source": _TEXT, "target": _TEXT}],
                "nics": [{"type": _TEXT, "mac": _TEXT, "link": _TEXT}],
            }
        ],
    },
    "storage": {
        "disk": _NUMBER,
        "groups": {"": _NUMBER},
        "volumes": {"": _NUMBER},
        "devices": {"": _NUMBER},
        "files": {"": {"shared": _FLAG, "size": _NUMBER}},
        "shared_folders": [_TEXT],
        "resources": [{"name": _TEXT, "hosts": {"": {"address": _TEXT, "volumes": _VOLUMES}}}],
    },
}
"""What is read of an answer: an object by its members, a list by its item, a mapping by its values (under "")."""


@dataclass(frozen=True)
class Host:
    """A host of an inventory: its address or "", how it is reached, and what it has, or `problem` why nobody knows."""

    name: str
    address: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


def problems(hosts: Sequence[Host]) -> dict[str, str]:
    """Why hosts are left out, by name: no answer, one that cannot be read, or two that call themselves the same."""
    found = {host.name: host.problem for host in hosts if host.problem}
    for host in hosts:
        if host.name not in found:
            try:
                _refuse_unreadable(host.seen)
            except errors.InvalidInput as error:
                found[host.name] = str(error)
    own_names = Counter(host.seen["hostname"] for host in hosts if host.name not in found)
    for host in hosts:
        if host.name not in found and own_names[host.seen["hostname"]] > 1:
            found[host.name] = f"another host calls itself {host.seen['hostname'][:100]!a} too"
    return {host.name: found[host.name] for host in hosts if host.name in found}


def node_fields(host: Host, vg_name: str) -> dict[str, Any]:
    """The fields of the node that a host becomes; its disk is that of this volume group, else of its largest one."""
    libvirt, storage = host.seen["libvirt"], host.seen["storage"]
    groups = storage["groups"]
    disk = groups.get(vg_name) or max(groups.values(), default=storage["disk"])
    return {
        "name": host.name,
        "primary_ip": host.address,
        "mtotal": int(libvirt["memory"]),
        "mnode": int(libvirt["own_memory"]),
        "ctotal": int(libvirt["cpus"]),
        "dtotal": int(disk),
        "hostvars": host_variables.plain(host.variables),
    }


def replication_addresses(hosts: Sequence[Host]) -> dict[str, str]:
    """By host (name) the address that its DRBD resources use, where that is another one than its primary address."""
    own: dict[str, str] = {}
    for host in hosts:
        known = {
            told["address"]
            for resource in host.seen["storage"]["resources"]
            for name, told in resource["hosts"].items()
            if name == host.seen["hostname"]
        }
        found = sorted(ip for ip in known if _is_ipv4(ip) and ip != host.address)
        if len(found) == 1:
            own[host.name] = found[0]
    return own


def _is_ipv4(address: str) -> bool:
    try:
        return isinstance(ipaddress.ip_address(address), ipaddress.IPv4Address)
    except ValueError:
        return False


def _refuse_unreadable(answer: Any) -> None:
    """Go on only with an answer that can be read.

    Raises:
        InvalidInput: a member is missing, of another kind, or beyond a limit; the text says where.
    """
    _check("", answer, SHAPE)


def _check(place: str, value: Any, shape: Any) -> None:
    if isinstance(shape, list):
        _refuse_unless(isinstance(value, list) and len(value) <= MOST_ITEMS, place, "a list")
        for index, item in enumerate(value):
            _check(f"{place}/{index}", item, shape[0])
    elif isinstance(shape, dict):
        _refuse_unless(isinstance(value, dict) and len(value) <= MOST_ITEMS, place, "an object")
        members = dict.fromkeys(value, shape[""]) if "" in shape else shape
        for name, inner in members.items():
            _refuse_unless(name in value, f"{place}/{name}", "there")
            _check(f"{place}/{name}", value[name], inner)
    else:
        _refuse_unless(_is_right(value, shape), place, shape)


def _is_right(value: Any, kind: str) -> bool:
    if kind in {_TEXT, _DEFINITION}:
        return isinstance(value, str) and len(value) <= (LONGEST_TEXT if kind == _TEXT else LONGEST_DEFINITION)
    if kind == _FLAG:
        return isinstance(value, bool)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and 0 <= value <= value_rules.MOST


def _refuse_unless(is_right: object, place: str, kind: str) -> None:
    if not is_right:
        raise errors.InvalidInput(f"its answer cannot be read: {place[:200]!a} is not {kind}")
