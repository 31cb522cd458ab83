"""What a task of an earlier play registered on other nodes, as an action on the controller sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def registered(task_vars: Mapping[str, Any], names: Iterable[str], *, variable: str) -> dict[str, Mapping[str, Any]]:
    """Per node (name) the result of its task; a node whose task has not run has none, nor has one that is left out."""
    known = task_vars["hostvars"]
    found = {name: known[name].get(variable) for name in names if name in known}
    return {name: result for name, result in found.items() if result is not None}


def left_out(task_vars: Mapping[str, Any] | None, names: Iterable[str]) -> dict[str, str]:
    """Those of these nodes (names) that the inventory plugin left out of the play, and a line that says why."""
    known = (task_vars or {}).get("roundsman_left_out", {})
    return {name: f"{name} is left out of plays: {known[name]}" for name in names if name in known}


def failed(result: Mapping[str, Any]) -> bool:
    """Whether a task did not do on its node what it was to do, or the node was not reached."""
    return bool(result.get("failed") or result.get("unreachable"))
