"""The action `epo_power`: powers the nodes of an emergency, records what reads so, and tells who does not."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.domain import changes, errors, power
from ..plugin_utils import holding, node_results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPEC = {
    "command": {"type": "str", "required": True, "choices": ["on", "off"]},
    "batches": {"type": "list", "elements": "list", "required": True},
    "nodes": {"type": "dict", "required": True},
    "stopping": {"type": "list", "elements": "str", "default": []},
    "ignore_failures": {"type": "bool", "default": False},
    "delay": {"type": "float", "default": 0.0},
    "deadline": {"type": "float", "default": 30.0},
    "credentials_file": {"type": "str", "required": True},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """Power batches of nodes one after the other, `delay` seconds between them.

    A node among `stopping` whose instances did not stop keeps its power, unless failures are ignored. One that does
    not confirm stops no other; the result has one line for each node that is not as it should be.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        told = task_vars or {}
        keep = {} if options["ignore_failures"] else _still_at_work(told, options["stopping"])
        results: list[dict[str, Any]] = []
        missed = [f"{name} keeps its power: {why}" for name, why in keep.items()]
        batches = [[name for name in batch if name not in keep] for batch in options["batches"]]
        was_sent = False
        for names in filter(None, batches):
            if was_sent and options["delay"]:
                time.sleep(options["delay"])
            answer = self._power(names, options, told)
            was_sent = any(one["sent"] for one in answer.get("results", []))
            results += answer.get("results", [])
            missed += _missed(names, answer)
            trouble = self._record(answer.get("results", []), options["nodes"], told)
            missed += [f"{', '.join(names)}: {trouble}"] if trouble else []
            Display().display(f"powered {options['command']}: {len(results)} of {sum(map(len, batches))} nodes")
        confirmed = [one["name"] for one in results if one["confirmed"]]
        return {**result, "changed": any(one["changed"] for one in results), "confirmed": confirmed, "missed": missed}

    def _power(self, names: Sequence[str], options: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        args = {"command": options["command"], "nodes": list(names)}
        args |= {"credentials_file": options["credentials_file"], "deadline": options["deadline"]}
        told: dict[str, Any] = self._execute_module("roundsman.cluster.oob_power", args, task_vars=task_vars)
        return told

    def _record(self, results: list[dict[str, Any]], nodes: Mapping[str, str], task_vars: dict[str, Any]) -> str:
        """Record the states that were read back; what stands against it is returned."""
        read = {"on": True, "off": False}
        stated = [
            changes.NodePowered(nodes[one["name"]], powered=read[one["after"]])
            for one in results
            if one["after"] in read
        ]
        if not stated or self._task.check_mode:
            return ""
        try:
            play = holding.play(str(task_vars.get("roundsman_root", "/")), pid=os.getppid())
            holding.record(play, *stated, now=time.time())
        except errors.RoundsmanError as error:
            return f"could not be recorded: {error}"
        return ""


def _still_at_work(told: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Nodes whose instances did not all stop, and why."""
    steps = node_results.registered(told, names, variable="epo_step")
    unheard = {name: "nobody knows what runs there" for name in names if name not in steps}
    told = {name: str(step.get("msg", "")) for name, step in steps.items() if node_results.failed(step)}
    return {name: f"{why}; --ignore-failures powers it off all the same" for name, why in (unheard | told).items()}


def _missed(names: Sequence[str], told: Mapping[str, Any]) -> list[str]:
    if "results" not in told:
        return [f"{name}: {told.get('msg', 'the module gave no results')}" for name in names]
    return [
        f"{one['name']}: reads {one['after']}, {one['reason'] or power.Reason.UNCONFIRMED.value}: {one['text']}"
        for one in told["results"]
        if not one["confirmed"]
    ]
