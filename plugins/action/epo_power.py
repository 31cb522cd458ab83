"""The action `epo_power`: powers the nodes of an emergency, records what reads so, and tells who does not."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.domain import changes, errors, power
from ..plugin_utils import holding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPEC = {
    "command": {"type": "str", "required": True, "choices": ["on", "off"]},
    "batches": {"type": "list", "elements": "list", "required": True},
    "nodes": {"type": "dict", "required": True},
    "keep": {"type": "dict", "default": {}},
    "delay": {"type": "float", "default": 0.0},
    "deadline": {"type": "float", "default": 30.0},
    "credentials_file": {"type": "str", "required": True},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """Power batches of nodes one after the other, `delay` seconds between them; `keep` names who is left alone, and why.

    A node that does not confirm stops no other. The result has one line for each node that is not as it should be.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        results: list[dict[str, Any]] = []
        missed = [f"{name}: {why}" for name, why in options["keep"].items()]
        for number, batch in enumerate(options["batches"], start=1):
            names = [name for name in batch if name not in options["keep"]]
            if not names:
                continue
            told = self._power(names, options, task_vars or {})
            results += told.get("results", [])
            missed += _missed(names, told)
            trouble = self._record(told.get("results", []), options["nodes"], task_vars or {})
            missed += [f"{', '.join(names)}: {trouble}"] if trouble else []
            Display().display(f"powered {options['command']}, batch {number} of {len(options['batches'])}")
            if options["delay"] and number < len(options["batches"]) and any(one["sent"] for one in told.get("results", [])):
                time.sleep(options["delay"])
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
        stated = [changes.NodePowered(nodes[one["name"]], powered=read[one["after"]]) for one in results if one["after"] in read]
        if not stated or self._task.check_mode:
            return ""
        try:
            play = holding.play(str(task_vars.get("roundsman_root", "/")), pid=os.getppid())
            holding.record(play, *stated, now=time.time())
        except errors.RoundsmanError as error:
            return f"could not be recorded: {error}"
        return ""


def _missed(names: Sequence[str], told: Mapping[str, Any]) -> list[str]:
    if "results" not in told:
        return [f"{name}: {told.get('msg', 'the module gave no results')}" for name in names]
    return [
        f"{one['name']}: reads {one['after']}, {one['reason'] or power.Reason.UNCONFIRMED.value}: {one['text']}"
        for one in told["results"]
        if not one["confirmed"]
    ]
