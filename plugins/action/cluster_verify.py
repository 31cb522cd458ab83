"""The action `cluster_verify`: what is wrong with a cluster, told and never mended."""

from __future__ import annotations

from typing import Any

from ..module_utils.domain import power
from ..plugin_utils import commanding, findings, module_answers

_SPEC = {
    "targets": {"type": "list", "elements": "dict", "required": True},
    "paths": {"type": "list", "elements": "str", "required": True},
    "looks": {"type": "dict", "required": True},
    "unseen": {"type": "dict", "default": {}},
    "ignored": {"type": "dict", "default": {}},
    "differing": {"type": "dict", "default": {}},
    "credentials_file": {"type": "str", "required": True},
}


class ActionModule(module_answers.Action):
    """Compare the power of nodes (`name`, `powered`, `driver`) with their record, and weigh the looks at candidates."""

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        read = commanding.commanded(
            self._execute_module,
            power.Command.STATUS,
            options["targets"],
            credentials_file=options["credentials_file"],
            variables=task_vars or {},
        )
        records = {one["name"]: one["powered"] for one in options["targets"]}
        found = [
            *findings.of_programs(options["looks"], paths=options["paths"], unseen=options["unseen"]),
            *findings.of_power(read, records=records),
            *findings.of_host_variables(options["ignored"]),
            *findings.of_diagnose_commands(options["differing"]),
        ]
        return {**result, "changed": False, "findings": [one.as_dict() for one in found]}
