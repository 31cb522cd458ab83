"""The action `power_command`: one power command at the BMCs of many nodes, recorded as far as it was read back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.power import power, power_record
from ..plugin_utils import commanding, module_answers, power_looks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPEC = {
    "command": {
        "type": "str",
        "required": True,
        "choices": ["status", "on", "off", "cycle", "fence", "confirm_off"],
    },
    "targets": {"type": "list", "elements": "dict", "required": True},
    "refused": {"type": "dict", "default": {}},
    "looks": {"type": "dict", "default": {}},
    "alive": {"type": "dict", "default": {}},
    "forced": {"type": "bool", "default": False},
    "delay": {"type": "float", "default": 0.0},
    "batch": {"type": "int", "default": 10},
    "expected": {"type": "str", "default": ""},
    "record_read": {"type": "bool", "default": False},
    "credentials_file": {"type": "str", "required": True},
}


class ActionModule(module_answers.Action):
    """Command nodes (`uuid`, `name`, `driver`) together, or power on a batch at a time with a delay (seconds) between.

    `refused` are nodes that are left alone, and why; `looks` what was seen of those that were looked at, `alive` what
    those that are to be fenced answered. The result has
    an outcome for each node, `told` a line for each, `unconfirmed` a line for each that is not as it should be, and
    `summary` a few words for all. In check mode nothing is sent, and all of them tell what would be.
    With `forced` an off is sent to a node that reads off, too: only what its BMC took dates it, and ends a statement.
    With `record_read` whatever is read is recorded, as after a lost command; else what was asked for and confirmed.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        command, variables = power.Command(options["command"]), task_vars or {}
        given_command = power.Command.EMERGENCY_OFF if options["forced"] and command is power.Command.OFF else command
        refused = {**options["refused"], **self._objections(options, variables)}
        answering = power_looks.answering(command, options["alive"])
        left = [power_looks.refused(command, *refusal) for refusal in refused.items()]
        left += [power_looks.answers(command, *answer) for answer in answering.items()]
        targets = [target for target in options["targets"] if target["name"] not in {*refused, *answering}]
        outcomes = list(power_looks.ordered(left))
        troubles: list[str] = []
        if not self._task.check_mode:
            troubles += commanding.recorded(options["targets"], outcomes, given=time.time(), variables=variables)
        is_whole = command is not power.Command.ON or not options["delay"]
        batches = _batches(targets, size=len(targets) or 1 if is_whole else options["batch"])
        for number, batch in enumerate(batches, start=1):
            given = time.time()
            told = self._commanded(given_command, batch, options, variables)
            outcomes += told
            if not self._task.check_mode:
                rule = power_record.read if options["record_read"] else power_record.recorded
                troubles += commanding.recorded(batch, told, given=given, rule=rule, variables=variables)
            if number < len(batches) and any(outcome.sent for outcome in told):
                time.sleep(options["delay"])
        summary = power_record.doubts(outcomes) if options["record_read"] else power_record.summary(outcomes)
        summary = f"nothing is sent; it would be: {summary}" if self._task.check_mode else summary
        failure = {"failed": True, "msg": "; ".join(troubles)} if troubles else {}
        return {**result, "summary": summary, **self._told(command, outcomes, options["expected"]), **failure}

    def _objections(self, options: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, str]:
        """Whoever runs something, or nobody could look at and does not read off, keeps its power."""
        unreachable = power_looks.unreachable(options["looks"])
        among = [target for target in options["targets"] if target["name"] in unreachable]
        read = self._commanded(power.Command.STATUS, among, options, variables)
        if not self._task.check_mode:
            commanding.recorded(among, read, given=time.time(), variables=variables)
        return power_looks.objections(options["looks"], read=read)

    def _commanded(
        self,
        command: power.Command,
        targets: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        variables: dict[str, Any],
    ) -> list[power.Outcome]:
        return commanding.commanded(
            self._execute_module, command, targets, credentials_file=options["credentials_file"], variables=variables
        )

    def _told(self, command: power.Command, outcomes: Sequence[power.Outcome], expected: str) -> dict[str, Any]:
        ordered = power_looks.ordered(outcomes)
        lines = [
            power_record.shortfall(outcome) or power_record.mismatch(outcome, expected=expected) for outcome in ordered
        ]
        is_check = self._task.check_mode
        changed = [power_record.would_change(outcome) if is_check else outcome.changed for outcome in ordered]
        return {
            "changed": any(changed),
            "results": [{**outcome.as_dict(), "command": command.value} for outcome in ordered],
            "told": [power_record.foretold(outcome) if is_check else power_record.told(outcome) for outcome in ordered],
            "unconfirmed": [*filter(None, lines)],
        }


def _batches(targets: list[dict[str, Any]], *, size: int) -> list[list[dict[str, Any]]]:
    return [targets[start : start + size] for start in range(0, len(targets), size)]
