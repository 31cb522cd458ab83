"""What a modification made different: in Ganeti's form for programs, and in lines for people."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping, Tuple

from ...module_utils.domain.values import secret_values

if TYPE_CHECKING:
    from ..cluster import cluster as clusters

NOTHING = "nothing to change"
UNSET = "unset"
_OWN = frozenset({"serial_no", "mtime", "off_since", "off_read", "powered_on_at", "alive_at"})
Difference = Tuple[str, Any, Any]


def differences(before: clusters.Cluster, after: clusters.Cluster) -> List[Tuple[str, Any]]:
    """What changed of objects that were there before: names of fields and their new values, secrets hidden."""
    return [
        (name, secret_values.masked(dict(new)) if isinstance(new, Mapping) else new)
        for earlier, later in _pairs(before, after)
        for name, _, new in _fields(earlier, later)
    ]


def lines(before: clusters.Cluster, after: clusters.Cluster, *, about: str) -> List[str]:
    """The same with the values of before, a line each; a group or node is named where it is not the one asked about.

    An entry of a mapping is told by itself, such as `hostvars.ansible_host`, and no value of one that may be a secret.
    """
    found = [
        f"{later.name}: {line}" if getattr(later, "uuid", about) not in {about, after.cluster.uuid} else line
        for earlier, later in _pairs(before, after)
        for each in _fields(earlier, later)
        for line in _told(each, after)
    ]
    is_one_less_or_more = any(
        getattr(before, kind).keys() != getattr(after, kind).keys() for kind in ("nodegroups", "nodes")
    )
    return found if found or is_one_less_or_more else [NOTHING]


def _pairs(before: clusters.Cluster, after: clusters.Cluster) -> Iterator[Tuple[Any, Any]]:
    """The objects that are there before and after, and are not the same."""
    pairs: List[Tuple[Any, Any]] = [
        (before.cluster, after.cluster),
        (before.maintenance.settings, after.maintenance.settings),
    ]
    for kind in ("nodegroups", "nodes", "instances"):
        old, new = getattr(before, kind), getattr(after, kind)
        pairs += [(old[uuid], later) for uuid, later in new.items() if uuid in old]
    return ((earlier, later) for earlier, later in pairs if earlier is not later and earlier != later)


def _fields(before: Any, after: Any) -> Iterator[Difference]:
    for field in dataclasses.fields(after):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if field.name not in _OWN and old != new:
            yield field.name, old, new


def _told(difference: Difference, cluster: clusters.Cluster) -> Iterator[str]:
    name, old, new = difference
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                texts = (_entry(key, value) for value in (old, new))
                yield f"{name}.{key}: {' → '.join(texts)}"
    else:
        yield f"{name}: {_shown(name, old, cluster)} → {_shown(name, new, cluster)}"


def _entry(key: str, values: Mapping[str, Any]) -> str:
    if key not in values:
        return UNSET
    return secret_values.HIDDEN if secret_values.is_secret(key) else _text(secret_values.masked(values[key]))


def _shown(name: str, value: Any, cluster: clusters.Cluster) -> str:
    if name == "group" and value in cluster.nodegroups:
        return cluster.nodegroups[value].name
    return UNSET if value is None else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
