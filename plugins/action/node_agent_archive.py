"""Put the node agent onto a node: one file, made of the collection that runs the play."""

from __future__ import annotations

from typing import Any

from ..plugin_utils import agent_archive, module_answers, pushing


class ActionModule(module_answers.Action):
    """The archive goes to `dest`, with `owner`, `group` and `mode`; it changes only when the agent does."""

    _VALID_ARGS = frozenset(pushing.SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        super().run(tmp, variables)
        _validated, options = self.validate_argument_spec(argument_spec=pushing.SPEC)
        return pushing.push(self, agent_archive.build(), options=options, variables=variables)
