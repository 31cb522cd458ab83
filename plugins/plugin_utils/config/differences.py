"""What differs between two versions of the configuration: which objects, and which of their fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OBJECTS = ("nodegroups", "nodes", "instances", "filters")
OWN = frozenset({"serial_no", "ctime", "mtime", "off_since", "off_read", "powered_on_at", "alive_at"})
"""What differs whenever anything does, and when a node was seen on or off, which nobody sets."""
LONGEST = 40
"""A text of more characters is not told, only that it differs."""


@dataclass(frozen=True)
class Difference:
    """The objects of one kind that differ, by name; `changed` says of each what it is now.

    The name of what there is only once (cluster, settings, maintenance) is empty.
    """

    kind: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """What differs between two documents; a field that only one of them knows belongs to another schema."""
    names = {uuid: entry["name"] for kind in ("nodegroups", "nodes") for uuid, entry in after.get(kind, {}).items()}
    old, new = _by_kind(before, names=names), _by_kind(after, names=names)
    found = [_difference(kind, old.get(kind, {}), objects, names=names) for kind, objects in new.items()]
    return [difference for difference in found if difference.added or difference.removed or difference.changed]


def _by_kind(document: Mapping[str, Any], *, names: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    maintenance = document.get("maintenance", {})
    rest = {name: value for name, value in maintenance.items() if name not in {"settings", "incidents"}}
    return {
        "cluster": {"": document.get("cluster", {})},
        **{kind: document.get(kind, {}) for kind in OBJECTS},
        "settings": {"": maintenance.get("settings", {})},
        "incidents": {
            incident["uuid"]: {
                **incident,
                "name": f"{incident['uuid']} of {names.get(incident['node'], incident['node'])}",
            }
            for incident in maintenance.get("incidents", ())
        },
        "maintenance": {"": rest},
    }


def _difference(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], *, names: Mapping[str, str]
) -> Difference:
    changed = {}
    for uuid, entry in after.items():
        if uuid in before and before[uuid] != entry and (told := tuple(_changed(before[uuid], entry, names=names))):
            changed[_name(uuid, entry)] = told
    added = tuple(_name(uuid, entry) for uuid, entry in after.items() if uuid not in before)
    removed = tuple(_name(uuid, entry) for uuid, entry in before.items() if uuid not in after)
    return Difference(kind, added, removed, changed)


def _name(uuid: str, entry: Mapping[str, Any]) -> str:
    return str(entry.get("name", uuid))


def _changed(before: Mapping[str, Any], after: Mapping[str, Any], *, names: Mapping[str, str]) -> Iterator[str]:
    for name, value in after.items():
        if name in before and before[name] != value and name not in OWN:
            yield _stands(name, value, names=names)


def _stands(name: str, value: object, *, names: Mapping[str, str]) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if isinstance(value, str):
        value = names.get(value, value)
        return f"{name} {value}" if 0 < len(value) <= LONGEST else name
    return f"{name} {value}" if isinstance(value, (int, float)) else name
