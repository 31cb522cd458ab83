"""config.data as one JSON document, and the `Cluster` value that it represents."""

from __future__ import annotations

from typing import Any

import orjson
import pydantic

from ...module_utils.domain.agent import diagnosis
from ...module_utils.domain.values import errors
from .. import report_originals, sealed_json
from ..cluster import cluster as clusters
from ..cluster import known_off
from ..settings import instance_policy, parameter_rules
from . import migrations

# A list around it, because pydantic hands a configuration to such dataclasses only from outside.
_ADAPTER = pydantic.TypeAdapter(list[clusters.Cluster], config=pydantic.ConfigDict(extra="forbid", allow_inf_nan=False))


def dump(cluster: clusters.Cluster) -> bytes:
    """The document of a cluster, indented, so that a person can read and compare it.

    Raises:
        InvalidInput: a value of it is not one of JSON's.
    """
    try:
        # It writes what an object remembers beside its fields, too: none of them has a cached property.
        return orjson.dumps(cluster, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as error:
        raise errors.InvalidInput(f"the configuration cannot be represented: {error}") from error


def seal(cluster: clusters.Cluster) -> bytes:
    """The document of a cluster with its checksum, as it stands on disk.

    Raises:
        InvalidInput: a value of it is not one of JSON's.
    """
    return sealed_json.seal(dump(cluster))


def unseal(data: bytes) -> clusters.Cluster:
    """The cluster of a document on disk; only one of the first version may be without a checksum.

    Raises:
        InvalidInput: it is damaged or was edited, or cannot be represented.
    """
    return load(_unsealed(data))


def raw(data: bytes) -> dict[str, Any]:
    """A document on disk as a plain JSON value in the schema of this program; its objects are not looked at.

    Raises:
        InvalidInput: it is damaged or was edited, no JSON, or of a newer version.
    """
    return _parsed(_unsealed(data))


def _unsealed(data: bytes) -> bytes:
    if sealed_json.is_sealed(data):
        return sealed_json.unseal(data)
    try:
        version = orjson.loads(data).get("version")
    except (orjson.JSONDecodeError, AttributeError):
        version = None
    if version != migrations.UNSEALED:
        raise errors.InvalidInput(
            "it does not begin with its checksum: `roundsman config import` takes over a document that was edited"
        )
    return data


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        return migrations.to_current(orjson.loads(data))
    except orjson.JSONDecodeError as error:
        raise errors.InvalidInput(f"not JSON: {error}") from error


def load(data: bytes) -> clusters.Cluster:
    """The cluster that a document represents.

    Raises:
        InvalidInput: it is no JSON, of a newer version, or cannot be represented; the text names object and field.
    """
    try:
        (cluster,) = _ADAPTER.validate_python([_parsed(data)], strict=False)
    except pydantic.ValidationError as error:
        raise errors.InvalidInput(_first(error)) from error
    _refuse_doubled(cluster)
    _refuse_dangling(cluster)
    _refuse_unreadable(cluster)
    _refuse_unplannable(cluster)
    return known_off.with_off_since(cluster)


def _first(error: pydantic.ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    where = "/".join(str(part) for part in found[0]["loc"][1:])
    is_unknown = found[0]["type"] == "unexpected_keyword_argument"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{where}: {'there is no such field' if is_unknown else found[0]['msg']}{more}"


def _refuse_doubled(cluster: clusters.Cluster) -> None:
    for kind, objects in (
        ("nodegroups", cluster.nodegroups),
        ("nodes", cluster.nodes),
        ("instances", cluster.instances),
    ):
        names: set[str] = set()
        for uuid, entry in objects.items():
            if entry.uuid != uuid:
                raise errors.InvalidInput(f"{kind}/{uuid}/uuid: is {entry.uuid}")
            if entry.name in names:
                raise errors.InvalidInput(f"{kind}/{uuid}/name: {entry.name!r} is there twice")
            names.add(entry.name)


def _refuse_dangling(cluster: clusters.Cluster) -> None:
    for node in cluster.nodes.values():
        if node.group not in cluster.nodegroups:
            raise errors.InvalidInput(f"nodes/{node.uuid}/group: there is no node group {node.group}")
    for instance in cluster.instances.values():
        for uuid in dict.fromkeys((*instance.nodes, *instance.places)):
            if uuid not in cluster.nodes:
                raise errors.InvalidInput(f"instances/{instance.uuid}: there is no node {uuid}")
    if cluster.cluster.master_node not in cluster.nodes:
        raise errors.InvalidInput(f"cluster/master_node: there is no node {cluster.cluster.master_node}")


def _refuse_unreadable(cluster: clusters.Cluster) -> None:
    seen: set[str] = set()
    for index, incident in enumerate(cluster.maintenance.incidents):
        where = f"maintenance/incidents/{index}"
        if incident.uuid in seen:
            raise errors.InvalidInput(f"{where}/uuid: {incident.uuid!r} is there twice")
        seen.add(incident.uuid)
        if incident.digest and not report_originals.DIGEST.fullmatch(incident.digest):
            raise errors.InvalidInput(f"{where}/digest: {incident.digest[:80]!r} is not a SHA-256 in hex digits")
        try:
            diagnosis.parse(incident.original)
        except errors.InvalidInput as error:
            raise errors.InvalidInput(f"{where}/original: {error}") from error


def _refuse_unplannable(cluster: clusters.Cluster) -> None:
    """Policies, limits and parameters that the planner calculates with: only what could have been set."""
    known: dict[str, clusters.Parameters | clusters.Group | clusters.Node] = {
        "cluster": cluster.cluster,
        **{f"nodegroups/{uuid}": group for uuid, group in cluster.nodegroups.items()},
        **{f"nodes/{uuid}": node for uuid, node in cluster.nodes.items()},
    }
    for place, owner in known.items():
        try:
            _accept(owner)
        except errors.InvalidInput as error:
            raise errors.InvalidInput(f"{place}/{error}") from error


def _accept(owner: clusters.Parameters | clusters.Group | clusters.Node) -> None:
    asked = {name: value for name, value in owner.ndparams.items() if name in parameter_rules.NDPARAMS}
    # The helper program is looked at where it is used: what is refused there still stands in older documents.
    asked.pop("oob_program", None)
    for name, value in asked.items():
        _refuse_default(name, value, parameter_rules.NDPARAMS[name](name, value))
    if isinstance(owner, clusters.Node):
        return
    for name, value in instance_policy.given("ipolicy", owner.ipolicy).items():
        _refuse_default(f"ipolicy.{name}", owner.ipolicy[name], value)
    for name, rule in parameter_rules.LIMITS.items():
        if (value := getattr(owner, name)) is not None:
            _refuse_default(name, value, rule(name, value))


def _refuse_default(name: str, value: object, accepted: object) -> None:
    if accepted is None:
        raise errors.InvalidInput(f"{name}: is {value!r}: leave it out to inherit it")
