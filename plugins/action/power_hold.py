"""The action `power_hold`: holds nodes whose power is commanded by hand, and says what the steps need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..module_utils.domain.values import errors
from ..plugin_utils import holding, libraries, module_answers, node_results
from ..plugin_utils.cluster import cluster as clusters

with libraries.optional():
    from ..plugin_utils.config import store
    from ..plugin_utils.opcodes import node_power

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPEC = {
    "command": {"type": "str", "required": True, "choices": ["status", "on", "off", "cycle"]},
    "names": {"type": "list", "elements": "str", "default": []},
    "force": {"type": "bool", "default": False},
    "delay": {"type": "float", "default": 0.0},
    "time_limit": {"type": "float", "default": 300},
}


class ActionModule(module_answers.Action):
    """Hold the nodes of these names until the play ends; only a status is read of all when none is named.

    In check mode nothing is held, and the steps are told to send nothing.
    """

    _requires_connection = False
    _needs_libraries = True
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        play = holding.current(task_vars)
        try:
            cluster = store.read(play.where.config)
            opcode = node_power.Power(
                nodes=_nodes(cluster, options["names"], command=options["command"]),
                command=options["command"],
                force=options["force"],
                delay=options["delay"],
                check=bool(self._task.check_mode),
            )
            if not self._task.check_mode:
                holding.hold(play, opcode.wants(cluster), time_limit=options["time_limit"])
                cluster = store.read(play.where.config)
            # Nobody is fenced by hand: no sign of life is asked for.
            step = {**opcode.variables(cluster), "ask_first": [], "agents": {}, "expected": ""}
            step = _without(step, node_results.left_out(task_vars, step["look_first"]))
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "changed": False, "step": step}


def _without(step: dict[str, Any], unseen: Mapping[str, str]) -> dict[str, Any]:
    """The step without the nodes that nobody can look at: they keep their power, and are named with the reason."""
    return {
        **step,
        "targets": [target for target in step["targets"] if target["name"] not in unseen],
        "refused": {**step["refused"], **unseen},
        "look_first": [name for name in step["look_first"] if name not in unseen],
    }


def _nodes(cluster: clusters.Cluster, names: Sequence[str], *, command: str) -> tuple[str, ...]:
    if names:
        return tuple(cluster.node(name).uuid for name in names)
    if command != "status":
        raise errors.Refused(f"power {command} is for nodes that are named")
    every = (node for node in cluster.nodes.values() if clusters.parameter(cluster, node, "oob_program") is not None)
    return tuple(node.uuid for node in every)
