"""The action `node_answers`: whether a node shows any sign of life, asked before its power is taken for its silence."""

from __future__ import annotations

from typing import Any

from ..plugin_utils import module_answers, reaching

_SPEC = {
    "address": {"type": "str", "default": ""},
    "port": {"type": "int", "default": 0},
}


class ActionModule(module_answers.Action):
    """Return in `alive` that the node runs programs, in `accepts` that only a port is open, '' for neither.

    `address` and `port` are its agent's, 0 for none.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        signs = reaching.signs_of_life(
            self,
            address=options["address"],
            port=options["port"],
            interpreter=self._interpreter(task_vars),
            seconds=self._reach_seconds(task_vars),
        )
        return {**result, "changed": False, "alive": signs.alive, "accepts": signs.accepts}
