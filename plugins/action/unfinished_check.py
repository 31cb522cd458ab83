"""The action `unfinished_check`: decides where an instance is of which a migration has not ended."""

from __future__ import annotations

from typing import Any

from ..plugin_utils import module_answers, whereabouts
from ..plugin_utils.disks import failovers, unfinished_moves

_SPEC = {
    "instance": {"type": "str", "required": True},
    "hypervisor": {"type": "str", "required": True},
    "primary": {"type": "dict", "required": True},
    "other": {"type": "dict", "required": True},
}
_NO_DISKS = {"skipped": True}


class ActionModule(module_answers.Action):
    """Judge what `instance_info` answered on the `primary` and on the `other` node, dicts of `name` and `guests`.

    An `other` with empty `guests` was not contacted, and nothing is here. Returns the `step` of
    `plugin_utils/disks/unfinished_moves.py` and the `objection`.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        primary, other = (
            failovers.node(
                options[side]["name"],
                options["instance"],
                disks=_NO_DISKS,
                guests=options[side].get("guests") or {"unreachable": True, "msg": "it may not be contacted"},
                escape=module_answers.shown,
            )
            for side in ("primary", "other")
        )
        end = whereabouts.end_command(options["instance"], options["hypervisor"])
        goes_on = options["instance"] in ((options["primary"].get("guests") or {}).get("migrations") or {})
        answer = unfinished_moves.judge(options["instance"], primary, other, end=end, goes_on=goes_on)
        return {**result, "changed": False, "step": answer.step.value, "objection": answer.objection}
