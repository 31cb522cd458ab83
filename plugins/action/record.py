"""The action `record`: what became true, the moment it is true."""

from __future__ import annotations

import time
from typing import Any

from ..module_utils.domain.values import errors
from ..plugin_utils import holding, module_answers
from ..plugin_utils.cluster import recording


class ActionModule(module_answers.Action):
    """Record a change with its fields, such as `instance_nodes` or `node_powered`: `plugin_utils/cluster/recording.py`.

    Several are recorded together as the list `changes`. The play must hold what they are about; the configuration
    itself is written by whoever may.
    """

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        try:
            given = self._task.args.get("changes")
            if given is not None and not isinstance(given, list):
                raise errors.InvalidInput(f"changes must be a list of changes (got {given!r})")
            stated = [recording.decode(encoded) for encoded in ([self._task.args] if given is None else given)]
            if stated and not self._task.check_mode:
                holding.record(holding.current(task_vars), *stated, now=time.time())
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "changed": bool(stated), "recorded": dict(self._task.args)}
