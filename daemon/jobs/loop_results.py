"""The failed items of a task's loop: Ansible's own text for the whole loop only says that it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def failed_items(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The results of the items that failed or were unreachable; of a task without a loop its own result."""
    items = result.get("results")
    found: list[Mapping[str, Any]] = []
    if isinstance(items, list):
        found = [one for one in items if isinstance(one, dict) and _has_failed(one)]
    return found or [result]


def _has_failed(item: Mapping[str, Any]) -> bool:
    # One that may fail is none: a later task judges it.
    return bool(item.get("failed") or item.get("unreachable")) and not item.get("_ansible_ignore_errors")
