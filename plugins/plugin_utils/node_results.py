"""What tasks registered on other nodes, and which nodes are not hosts of the play, for actions on the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..module_utils.domain.values import errors
from .settings import parameter_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def registered(task_vars: Mapping[str, Any], names: Iterable[str], *, variable: str) -> dict[str, Mapping[str, Any]]:
    """Per node (name) the result of its task; a node whose task has not run has none, nor has one that is left out."""
    known = task_vars["hostvars"]
    found = {name: known[name].get(variable) for name in names if name in known}
    return {name: result for name, result in found.items() if result is not None}


def left_out(task_vars: Mapping[str, Any] | None, names: Iterable[str]) -> dict[str, str]:
    """Why these nodes (names) are not hosts of the play, a line for each; those that are hosts have none.

    Ansible makes a host of each name that it does not know, and takes the variables from the file that the name leads
    to. Who writes the configuration may do so after the inventory has read it, so an action asks this of what it read
    last, before a name leaves it.
    """
    variables = task_vars or {}
    known, hosts = variables.get("roundsman_left_out", {}), variables.get("hostvars", {})
    reasons = {name: known.get(name) or _unfit(name, hosts) for name in names}
    return {name: f"{name} is left out of plays: {reason}" for name, reason in reasons.items() if reason}


def refuse_left_out(task_vars: Mapping[str, Any] | None, names: Iterable[str]) -> None:
    """Go on only if all of these nodes (names) are hosts of the play.

    Raises:
        Refused: the text names each that is none, with the reason.
    """
    if missing := left_out(task_vars, names):
        raise errors.Refused("; ".join(missing.values()))


def _unfit(name: str, hosts: Mapping[str, Any]) -> str:
    try:
        parameter_rules.node_name("name", name)
    except errors.InvalidInput as error:
        return str(error)
    unknown = "it is not in the inventory that this play began with: run the play again, or add it there"
    return "" if name in hosts else unknown


def failed(result: Mapping[str, Any]) -> bool:
    """Whether a task did not do on its node what it was to do, or the node was not reached."""
    return bool(result.get("failed") or result.get("unreachable"))
