"""The action `drbd_verdicts`: decides which repairs the disks of an instance need; nothing is contacted."""

from __future__ import annotations

from typing import Any

from ..module_utils.domain.disks.drbd_pairs import Where
from ..module_utils.domain.values import errors
from ..plugin_utils import disk_repairs, module_answers

_SPEC = {
    "instance": {"type": "dict", "required": True},
    "primary": {"type": "dict", "required": True},
    "secondary": {"type": "dict", "required": True},
    "nodes": {"type": "dict", "required": True},
    "tried": {"type": "list", "elements": "dict", "default": []},
    "undone": {"type": "list", "elements": "dict", "default": []},
    "discard": {"type": "str", "default": ""},
}


class ActionModule(module_answers.Action):
    """Judge what `drbd_info` answered on the `primary` and the `secondary` of an instance, whose names are `nodes`.

    The steps in `tried` were done already, and those of them that are `undone` ended in an error. `discard` names the
    node whose writes a person gives up.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        nodes = {where: str(options["nodes"][where.value]) for where in Where}
        try:
            judged = disk_repairs.judge(
                disk_repairs.resources(options["instance"]),
                primary=options["primary"],
                secondary=options["secondary"],
                tried=options["tried"],
                undone=options["undone"],
                discard=disk_repairs.node_to_discard(options["discard"], nodes),
            )
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "changed": False, **disk_repairs.as_result(judged, nodes, tried=options["tried"])}
