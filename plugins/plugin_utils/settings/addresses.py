"""The addresses of nodes: the family of primary ones is the cluster's, secondary ones are IPv4 (seed 004, "IPv6").

A node with no secondary address, or with its primary one as such, is single-homed; either all nodes that take instances
are, or none is.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ...module_utils.domain.values import errors
from ...module_utils.domain.values.ip_addresses import VERSIONS, is_address, is_loopback, normal
from ..values.natural_order import key as natural
from . import host_variables

if TYPE_CHECKING:
    from ..cluster import cluster as clusters


def version(name: str, value: Any) -> int:
    """The version of the nodes' primary addresses.

    Raises:
        InvalidInput: it is neither 4 nor 6.
    """
    if isinstance(value, bool) or value not in VERSIONS:
        raise errors.InvalidInput(f"{name}: {value!r} is not one of 4, 6")
    return int(value)


def check(cluster: clusters.Cluster, node: clusters.Node) -> None:
    """Refuse addresses of a node that do not fit its cluster, of which it may be a member already.

    Raises:
        InvalidInput: one is not of its family, is missing, or another node has it; or the node takes instances, and
            has one more or one less than the master, or where that takes none than the first that does.
    """
    check_families(cluster.cluster.primary_ip_version, node)
    others = [other for other in cluster.nodes.values() if other.uuid != node.uuid]
    own = _addresses([node])
    for other in others:
        shared = sorted(own & _addresses([other]))
        if shared:
            raise errors.InvalidInput(f"{shared[0]} is an address of {other.name} already")
    check_place(cluster, node)
    first = _reference(cluster, [*others, node])
    if first is None or not node.vm_capable or is_single_homed(first) is is_single_homed(node):
        return
    named = f"the master {first.name}" if first.uuid == cluster.cluster.master_node else first.name
    if is_single_homed(first):
        raise errors.InvalidInput(
            f"secondary_ip: {named} has no secondary address, so {node.name} can have none: "
            f"give that one first, with `roundsman node modify {first.name} secondary_ip=...`"
        )
    raise errors.InvalidInput(f"secondary_ip: {named} has a secondary address, and {node.name} none")


def _reference(cluster: clusters.Cluster, nodes: Sequence[clusters.Node]) -> Optional[clusters.Node]:
    """The node to which all others that take instances have to be alike: the master, else the first of them by name.

    Nodes that take none replicate nothing.
    """
    able = {node.uuid: node for node in nodes if node.vm_capable}
    first = min(able.values(), key=lambda node: natural(node.name), default=None)
    return able.get(cluster.cluster.master_node, first)


def check_place(cluster: clusters.Cluster, node: clusters.Node) -> None:
    """Refuse a node that SSH would reach where it reaches another one: the answers of one would count as the other's.

    Raises:
        InvalidInput: the text names the place and the other node.
    """
    for pair in doubled_places({**cluster.nodes, node.uuid: node}.values()):
        others = [one for one in pair if one.uuid != node.uuid]
        if len(others) == 1:
            raise errors.InvalidInput(f"{place_text(pair[0])}, is where SSH reaches {others[0].name} already")


def doubled_places(nodes: Iterable[clusters.Node]) -> List[Tuple[clusters.Node, clusters.Node]]:
    """Each node that SSH reaches at a name or an address of another one, by the same port, with that node."""
    known = list(nodes)
    owners: Dict[Tuple[str, str], List[clusters.Node]] = {}
    for node in known:
        host, port = ssh_place(node)
        for name in {host, *(_place(text) for text in (node.name, node.primary_ip, node.secondary_ip) if text)}:
            owners.setdefault((name, port), []).append(node)
    found = []
    for node in known:
        host, port = ssh_place(node)
        if not (is_address(host) and is_loopback(host.partition("%")[0])):
            found += [(node, other) for other in owners[host, port] if other.uuid != node.uuid]
    return found


def ssh_place(node: clusters.Node) -> Tuple[str, str]:
    """The host and the port at which SSH reaches a node, by the configuration."""
    own = host_variables.plain(node.hostvars)
    return _place(own.get("ansible_host") or node.primary_ip or node.name), own.get("ansible_port") or "22"


def place_text(node: clusters.Node) -> str:
    """The host and the port at which SSH reaches a node, in words."""
    host, port = ssh_place(node)
    return f"{host}, port {port}"


def _place(host: str) -> str:
    return normal(host) if is_address(host) else host.lower()


def is_single_homed(node: clusters.Node) -> bool:
    """Whether all of a node's traffic uses one address."""
    return node.secondary_ip in {"", node.primary_ip}


def replicating(node: clusters.Node) -> str:
    """Where other nodes reach a node for migrations and copies of disks: its secondary address, else its primary."""
    return node.secondary_ip or node.primary_ip or node.name


def check_families(primary_version: int, node: clusters.Node) -> None:
    """Refuse addresses of a node that are not of the cluster's family, or miss where both are needed.

    Raises:
        InvalidInput: the text names the address.
    """
    if node.primary_ip and _version_of(node.primary_ip) != primary_version:
        raise errors.InvalidInput(
            f"primary_ip: {node.primary_ip!r} is no IPv{primary_version} address, as the nodes of this cluster have"
        )
    if node.secondary_ip and _version_of(node.secondary_ip) != VERSIONS[0]:
        raise errors.InvalidInput(f"secondary_ip: {node.secondary_ip!r} is no IPv4 address")
    if primary_version == VERSIONS[1] and not (node.primary_ip and node.secondary_ip):
        missing = "secondary_ip" if node.primary_ip else "primary_ip"
        raise errors.InvalidInput(
            f"{missing}: where primary addresses are IPv6, a node has such a one and an IPv4 address as secondary: "
            f"{node.name} has no {missing}"
        )


def _version_of(address: str) -> int:
    return ipaddress.ip_address(address).version


def _addresses(nodes: Iterable[clusters.Node]) -> set[str]:
    # Loopback addresses are those of simulated nodes, each of which has its own way to be reached.
    given = {address for node in nodes for address in (node.primary_ip, node.secondary_ip) if address}
    return {address for address in given if not is_loopback(address)}
