"""The action `epo`: what an emergency power off, or its return, would do; and, once confirmed, the hold for it."""

from __future__ import annotations

import getpass
import time
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.values import errors
from ..plugin_utils import commanding, holding, libraries, module_answers, node_results
from ..plugin_utils.cluster import changes, known_off, locks, recording
from ..plugin_utils.cluster import cluster as clusters
from ..plugin_utils.cluster.locks import Mode

with libraries.optional():
    from ..plugin_utils.config import store
    from ..plugin_utils.opcodes import instance_facts, time_limits
    from ..plugin_utils.rounds import epo
    from ..plugin_utils.rounds.holdings import Holdings

if TYPE_CHECKING:
    from ..plugin_utils.cluster import epo as emergency

_SPEC = {
    "on": {"type": "bool", "default": False},
    "names": {"type": "list", "elements": "str", "default": []},
    "groups": {"type": "bool", "default": False},
    "all": {"type": "bool", "default": False},
    "confirm": {"type": "str", "default": ""},
    "force": {"type": "bool", "default": False},
    "batch": {"type": "int", "default": 10},
    "time_limit": {"type": "float", "default": 120},
    "shutdown_timeout": {"type": "float", "default": 120},
}


class ActionModule(module_answers.Action):
    """Return the preview with its code; with this code as `confirm`, or by `force`, hold the cluster for it first.

    The hold of all maintenance is made durable before anything else is waited for.
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
            preview = _preview(cluster, options)
            go = not self._task.check_mode and (options["force"] or bool(options["confirm"]))
            if go:
                _check_confirmed(preview, options)
                cluster, preview = _held(play, preview, options)
        except errors.RoundsmanError as error:
            return {**result, "failed": True, "msg": str(error)}
        timeouts = _timeouts(cluster, preview, most=options["shutdown_timeout"])
        told = _told(cluster, preview, go=go, batch=options["batch"])
        commanded = [step.uuid for step in preview.steps if step.power]
        told["preview"] = [*commanding.unpowered(play.where, cluster, commanded, on=preview.on), *told["preview"]]
        left_out = node_results.left_out(task_vars, [step.name for step in preview.steps])
        return {**result, "changed": go, **told, "timeouts": timeouts, "left_out": list(left_out)}


def _preview(cluster: clusters.Cluster, options: dict[str, Any]) -> epo.Preview:
    return epo.preview(
        cluster, options["names"], on=options["on"], by_group=options["groups"], everything=options["all"]
    )


def _check_confirmed(preview: epo.Preview, options: dict[str, Any]) -> None:
    if not options["force"] and not preview.is_confirmed_by(options["confirm"]):
        raise errors.Refused(
            f"{options['confirm']!r} confirms another preview than this one: read it again, its code is {preview.code}"
        )


def _held(play: holding.Play, preview: epo.Preview, options: dict[str, Any]) -> tuple[clusters.Cluster, epo.Preview]:
    """Make the hold of all maintenance durable, then wait for whatever is at work on these nodes.

    What stands is read once nobody else can change it: another emergency power off may have ended meanwhile. What
    returns is recorded once more when what was at work has ended: jobs may have started and stopped instances.
    A return that does not get its locks, or is another one by then, leaves what stood before.
    """
    holding.hold(play, {recording.WHOLE: Mode.EXCLUSIVE}, time_limit=options["time_limit"])
    cluster = store.read(play.where.config)
    stood = cluster.maintenance.epo
    now = _agreed(cluster, preview, options, held="nothing is done yet")
    holding.record(play, _standing(cluster, now, stood), now=time.time())
    try:
        cluster, again = _with_locks(play, cluster, now, stood, options)
    except errors.Refused:
        if now.on:
            holding.record(play, _as_before(store.read(play.where.config), stood), now=time.time())
        raise
    if again != now:
        holding.record(play, _standing(cluster, again, stood), now=time.time())
        cluster = store.read(play.where.config)
    return cluster, again


def _with_locks(
    play: holding.Play,
    cluster: clusters.Cluster,
    known: epo.Preview,
    stood: emergency.Epo | None,
    options: dict[str, Any],
) -> tuple[clusters.Cluster, epo.Preview]:
    """Wait for whatever is at work on these nodes; the cluster after that, and what is to be done."""
    try:
        # What is powered off does not wait for a node that does not answer.
        holding.hold(play, _wants(cluster, known), time_limit=options["time_limit"], is_emergency=not known.on)
    except errors.LockRefused as error:
        raise errors.LockRefused(f"{error}; {_without_locks(known, stood)}") from error
    cluster = store.read(play.where.config)
    held = "nothing is done yet" if known.on else "maintenance is held"
    return cluster, _agreed(cluster, known, options, held=held)


def _as_before(cluster: clusters.Cluster, stood: emergency.Epo | None) -> changes.EpoStands | changes.EpoGone:
    if stood is None:
        return changes.EpoGone()
    there = _there(cluster, stood)
    return changes.EpoStands(*there, stood.by, returning=stood.returning, lost=stood.lost)


def _there(cluster: clusters.Cluster, known: emergency.Epo) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes and instances of what stands that have not left the cluster."""
    nodes = tuple(uuid for uuid in known.nodes if uuid in cluster.nodes)
    return nodes, tuple(uuid for uuid in known.instances if uuid in cluster.instances)


def _without_locks(preview: epo.Preview, stood: emergency.Epo | None) -> str:
    """What holds although the locks were not granted, and what helps."""
    text = "nothing is done yet, and " + ("maintenance is held" if stood or not preview.on else "nothing is held")
    if preview.on and (stood is None or stood.lost):
        helps = ", end them with `roundsman jobs cancel NUMBER`, or name only the nodes that had no power, then retry"
    else:
        helps = ", or end them with `roundsman jobs cancel NUMBER`, then run the same command again"
    return f"{text}: wait for those jobs{helps}"


def _agreed(cluster: clusters.Cluster, known: epo.Preview, options: dict[str, Any], *, held: str) -> epo.Preview:
    """The preview as the cluster is now; without force it has to be the one that is known."""
    now = _preview(cluster, options)
    if now != known and not options["force"]:
        raise errors.Refused(
            f"the cluster changed while the locks were waited for; {held}: look again, code {now.code}"
        )
    return now


def _standing(cluster: clusters.Cluster, preview: epo.Preview, known: emergency.Epo | None) -> changes.EpoStands:
    """What stands with what stood before: it returns, unless it has left the cluster."""
    is_lost = preview.on and (known is None or known.lost)
    nodes, instances = _there(cluster, known) if known else ((), ())
    if is_lost or not preview.on:
        # What an ordered one found off or down stays so when the others return.
        took = [step.uuid for step in preview.steps if is_lost or not known_off.is_off(cluster.nodes[step.uuid])]
        nodes = (*nodes, *took)
        by_name = Holdings(cluster.instances).by_name
        instances = (*instances, *(by_name[name].uuid for name in preview.instances))
    by = known.by if known else getpass.getuser()
    return changes.EpoStands(
        tuple(dict.fromkeys(nodes)), tuple(dict.fromkeys(instances)), by, returning=preview.on, lost=is_lost
    )


def _wants(cluster: clusters.Cluster, preview: epo.Preview) -> dict[str, Mode]:
    if len(preview.steps) == len(cluster.nodes):
        return {locks.set_of("instance/x"): Mode.EXCLUSIVE, locks.set_of("node/x"): Mode.EXCLUSIVE}
    among = {step.uuid for step in preview.steps}
    touched = [uuid for uuid, instance in cluster.instances.items() if among & {*instance.nodes, *instance.places}]
    return dict.fromkeys([f"instance/{uuid}" for uuid in touched] + [f"node/{uuid}" for uuid in among], Mode.EXCLUSIVE)


def _timeouts(cluster: clusters.Cluster, preview: epo.Preview, *, most: float) -> dict[str, dict[str, int]]:
    """By wave and node (name) how long the task may take that stops its instances."""
    by_name = Holdings(cluster.instances).by_name
    found = {step.name: [by_name[name] for name in step.instances] for step in preview.steps}
    return {
        "quick": {name: time_limits.stopping_all_quickly(many, most=most) for name, many in found.items()},
        "whole": {name: time_limits.stopping_all(many, most=most) for name, many in found.items()},
    }


def _told(cluster: clusters.Cluster, preview: epo.Preview, *, go: bool, batch: int) -> dict[str, Any]:
    stopping = [step.name for step in preview.steps if step.contact and step.instances]
    by_name = Holdings(cluster.instances).by_name
    uuids = {step.name: step.uuid for step in preview.steps}
    return {
        "code": preview.code,
        "preview": [*preview.lines, f"code {preview.code}" + ("" if go else ": nothing is done yet, confirm with it")],
        "here": ["localhost"] if go else [],
        "nodes": uuids,
        "stopping": stopping if go and not preview.on else [],
        "instances": {
            step.name: [
                # Where it ran last stays on record as not known, and its start looks on both nodes.
                {**facts, "only_here": bool(by_name[facts["name"]].moving)}
                for facts in instance_facts.step_facts(cluster, [by_name[name] for name in step.instances])
            ]
            for step in preview.steps
        },
        "batches": [[_target(cluster, uuids[name]) for name in names] for names in preview.batches(batch)],
        "last": preview.last,
    }


def _target(cluster: clusters.Cluster, uuid: str) -> dict[str, Any]:
    node = cluster.nodes[uuid]
    return {"name": node.name, "uuid": node.uuid, "driver": clusters.parameter(cluster, node, "oob_program")}
