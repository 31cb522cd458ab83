"""The controller's half of `instances_state`: before instances start, what the nodes of their other replicas said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..plugin_utils import module_answers, node_results

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 20_000
"""How long what a node says of its replica may be, as JSON, before another node is told."""


class ActionModule(module_answers.Action):
    """Hand the module of each instance with a `peer` whether that node answered about its replica, and what.

    Only the node that is named as its peer says anything of an instance's other replica.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        super().run(tmp, variables)
        options = dict(self._task.args)
        options["instances"] = [_with_peer(entry, variables) for entry in options.get("instances") or []]
        found: dict[str, Any] = self._execute_module(
            module_name="roundsman.cluster.instances_state", module_args=options, task_vars=variables
        )
        return found


def _with_peer(entry: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    if not entry.get("peer"):
        return entry
    peer = entry["peer"]["name"]
    step = node_results.registered(variables, [peer], variable="epo_replicas").get(peer, {})
    if not step or step.get("unreachable") or step.get("skipped"):
        return entry
    # A step that failed on a node that answers leaves nothing to compare with, and the instance waits.
    own: Mapping[str, Any] = next(
        (result for result in step.get("results") or [] if result.get("name") == entry["name"]), {}
    )
    return {**entry, "peer": {**entry["peer"], "answered": True, "disks": _disks(own.get("disks"))}}


def _disks(told: object) -> list[dict[str, Any]] | None:
    """What a node says of its replica, fit for another node; None where it is not."""
    if not isinstance(told, list) or not all(isinstance(disk, dict) for disk in told):
        return None
    shown = [{**disk, "text": module_answers.shown(str(disk.get("text", "")))} for disk in told]
    return shown if len(json.dumps(shown)) <= LARGEST else None
