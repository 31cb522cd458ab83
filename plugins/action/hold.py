"""The action `hold`: the locks of a play, before it touches anything."""

from __future__ import annotations

from typing import Any

from ..module_utils.domain.values import errors
from ..plugin_utils import holding, module_answers
from ..plugin_utils.cluster.locks import Mode

_SPEC = {
    "instances": {"type": "dict", "default": {}},
    "nodes": {"type": "dict", "default": {}},
    "power": {"type": "dict", "default": {}},
    "time_limit": {"type": "float", "default": 300},
}


class ActionModule(module_answers.Action):
    """Hold instances, nodes and their power (UUIDs, each with a mode `shared` or `exclusive`) until the play ends.

    `[lockset]` in place of a UUID stands for all of them.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        try:
            wants = _wants("instance", options["instances"]) | _wants("node-res", options["power"])
            wants |= _wants("node", {**dict.fromkeys(options["power"], Mode.SHARED.value), **options["nodes"]})
            if not self._task.check_mode:
                holding.hold(holding.current(task_vars), wants, time_limit=options["time_limit"])
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "changed": False}


def _wants(level: str, modes: dict[str, Any]) -> dict[str, Mode]:
    known = [mode.value for mode in Mode]
    for uuid, mode in modes.items():
        if mode not in known:
            raise errors.InvalidInput(f"hold: the mode of {level} {uuid} is {' or '.join(known)}, not {mode!r}")
    return {f"{level}/{uuid}": Mode(mode) for uuid, mode in modes.items()}
