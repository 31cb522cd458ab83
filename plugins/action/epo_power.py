"""The action `epo_power`: powers the nodes of an emergency, records what reads so, and tells who does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ansible.utils.display import Display

from ..module_utils.domain.power import power, power_record
from ..plugin_utils import commanding, module_answers, node_results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPEC = {
    "command": {"type": "str", "required": True, "choices": ["on", "emergency_off"]},
    "batches": {"type": "list", "elements": "list", "required": True},
    "stopping": {"type": "list", "elements": "str", "default": []},
    "before": {"type": "dict", "default": {}},
    "timeouts": {"type": "dict", "default": {}},
    "ignore_failures": {"type": "bool", "default": False},
    "delay": {"type": "float", "default": 0.0},
    "deadline": {"type": "float"},
    "credentials_file": {"type": "str", "required": True},
}
Target = dict[str, Any]


class ActionModule(module_answers.Action):
    """Power batches of nodes (`name`, `uuid`, `driver`) one after the other, `delay` seconds between them.

    A node among `stopping` whose instances did not stop keeps its power, unless failures are ignored: `kept` has its
    name and a line. One that does not confirm stops no other, and has a line in `missed`. With the result of a call
    `before` only the nodes are powered that were kept then.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        variables = task_vars or {}
        before: Mapping[str, Any] = options["before"]
        stopping = list(before.get("kept", options["stopping"]))
        keep = {} if options["ignore_failures"] else _still_at_work(variables, stopping, options["timeouts"])
        meant = [
            [target for target in batch if not before or target["name"] in before["kept"]]
            for batch in options["batches"]
        ]
        batches = [[target for target in batch if target["name"] not in keep] for batch in meant]
        missed: list[str] = list(before.get("missed", []))
        outcomes: list[power.Outcome] = []
        was_sent = False
        for targets in filter(None, batches):
            if was_sent and options["delay"]:
                time.sleep(options["delay"])
            given = time.time()
            told = self._power(targets, options, variables)
            was_sent = any(outcome.sent for outcome in told)
            outcomes += told
            missed += [line for outcome in told if (line := power_record.shortfall(outcome))]
            if not self._task.check_mode:
                missed += commanding.recorded(targets, told, given=given, variables=variables)
            Display().display(f"powered {_word(options)}: {len(outcomes)} of {sum(map(len, batches))} nodes")
        confirmed = [outcome.name for outcome in outcomes if outcome.confirmed]
        kept = {name: f"{name} keeps its power: {why}" for name, why in keep.items()}
        changed = any(outcome.changed for outcome in outcomes)
        return {**result, "changed": changed, "confirmed": confirmed, "missed": missed, "kept": kept}

    def _power(
        self, targets: Sequence[Target], options: Mapping[str, Any], variables: dict[str, Any]
    ) -> list[power.Outcome]:
        return commanding.commanded(
            self._execute_module,
            power.Command(options["command"]),
            targets,
            credentials_file=options["credentials_file"],
            deadline=options["deadline"],
            variables=variables,
        )


def _word(options: Mapping[str, Any]) -> str:
    return "on" if options["command"] == "on" else "off"


def _still_at_work(variables: Mapping[str, Any], names: Sequence[str], timeouts: Mapping[str, int]) -> dict[str, str]:
    """Nodes whose instances did not all stop, and why."""
    steps = node_results.registered(variables, names, variable="epo_step")
    unheard = {name: "nobody knows what runs there" for name in names if name not in steps}
    unheard |= node_results.left_out(variables, names)
    told = {name: _why(step, timeouts.get(name)) for name, step in steps.items() if node_results.failed(step)}
    told = {name: why for name, why in told.items() if name not in unheard}
    return {name: f"{why}; --ignore-failures powers it off all the same" for name, why in (unheard | told).items()}


def _why(step: Mapping[str, Any], timeout: int | None) -> str:
    if "timedout" in step:
        return f"it did not report within {timeout} s that its instances are stopped"
    return str(step.get("msg", ""))
