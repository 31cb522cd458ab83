"""The action `evacuate_node`: plans a node's evacuation on the controller, and holds what the plan needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..module_utils.domain import changes, errors
from ..module_utils.domain import cluster as clusters
from ..module_utils.domain.locks import Mode
from ..plugin_utils import holding, module_answers
from ..plugin_utils.config import store
from ..plugin_utils.opcodes import contract, registry
from ..plugin_utils.planning import evacuation, rounds
from ..plugin_utils.planning.room import Room
from ..plugin_utils.planning.waves import Waves

if TYPE_CHECKING:
    from ..plugin_utils.planning import work

_SPEC = {
    "node": {"type": "str", "required": True},
    "failover": {"type": "bool", "default": False},
    "time_limit": {"type": "float", "default": 300},
}


class ActionModule(module_answers.Action):
    """Return the steps that empty a node and what has to stay; in check mode nothing is held.

    `look` has the instances that shall run there, by name, and the nodes to look at for one that does not.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        play = holding.current(task_vars)
        try:
            cluster = store.read(play.where.config)
            plan = _plan(cluster, options["node"], failover=options["failover"])
            if not self._task.check_mode:
                wants = _wants(cluster, plan, options["node"])
                holding.hold(play, wants, time_limit=options["time_limit"])
                cluster = store.read(play.where.config)
                if _plan(cluster, options["node"], failover=options["failover"]) != plan:
                    raise errors.Refused("the cluster changed while the locks were waited for: run this play again")
            steps = _steps(cluster, plan)
            look = _look(cluster, options["node"], steps)
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        refusals = [
            {"instance": one.subject, "text": f"{one.subject}: {one.reason}", "unblock": one.unblock}
            for one in plan.refusals
        ]
        told = [step["text"] for step in steps] + [f"stays: {one['text']}" for one in refusals]
        told = told or [f"{options['node']} has no instances and no copies of any: nothing is to be done"]
        return {**result, "changed": bool(steps), "steps": steps, "refusals": refusals, "msg": told, "look": look}


def _plan(cluster: clusters.Cluster, name: str, *, failover: bool) -> evacuation.EvacuationPlan:
    return evacuation.plan(
        cluster,
        cluster.node(name).uuid,
        failover=failover,
        avoid=rounds.no_targets(cluster),
        taken={},
        room=Room(cluster),
        waves=Waves(limit=1),
    )


def _wants(cluster: clusters.Cluster, plan: evacuation.EvacuationPlan, name: str) -> dict[str, Mode]:
    """All of it exclusively: no job moves anything to or from these nodes, or counts on their room, meanwhile."""
    wants = {f"node/{cluster.node(name).uuid}": Mode.EXCLUSIVE}
    for opcode in _opcodes(plan):
        wants |= dict.fromkeys(registry.make(opcode.kind, opcode.params).wants(cluster), Mode.EXCLUSIVE)
    return wants


def _steps(cluster: clusters.Cluster, plan: evacuation.EvacuationPlan) -> list[dict[str, Any]]:
    steps = []
    for opcode in _opcodes(plan):
        made: Any = registry.make(opcode.kind, opcode.params)
        steps.append({"kind": opcode.kind, "text": _text(cluster, opcode), "variables": made.variables(cluster)})
        cluster = changes.apply_all(cluster, made.effects(cluster), now=0.0)
    return steps


def _look(cluster: clusters.Cluster, name: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """What is asked of the node first: a play that was killed may have moved an instance, and not recorded it."""
    node = cluster.node(name)
    moved = [step["variables"]["instance"] for step in steps if step["kind"] != "replace_disks"]
    is_asked = clusters.reachable(cluster, node)
    expected = {one["name"]: one for one in moved if is_asked and one["admin_state"] == "up"}
    around = [one for one in cluster.nodes.values() if one.group == node.group and one.vm_capable]
    asked = [one.uuid for one in around if clusters.reachable(cluster, one)]
    return {
        "expected": expected,
        "hypervisors": sorted({one["hypervisor"] for one in expected.values()}),
        "known": {one: list(cluster.instance(one).nodes) for one in expected},
        "nodes": [contract.node_variables(cluster, uuid) for uuid in asked],
        "unasked": [one.name for one in around if one.uuid not in asked],
    }


def _opcodes(plan: evacuation.EvacuationPlan) -> list[work.Opcode]:
    return [opcode for job in plan.jobs for opcode in job.opcodes]


def _text(cluster: clusters.Cluster, opcode: work.Opcode) -> str:
    names = {key: str(value) for key, value in opcode.params.items()}
    instance = cluster.instance(names["instance"]).name
    start, end = (names["old"], names["new"]) if opcode.kind == "replace_disks" else (names["source"], names["target"])
    return f"{opcode.kind} {instance}: {cluster.node_name(start)} -> {cluster.node_name(end)}"
