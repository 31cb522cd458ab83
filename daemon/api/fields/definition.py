"""What a field of a resource is: its title and kind for queries, and how its value is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ....plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..snapshots import Snapshot

Object = TypeVar("Object")


class Kind(Enum):
    """The kinds of values, as Ganeti's queries name them; a unit is in MiB."""

    TEXT = "text"
    BOOL = "bool"
    NUMBER = "number"
    UNIT = "unit"
    TIMESTAMP = "timestamp"
    OTHER = "other"
    UNKNOWN = "unknown"


class Missing(Enum):
    """Why a field has no value: the result statuses of Ganeti's queries."""

    UNKNOWN = 1
    NO_DATA = 2
    UNAVAILABLE = 3
    OFFLINE = 4


NORMAL = 0


@dataclass(frozen=True)
class Field(Generic[Object]):
    """One field of a resource; `read` gives its JSON value, or why there is none."""

    title: str
    kind: Kind
    doc: str
    read: Callable[[Snapshot, Object], Any]


def told(
    fields: Mapping[str, Field[Object]], names: Iterable[str], snapshot: Snapshot, resource: Object
) -> dict[str, Any]:
    """The named fields of an object as Ganeti's resources tell them: what has no value is null."""
    values = {name: fields[name].read(snapshot, resource) for name in names}
    return {name: None if isinstance(value, Missing) else value for name, value in values.items()}


def definition(name: str, field: Field[Any] | None) -> dict[str, str]:
    """How a query describes one of its columns."""
    if field is None:
        return {"name": name, "title": name, "kind": Kind.UNKNOWN.value, "doc": f"Unknown field {name}"}
    return {"name": name, "title": field.title, "kind": field.kind.value, "doc": field.doc}


def known(fields: Mapping[str, Field[Any]], name: str) -> Field[Any]:
    """The field of this name.

    Raises:
        InvalidInput: there is none.
    """
    if name not in fields:
        raise errors.InvalidInput(f"there is no field {name[:100]!r}: use one of {', '.join(sorted(fields))}")
    return fields[name]
