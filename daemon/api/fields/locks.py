"""The fields of locks; names are Ganeti's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .definition import Field, Kind, Missing

Lock = Field[Mapping[str, Any]]


def _mode(row: Mapping[str, Any]) -> str | Missing:
    return next((str(owner["mode"]) for owner in row["owners"]), Missing.NO_DATA)


FIELDS: dict[str, Lock] = {
    "name": Lock("Name", Kind.TEXT, "Lock name: its level and the UUID", lambda _, row: row["lock"]),
    "mode": Lock("Mode", Kind.OTHER, "How it is held: shared or exclusive", lambda _, row: _mode(row)),
    "owner": Lock("Owner", Kind.OTHER, "The holders", lambda _, row: [who["owner"] for who in row["owners"]]),
    "pending": Lock(
        "Pending",
        Kind.OTHER,
        "The waiters: pairs of mode and owners",
        lambda _, row: [[who["mode"], [who["owner"]]] for who in row["waiting"]],
    ),
}
