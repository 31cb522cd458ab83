"""The action `evacuate_node`: plans a node's evacuation on the controller, and holds what the plan needs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.values import errors
from ..plugin_utils import holding, libraries, log_output, module_answers, node_results, replica_evidence
from ..plugin_utils.cluster import changes, known_off
from ..plugin_utils.cluster import cluster as clusters
from ..plugin_utils.cluster.locks import Mode
from ..plugin_utils.disks import possible_loss

with libraries.optional():
    from ..plugin_utils import daemon_client
    from ..plugin_utils.config import store
    from ..plugin_utils.opcodes import contract, registry
    from ..plugin_utils.placement.plan import Refusal
    from ..plugin_utils.rounds import audit_lines, evacuation, moving, rounds, work
    from ..plugin_utils.rounds.basis import Basis
    from ..plugin_utils.rounds.room import Room

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOVES = frozenset({"migrate", "failover"})
_SPEC = {
    "node": {"type": "str", "required": True},
    "failover": {"type": "bool", "default": False},
    "ignore_consistency": {"type": "bool", "default": False},
    "max_loss": {"type": "int", "default": -1},
    "time_limit": {"type": "float", "default": 300},
}


@dataclass(frozen=True)
class Planned:
    """The jobs of the evacuation, and what it refuses."""

    jobs: tuple[work.Job, ...]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True)
class Steps:
    """What is done, in this order, and what of the plan is refused."""

    steps: tuple[dict[str, Any], ...]
    refusals: tuple[Refusal, ...]


class ActionModule(module_answers.Action):
    """Return the steps that empty a node and what has to stay; in check mode nothing is held.

    `look` has the instances that shall run there, by name, and the nodes to look at for one that does not.
    """

    _requires_connection = False
    _needs_libraries = True
    _VALID_ARGS = frozenset(_SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(argument_spec=_SPEC)
        play = holding.current(task_vars)
        try:
            cluster, found, plan = _planned(play, options)
            node_results.refuse_left_out(task_vars, [options["node"], *_meant(cluster, plan, options["node"])])
            if not self._task.check_mode:
                cluster, found, plan = _held(play, options, cluster, plan)
                # The configuration was read again: its names may be other ones.
                node_results.refuse_left_out(task_vars, _meant(cluster, plan, options["node"]))
            made = _steps(cluster, plan, options, judged=found)
            steps = list(made.steps)
            if not self._task.check_mode:
                _audit(play, options, steps, judged=found)
            look = _look(cluster, options["node"], steps, left_out=node_results.left_out(task_vars, _names(cluster)))
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        refusals = [
            {"instance": refusal.subject, "text": f"{refusal.subject}: {refusal.reason}", "unblock": refusal.unblock}
            for refusal in (*plan.refusals, *made.refusals)
        ]
        told = [step["text"] for step in steps] + [f"stays: {refusal['text']}" for refusal in refusals]
        told = told or [f"{options['node']} has no instances and no replicas of any: nothing is to be done"]
        return {**result, "changed": bool(steps), "steps": steps, "refusals": refusals, "msg": told, "look": look}


def _planned(
    play: holding.Play, options: Mapping[str, Any]
) -> tuple[clusters.Cluster, dict[str, possible_loss.Answer], Planned]:
    """The cluster, what is known of its replicas, and the plan, as they are now."""
    cluster = _read(play)
    found = _evidence(play, cluster, options["node"], accepted=_accepted(options)["max_loss"])
    proof = {} if options["ignore_consistency"] else found
    return cluster, found, _plan(cluster, options["node"], failover=options["failover"], proof=proof)


def _held(
    play: holding.Play, options: Mapping[str, Any], cluster: clusters.Cluster, plan: Planned
) -> tuple[clusters.Cluster, dict[str, possible_loss.Answer], Planned]:
    """The same once the plan's locks are held, which may take minutes: the replicas are judged anew.

    Raises:
        Refused: the moves are other ones by then. LockRefused, StoreFailed: as for `holding.hold`.
    """
    holding.hold(play, _wants(cluster, plan, options["node"]), time_limit=options["time_limit"])
    now = _planned(play, options)
    if now[2].jobs != plan.jobs:
        raise errors.Refused("the cluster changed while the locks were waited for: run this play again")
    return now


def _read(play: holding.Play) -> clusters.Cluster:
    """The cluster as it is planned for: nodes that the daemon, if it runs, knows to be silent are no targets."""
    return clusters.observed(store.read(play.where.config), silent=daemon_client.silent_nodes(play.where.socket))


def _evidence(
    play: holding.Play, cluster: clusters.Cluster, name: str, *, accepted: int | None
) -> dict[str, possible_loss.Answer]:
    """What the accepted reports say of the replicas of a node's instances, where the node itself is not asked."""
    node = cluster.node(name)
    if clusters.reachable(cluster, node):
        return {}
    files = replica_evidence.Files(play.where, cluster, now=time.time())
    return replica_evidence.of_nodes(cluster, files, [node.uuid], accepted=accepted)


def _plan(
    cluster: clusters.Cluster, name: str, *, failover: bool, proof: Mapping[str, possible_loss.Answer]
) -> Planned:
    basis = Basis(cluster, avoid=rounds.no_targets(cluster), evidence=proof)
    plan = evacuation.plan(basis, cluster.node(name).uuid, failover=failover, room=Room(cluster))
    return Planned(moving.Jobs(cluster, failover=failover).make_all(plan.moves), plan.refusals)


def _wants(cluster: clusters.Cluster, plan: Planned, name: str) -> dict[str, Mode]:
    """All of it exclusively: no job moves anything to or from these nodes, or counts on their room, meanwhile."""
    wants = {f"node/{cluster.node(name).uuid}": Mode.EXCLUSIVE}
    for opcode in _opcodes(plan):
        wants |= dict.fromkeys(registry.make(opcode.kind, opcode.params).wants(cluster), Mode.EXCLUSIVE)
    return wants


def _names(cluster: clusters.Cluster) -> list[str]:
    return [node.name for node in cluster.nodes.values()]


def _meant(cluster: clusters.Cluster, plan: Planned, name: str) -> list[str]:
    """The nodes (names) of a plan."""
    wants = _wants(cluster, plan, name)
    return [node.name for uuid, node in cluster.nodes.items() if f"node/{uuid}" in wants]


def _audit(
    play: holding.Play,
    options: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    *,
    judged: Mapping[str, possible_loss.Answer],
) -> None:
    """Say in the audit log what may be lost: the run of a play by hand leaves no other record."""
    is_ignored, by = options["ignore_consistency"], f"record {log_output.account()} play={play.name}:"
    told = [f"{by} evacuate {options['node']} with ignore_consistency"] if is_ignored else []
    for step in (step for step in steps if step["kind"] == "failover"):
        names = {key: step["variables"][key]["name"] for key in ("instance", "source", "target")}
        found = judged.get(step["variables"]["instance"]["uuid"])
        if is_ignored or (found is not None and found.seconds is not None):
            text = f"{by} {step['text']}{', consistency is ignored' if is_ignored else ''}"
            seconds = None if found is None else found.seconds
            accepted = _accepted(options)["max_loss"]
            line = audit_lines.failover(
                text, **names, by=log_output.user(), seconds=seconds, accepted=accepted, is_ignored=is_ignored
            )
            told.append(line)
    log_output.append_audit(play.where, told)


def _accepted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Which losses a person accepts, as parameters of a failover."""
    limit = options["max_loss"]
    return {"ignore_consistency": options["ignore_consistency"], "max_loss": limit if limit >= 0 else None}


def _steps(
    cluster: clusters.Cluster,
    plan: Planned,
    options: Mapping[str, Any],
    *,
    judged: Mapping[str, possible_loss.Answer],
) -> Steps:
    """The steps of a plan, and what of it is refused: that keeps no other instance from leaving."""
    steps: list[dict[str, Any]] = []
    refusals: list[Refusal] = []
    refused: set[str] = set()
    for job in plan.jobs:
        if refused.intersection(job.after):
            # What comes after a job that is refused is not done either, and one reason is enough.
            refused.add(job.key)
            continue
        made, refusal, cluster = _steps_of(cluster, job, options, judged=judged)
        steps += made
        refusals += refusal
        refused |= {job.key} if refusal else set()
    return Steps(tuple(steps), tuple(refusals))


def _steps_of(
    cluster: clusters.Cluster,
    job: work.Job,
    options: Mapping[str, Any],
    *,
    judged: Mapping[str, possible_loss.Answer],
) -> tuple[list[dict[str, Any]], list[Refusal], clusters.Cluster]:
    """The steps of one instance, why there are no more of them, and the cluster after them.

    Where a step is refused, those up to the last move before it remain: a new secondary is made only for a move.
    """
    steps: list[dict[str, Any]] = []
    moved, after = 0, cluster
    for opcode in job.opcodes:
        accepted = _accepted(options) if opcode.kind == "failover" else {}
        made: Any = registry.make(opcode.kind, {**opcode.params, **accepted})
        text = _text(cluster, opcode)
        try:
            variables = made.variables(cluster)
        except errors.Refused as error:
            name = cluster.instance(str(opcode.params["instance"])).name
            reason = f"{text} is refused: {error}"
            return steps[:moved], [Refusal(name, reason)], after
        if "old_generations" in variables:
            # They hold while nobody changes the nodes of the instance; this plan is made before its step holds it.
            variables["old_generations"] = []
        found = judged.get(str(opcode.params["instance"])) if opcode.kind == "failover" else None
        if found is not None and found.seconds is not None:
            text += f" ({possible_loss.text(found.seconds)})"
        steps.append({"kind": opcode.kind, "text": text, "variables": variables})
        cluster = changes.apply_all(cluster, made.effects(cluster), now=0.0)
        if opcode.kind in MOVES:
            moved, after = len(steps), cluster
    return steps, [], cluster


def _look(
    cluster: clusters.Cluster, name: str, steps: list[dict[str, Any]], *, left_out: Mapping[str, str]
) -> dict[str, Any]:
    """What is asked of the node first: a play that was killed may have moved an instance, and not recorded it."""
    node = cluster.node(name)
    moved = [step["variables"]["instance"] for step in steps if step["kind"] != "replace_disks"]
    is_asked = clusters.reachable(cluster, node)
    expected = {instance["name"]: instance for instance in moved if is_asked and instance["admin_state"] == "up"}
    around = [member for member in cluster.nodes.values() if member.group == node.group and member.vm_capable]
    asked = [member.uuid for member in around if member.name not in left_out and clusters.reachable(cluster, member)]
    return {
        "expected": expected,
        "hypervisors": sorted({instance["hypervisor"] for instance in expected.values()}),
        "known": {instance: list(cluster.instance(instance).nodes) for instance in expected},
        "unfinished": [instance for instance in expected if cluster.instance(instance).moving],
        "nodes": [contract.node_variables(cluster, uuid) for uuid in asked],
        "unasked": [member.name for member in around if member.uuid not in asked],
        "off": [uuid for uuid, member in cluster.nodes.items() if known_off.is_known_off(member)],
    }


def _opcodes(plan: Planned) -> list[work.Opcode]:
    return [opcode for job in plan.jobs for opcode in job.opcodes]


def _text(cluster: clusters.Cluster, opcode: work.Opcode) -> str:
    names = {key: str(value) for key, value in opcode.params.items()}
    instance = cluster.instance(names["instance"]).name
    start, end = (names["old"], names["new"]) if opcode.kind == "replace_disks" else (names["source"], names["target"])
    return f"{opcode.kind} {instance}: {cluster.node_name(start)} -> {cluster.node_name(end)}"
