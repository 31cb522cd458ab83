"""The action `epo_returned`: how far the return of an emergency power off has come, and the end of its hold."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.values import errors
from ..plugin_utils import holding, libraries, module_answers, node_results
from ..plugin_utils.cluster import changes

with libraries.optional():
    from ..plugin_utils.config import store
    from ..plugin_utils.opcodes import instance_facts, time_limits
    from ..plugin_utils.rounds import epo, wording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..plugin_utils.cluster import cluster as clusters

_SPEC = {
    "nodes": {"type": "dict", "required": True},
    "since": {"type": "float", "default": 0.0},
    "ends": {"type": "bool", "default": False},
    "ignore_failures": {"type": "bool", "default": False},
}


class ActionModule(module_answers.Action):
    """Strike off the nodes (names and UUIDs) that answered and what runs there; the result says what is next.

    With `ends` the hold is lifted when everything is back, or when failures are ignored.
    """

    _requires_connection = False
    _needs_libraries = True
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        told = task_vars or {}
        play = holding.current(task_vars)
        try:
            cluster = store.read(play.where.config)
            left_out = node_results.left_out(told, [node.name for node in cluster.nodes.values()])
            found = epo.returned(
                cluster,
                among=set(options["nodes"].values()),
                answered=_answered(told, options["nodes"]),
                running=_running(cluster, told),
                reasons=_reasons(cluster, told),
            )
            stated = _stated(found, ends=options["ends"], is_forced=options["ignore_failures"])
            if stated and not self._task.check_mode:
                holding.record(play, *stated, now=time.time())
            if not (self._task.check_mode or options["ends"]):
                _confirm_boots(play, found)
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        waiting = [name for name in found.waiting if name not in left_out]
        replicas, starts = _without(found.replicas, left_out), _without(found.starts, left_out)
        to_start = _facts(cluster, starts)
        concerned = {*found.waiting, *found.replicas, *found.starts}
        return {
            **result,
            "changed": bool(stated),
            "since": options["since"] or time.time(),
            "here": ["localhost"] if waiting or replicas or starts else [],
            "waiting": waiting,
            "replicas": _facts(cluster, replicas),
            "starts": {name: [_with_peer(cluster, name, facts) for facts in many] for name, many in to_start.items()},
            "timeouts": {"replicas": _timeouts(cluster, replicas), "starts": _timeouts(cluster, starts)},
            "missed": [
                *found.missed,
                *(why for name, why in left_out.items() if name in concerned),
                *_replicas_missed(cluster, told),
            ],
            "stands": _stands(changes.apply_all(cluster, stated, now=time.time())),
        }


def _confirm_boots(play: holding.Play, found: epo.Return) -> None:
    """The nodes that have just answered were powered on: what is ordered next is for the boots in which they are."""
    if named := {*found.replicas, *found.starts}:
        cluster = store.read(play.where.config)
        holding.confirm_boots(play, cluster, [node.uuid for node in cluster.nodes.values() if node.name in named])


def _without(by_node: Mapping[str, list[str]], left_out: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: uuids for name, uuids in by_node.items() if name not in left_out}


def _facts(cluster: clusters.Cluster, by_node: Mapping[str, list[str]]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: instance_facts.step_facts(cluster, [cluster.instances[uuid] for uuid in uuids])
        for name, uuids in by_node.items()
    }


def _with_peer(cluster: clusters.Cluster, primary: str, facts: dict[str, Any]) -> dict[str, Any]:
    """What a node needs to know to start an instance, with the node of its other replica."""
    others = cluster.instances[facts["uuid"]].secondary_nodes
    return {**facts, "peer": {"here": primary, "name": cluster.node_name(others[0])}} if others else facts


def _timeouts(cluster: clusters.Cluster, by_node: Mapping[str, list[str]]) -> dict[str, int]:
    """By node (name) how long the task may take that handles these instances."""
    return {
        name: time_limits.starting_all(cluster.instances[uuid] for uuid in uuids) for name, uuids in by_node.items()
    }


def _answered(told: Mapping[str, Any], nodes: Mapping[str, str]) -> set[str]:
    answers = node_results.registered(told, nodes, variable="epo_answer")
    return {nodes[name] for name, answer in answers.items() if not node_results.failed(answer)}


def _running(cluster: clusters.Cluster, told: Mapping[str, Any]) -> set[str]:
    """The instances that run, each as its own primary says: no node says anything of another's."""
    return {uuid for uuid, result in _steps(cluster, told).items() if result.get("running") is True}


def _reasons(cluster: clusters.Cluster, told: Mapping[str, Any]) -> dict[str, str]:
    """Why instances (UUIDs) do not run, each as its own primary says."""
    return {
        uuid: module_answers.shown(result["text"])
        for uuid, result in _steps(cluster, told).items()
        if isinstance(result.get("text"), str)
    }


def _steps(cluster: clusters.Cluster, told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What its own primary answered of each instance (UUID) that it was to start."""
    own = {
        (cluster.node_name(instance.primary_node), instance.name): uuid for uuid, instance in cluster.instances.items()
    }
    names = [node.name for node in cluster.nodes.values()]
    return {
        own[node, result["name"]]: result
        for node, step in node_results.registered(told, names, variable="epo_step").items()
        for result in step.get("results") or []
        if isinstance(result.get("name"), str) and (node, result["name"]) in own
    }


def _replicas_missed(cluster: clusters.Cluster, told: Mapping[str, Any]) -> list[str]:
    """The replicas that do not come up: their instances run without them."""
    return [
        f"the replica of {name or 'an instance'} on {node}: {module_answers.shown(str(replica['text']))}"
        for node, name, replica in _replicas(cluster, told)
        if replica.get("text")
    ]


def _replicas(cluster: clusters.Cluster, told: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """What nodes (names) answered about replicas, with the instance (name), '' where that has none on this node."""
    own = {
        (cluster.node_name(node), instance.name)
        for instance in cluster.instances.values()
        for node in instance.secondary_nodes
    }
    names = [node.name for node in cluster.nodes.values()]
    for node, step in node_results.registered(told, names, variable="epo_replicas").items():
        for replica in step.get("results") or []:
            name = replica.get("name")
            yield node, name if isinstance(name, str) and (node, name) in own else "", replica


def _stated(found: epo.Return, *, ends: bool, is_forced: bool) -> list[changes.Change]:
    """The hold stays until the end, although nothing may be left to wait for."""
    kept = [change for change in found.stated if not isinstance(change, (changes.EpoStands, changes.EpoGone))]
    last = [change for change in found.stated if isinstance(change, (changes.EpoStands, changes.EpoGone))]
    if ends:
        return [*kept, *([changes.EpoGone()] if last and is_forced else last)]
    return [*kept, *(change for change in last if isinstance(change, changes.EpoStands))]


def _stands(cluster: clusters.Cluster) -> str:
    known = cluster.maintenance.epo
    if known is None:
        return "maintenance goes on"
    return (
        f"maintenance is held: {wording.both(len(known.nodes), len(known.instances))} are still to return; "
        "`roundsman cluster epo --on` goes on with them. If one stays off, run `roundsman node offline NODE --force`, "
        "and that command again; `roundsman cluster epo --on --ignore-failures` ends the hold without what is missing"
    )
