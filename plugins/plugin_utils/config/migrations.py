"""Older schema versions of the configuration, one pure step each from a version to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Callable

UNSEALED = 1
"""The last version that was written without a checksum."""


def _to_2(raw: dict[str, Any]) -> dict[str, Any]:
    """Version 2 is written with a checksum."""
    return raw


STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _to_2}


def to_current(raw: Any) -> dict[str, Any]:
    """The document in the schema of this program.

    Raises:
        InvalidInput: it is no object, says no version, or is newer than this program.
    """
    version = raw.get("version") if isinstance(raw, dict) else None
    if type(version) is not int or version < min(STEPS):
        raise errors.InvalidInput(f"version is {version!r}, and this program reads versions up to {clusters.VERSION}")
    if version > clusters.VERSION:
        raise errors.InvalidInput(
            f"version is {version}, and this program reads versions up to {clusters.VERSION}: "
            "it was written by a newer Roundsman"
        )
    while version < clusters.VERSION:
        raw = {**STEPS[version](raw), "version": version + 1}
        version += 1
    migrated: dict[str, Any] = raw
    return migrated
