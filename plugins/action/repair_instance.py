"""The action `repair_instance`: holds an instance whose disks are repaired by hand, and says what its steps need."""

from __future__ import annotations

from typing import Any

from ..module_utils.domain.values import errors
from ..plugin_utils import holding, libraries, module_answers, node_results

with libraries.optional():
    from ..plugin_utils.config import store
    from ..plugin_utils.opcodes import disk_repair

_SPEC = {
    "name": {"type": "str", "required": True},
    "discard": {"type": "str", "default": ""},
    "time_limit": {"type": "float", "default": 300},
}


class ActionModule(module_answers.Action):
    """Hold the instance of a name and its nodes until the play ends; in check mode nothing is held."""

    _requires_connection = False
    _needs_libraries = True
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        play = holding.current(task_vars)
        try:
            cluster = store.read(play.where.config)
            discard = cluster.node(options["discard"]).uuid if options["discard"] else ""
            opcode = disk_repair.RepairDisks(cluster.instance(options["name"]).uuid, discard)
            if not self._task.check_mode:
                holding.hold(play, opcode.wants(cluster), time_limit=options["time_limit"])
                cluster = store.read(play.where.config)
            if text := opcode.moot(cluster):
                raise errors.Refused(text)
            step = opcode.variables(cluster)
            nodes = cluster.instance(options["name"]).nodes
            node_results.refuse_left_out(task_vars, [cluster.node_name(uuid) for uuid in nodes])
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "changed": False, "step": step}
