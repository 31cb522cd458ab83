"""The programs, paths, definitions and addresses of a configuration, and what else remote users may not set.

The preview of an import lists those that are new, so that a person sees what an edited document would run, open and
disclose.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ...module_utils.domain.values import control_characters, secret_values
from ..settings import permissions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..cluster import cluster as clusters

NAMED = 3
"""Of more objects with the same value only the number is listed."""
LONGEST = 120
AUDITED = 100
"""Lines of the audit log for one import."""
ADDRESSES = ("primary_ip", "secondary_ip")
GUESTS_FIELDS = ("serial_log", "vnc", "migration_transport", "domain_xml")
Value = tuple[str, str, str]
"""The name of a field, its value, and the object that has it."""


def preview(before: clusters.Cluster | None, after: clusters.Cluster) -> list[str]:
    """A line for each value that is used after an import and was not before, with the objects that have it."""
    known = set() if before is None else set(_values(before))
    owners: dict[tuple[str, str], list[str]] = {}
    for field, value, owner in _values(after):
        if (field, value, owner) not in known:
            owners.setdefault((field, value), []).append(owner)
    return [f"{field} {_shown(field, value)}: {_listed(names)}" for (field, value), names in owners.items()]


def audited(before: clusters.Cluster | None, after: clusters.Cluster) -> list[str]:
    """The lines of the preview for the audit log, programs first, and of too many the first."""
    lines = [f"new: {line}" for line in reversed(preview(before, after))]
    more = len(lines) - AUDITED
    return lines if more <= 0 else [*lines[:AUDITED], f"new: {more} more values"]


def programs(cluster: clusters.Cluster) -> set[str]:
    """The helper programs and drivers of a cluster's nodes, groups and of itself."""
    return {value for field, value, _ in _values(cluster) if field == "oob_program"}


def _values(cluster: clusters.Cluster) -> Iterator[Value]:
    for node in cluster.nodes.values():
        yield from _given(f"node {node.name}", {name: getattr(node, name) for name in ADDRESSES})
        yield from _given(f"node {node.name}", {f"hostvars.{name}": text for name, text in node.hostvars.items()})
    for instance in cluster.instances.values():
        owner = f"instance {instance.name}"
        yield from (("adopted disk", name, owner) for name in instance.adopted_disks)
        yield from _given(owner, _of_guest(instance.hvparams))
    own, settings = cluster.cluster, cluster.maintenance.settings
    folders = {"file_storage_dir": own.file_storage_dir, "shared_file_storage_dir": own.shared_file_storage_dir}
    programs = {"default_iallocator": own.default_iallocator, "diagnose_command": settings.diagnose_command}
    yield from _given("the cluster", {**folders, **programs})
    yield from _given("the cluster", {"accept_cluster_key": "true" if settings.accept_cluster_key else ""})
    yield from _given("the cluster", {"oob_program": str(own.ndparams.get("oob_program", ""))})
    groups = ((f"node group {group.name}", group.ndparams) for group in cluster.nodegroups.values())
    nodes = ((f"node {node.name}", node.ndparams) for node in cluster.nodes.values())
    for owner, parameters in (*groups, *nodes):
        yield from _given(owner, {"oob_program": str(parameters.get("oob_program", ""))})


def _of_guest(hvparams: Mapping[str, str]) -> dict[str, str]:
    """The hypervisor parameters to list; a transport that encrypts discloses nothing."""
    found = {name: hvparams.get(name, "") for name in GUESTS_FIELDS}
    if found["migration_transport"] in permissions.ENCRYPTED:
        del found["migration_transport"]
    return found


def _given(owner: str, values: dict[str, str]) -> Iterator[Value]:
    return ((field, value, owner) for field, value in values.items() if value)


def _shown(field: str, value: str) -> str:
    if field != "domain_xml":
        return secret_values.HIDDEN if secret_values.is_secret(field.rpartition(".")[2]) else _cut(value)
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
    return f"{_cut(value.strip().partition(chr(10))[0])} (SHA-256 {digest})"


def _cut(text: str) -> str:
    masked = control_characters.escaped(str(secret_values.masked(text)))
    return masked if len(masked) <= LONGEST else f"{masked[:LONGEST]} ..."


def _listed(names: list[str]) -> str:
    listed = control_characters.escaped(", ".join(names[:NAMED]))
    return listed if len(names) <= NAMED else f"{listed} and {len(names) - NAMED} more"
