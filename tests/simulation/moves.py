"""What the plays of instances come to in the world: where they run, and which node may write their disks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_replica import Rejected
from ansible_collections.roundsman.cluster.plugins.action import replica_check
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replacements, starts
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.left_replicas import ReplicaLeft

from tests.simulation.acts import (
    LOOK,
    MOVE,
    RECORD,
    STOP,
    PlayFailed,
    check_answers,
    check_linked,
    check_runs,
    hand_over,
    may_break_off,
    may_fail,
    record,
    replicas,
    start,
    stop,
    tried,
    work,
)
from tests.simulation.failovers import Failover

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from tests.simulation.acts import Play
    from tests.simulation.disks import Replicas
    from tests.simulation.world import World

CONNECTING, PAUSE = 10.0, 2.5
"""Seconds that replicas get to connect, and from one look to the next."""
SYNCING, LOOKS = 30.0, 200
"""Seconds from one look at a resync to the next, and how many of them there are."""


def asked(world: World, instance: str, node: str) -> replacements.Node:
    """What a node reports about its replica, as `replica_check` takes it."""
    assert world.disks is not None
    answers = world.nodes[node].answers
    disks = world.disks.answer(instance, node) if answers else {"unreachable": True, "msg": "it does not answer"}
    return replica_check._node({"name": world.names[node], "disks": disks})


def only(world: World, instance: str, node: str, others: Iterable[str]) -> Play:
    """Let only the node write the disks where the instance runs; what does not answer stays as it is."""
    found = replicas(world, instance)
    for other in others:
        if world.nodes[other].answers and other != node:
            yield from tried(world, instance, other, partial(found.standby, other))
    if world.nodes[node].answers:
        yield from tried(world, instance, node, partial(found.active, node, alone=True))


def failover(world: World, run: Path, step: dict[str, Any]) -> Play:
    may_fail(world, "before the stop")
    return (yield from Failover(world, run, step).play())


def migrate(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, source, target = step["instance"]["uuid"], step["source"]["uuid"], step["target"]["uuid"]
    may_fail(world, "before it moves")
    yield LOOK
    check_answers(world, source, target)
    runs_on = world.guests[instance]
    if not runs_on:
        return (yield from Failover(world, run, step).play())
    is_there = step["unfinished"] and runs_on == {target}
    if runs_on != {source} and not is_there:
        raise PlayFailed(f"it does not run on {step['source']['name']}")
    if not is_there:
        yield from _migrate_live(world, run, instance, source, target)
    yield RECORD
    record(world, run, changes.InstanceNodes(instance, target, tuple(step["secondaries"])))
    yield RECORD
    check_answers(world, source, target)
    yield from only(world, instance, target, (source,))
    may_fail(world, "after it has moved")
    return None


def _migrate_live(world: World, run: Path, instance: str, source: str, target: str) -> Play:
    found = replicas(world, instance)
    try:
        yield from work(world, instance, source, partial(found.shared, source))
        yield RECORD
        check_answers(world, source, target)
        yield from work(world, instance, target, partial(found.shared, target))
        record(world, run, changes.InstanceMoving(instance, target))
        yield MOVE
        check_answers(world, source, target)
        yield from work(world, instance, source, partial(_handed_over, world, instance, source, target))
    except (PlayFailed, Rejected):
        if source in world.guests[instance]:
            yield from only(world, instance, source, (target,))
        raise


def _handed_over(world: World, instance: str, source: str, target: str) -> None:
    check_runs(world, instance, source)
    check_linked(world, instance, source)
    hand_over(world, instance, source, target)


def find_instance(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance = step["instance"]["uuid"]
    yield LOOK
    wanted = [node["uuid"] for node in step["nodes"]]
    heard, found = yield from _looked_for(world, instance, wanted)
    may_break_off(world)
    undecided = {*step["known"]} - {*heard} - {*step["known_off"]}
    others = [node["uuid"] for node in step["members"]]
    if len(found) == 1 and found[0] in step["known"] and (not undecided or found[0] == step["known"][0]):
        secondaries = tuple(node for node in step["known"] if node != found[0])
        record(world, run, changes.InstanceNodes(instance, found[0], secondaries))
        world.looks[run.parent] = True
        yield RECORD
        yield from only(world, instance, found[0], others)
    elif not found and heard == wanted and not step["unfinished"] and not step["unasked"]:
        promoted = [node for node in others if _role(world, instance, node) == "Primary"]
        if len(promoted) == 1 and len(others) == len(step["known"]):
            secondaries = tuple(node for node in step["known"] if node != promoted[0])
            record(world, run, changes.InstanceNodes(instance, promoted[0], secondaries))
    yield RECORD
    return None


def _looked_for(world: World, instance: str, nodes: list[str]) -> Generator[float, None, tuple[list[str], list[str]]]:
    """Those that answer, and those where it runs; each looks under the lock of its steps, as `instance_info` does."""
    heard: list[str] = []
    found: list[str] = []

    def look(node: str) -> None:
        found.extend({node} & world.guests[instance])

    for node in nodes:
        try:
            if world.nodes[node].answers:
                yield from work(world, instance, node, partial(look, node))
                heard.append(node)
        except PlayFailed:
            if world.nodes[node].answers:
                raise
    return heard, found


def _role(world: World, instance: str, node: str) -> str:
    device = replicas(world, instance).device(node) if world.nodes[node].answers else None
    return device.role if device is not None else ""


def startup(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, primary = step["instance"]["uuid"], step["primary"]["uuid"]
    may_fail(world, "before the start")
    yield STOP
    check_answers(world, primary)
    if step["unfinished"]:
        other = step["source"]["uuid"]
        check_answers(world, other)
        if other in world.guests[instance]:
            record(world, run, changes.InstanceNodes(instance, other, (primary,)))
            yield from only(world, instance, other, (primary,))
            record(world, run, changes.InstanceState(instance, "up"))
            return None
    yield from _compared(world, step)
    if step["unfinished"]:
        secondaries = tuple(step["secondaries"])
        record(world, run, changes.InstanceNodes(instance, primary, secondaries))
    check_answers(world, primary)
    yield from work(world, instance, primary, partial(replicas(world, instance).active, primary, alone=True))
    yield RECORD
    check_answers(world, primary)
    yield from work(world, instance, primary, partial(start, world, instance, primary))
    yield RECORD
    record(world, run, changes.InstanceState(instance, "up"))
    return None


def _compared(world: World, step: dict[str, Any]) -> Play:
    """Both replicas come up, get some seconds to connect, and the primary's must not be the older one."""
    instance, primary = step["instance"]["uuid"], step["primary"]["uuid"]
    found = replicas(world, instance)
    second = next((node["uuid"] for node in step["members"] if node["uuid"] != primary), "")
    if second and world.nodes[second].answers:
        yield from tried(world, instance, second, partial(found.up, second))
    yield from work(world, instance, primary, partial(found.up, primary))
    until = world.now + CONNECTING
    while second and world.now < until:
        device = found.device(primary)
        if device is None or device.is_together or found.device(second) is None:
            break
        yield PAUSE
    yield LOOK
    check_answers(world, primary)
    told = asked(world, instance, second) if second else replacements.Node("its secondary", None)
    is_up = any(replica.role for replica in told.replicas or ())
    is_nowhere = bool(step.get("unfinished"))
    peer = told if is_up or is_nowhere else replacements.Node(told.name, None)
    name, ours = step["instance"]["name"], asked(world, instance, primary)
    if objection := starts.objection(name, ours, peer, peer_may_have_run_it=is_nowhere):
        raise PlayFailed(objection)


def shutdown(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, primary = step["instance"]["uuid"], step["primary"]["uuid"]
    may_fail(world, "before the stop")
    yield STOP
    check_answers(world, primary)
    yield from work(world, instance, primary, partial(stop, world, instance, primary))
    yield RECORD
    record(world, run, changes.InstanceState(instance, "down"))
    check_answers(world, primary)
    yield from work(world, instance, primary, partial(replicas(world, instance).standby, primary))
    return None


def activate_disks(world: World, _run: Path, step: dict[str, Any]) -> Play:
    instance, primary = step["instance"]["uuid"], step["primary"]["uuid"]
    yield from _compared(world, {**step, "unfinished": False})
    yield from work(world, instance, primary, partial(replicas(world, instance).active, primary, alone=True))
    return None


def deactivate_disks(world: World, _run: Path, step: dict[str, Any]) -> Play:
    instance = step["instance"]["uuid"]
    for node in [member["uuid"] for member in step["members"]]:
        yield RECORD
        check_answers(world, node)
        yield from work(world, instance, node, partial(replicas(world, instance).standby, node))
    return None


def replace_disks(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, name = step["instance"]["uuid"], step["instance"]["name"]
    primary, old, new = (step[key]["uuid"] for key in ("primary", "old", "new"))
    found = replicas(world, instance)
    may_fail(world, "before the new replica")
    yield LOOK
    check_answers(world, primary, new)
    is_copied = old != new and found.peer(primary) == new and found.is_connected(primary)
    hears_old = step["old_reachable"] and world.nodes[old].answers
    if hears_old and not is_copied:
        yield from tried(world, instance, old, partial(found.standby, old))
    judged = asked(world, instance, old) if hears_old else None
    ours, recorded = asked(world, instance, primary), step["old_generations"]
    kept = replacements.kept(name, ours, judged, recorded) if old != new else ""
    if objection := replacements.objection(name, ours, judged, recorded, may_stay=old != new):
        raise PlayFailed(objection)
    yield RECORD
    if old != new:
        generations = tuple(replacements.judged(ours, judged, recorded))
        record(world, run, ReplicaLeft(instance, new, present=True, is_new=True, generations=generations))
    else:
        check_answers(world, old)
        yield from work(world, instance, old, partial(found.remove, old))
    yield from _copied(world, step, is_copied=is_copied)
    check_answers(world, primary, new)
    if objection := replacements.objection_to_new(name, asked(world, instance, primary), asked(world, instance, new)):
        raise PlayFailed(objection)
    moved = changes.InstanceNodes(instance, primary, (new,))
    if old == new:
        record(world, run, moved)
        return None
    record(world, run, moved, ReplicaLeft(instance, old, present=True))
    yield RECORD
    if not _is_in_sync(world, instance, primary):
        raise PlayFailed("the two are not in sync any more")
    if hears_old and not kept and world.nodes[old].answers:
        yield from work(world, instance, old, partial(found.remove, old))
        record(world, run, ReplicaLeft(instance, old, present=False))
    return None


def _copied(world: World, step: dict[str, Any], *, is_copied: bool) -> Play:
    """The new secondary is made and connected, and the resync ends; it may take long, or stall."""
    instance, primary, new = step["instance"]["uuid"], step["primary"]["uuid"], step["new"]["uuid"]
    found = replicas(world, instance)
    if not is_copied:
        yield from work(world, instance, new, partial(found.make, new))
        yield RECORD
        for node in [node["uuid"] for node in step["let_go"]]:
            if world.nodes[node].answers and found.has(node):
                yield from tried(world, instance, node, partial(found.disconnected, node))
        check_answers(world, primary, new)
        _refuse_worthless(world, instance, primary, new)
        yield from work(world, instance, primary, partial(_paired, found, primary, new))
        yield RECORD
        check_answers(world, new)
        yield from work(world, instance, new, partial(found.up, new))
    for _ in range(LOOKS):
        yield SYNCING
        check_answers(world, primary)
        if _is_in_sync(world, instance, primary):
            return
        if trouble := world.disks.answer(instance, primary)["disks"][0]["trouble"] if world.disks else "":
            raise PlayFailed(trouble)
    raise PlayFailed("the replicas are still not in sync")


def _paired(found: Replicas, primary: str, new: str) -> None:
    found.pair_with(primary, new)
    found.up(primary)


def _refuse_worthless(world: World, instance: str, primary: str, new: str) -> None:
    """The old peer is let go only by a replica that has all data (`drbd._refuse_worthless`)."""
    found = replicas(world, instance)
    device = found.device(primary)
    if found.peer(primary) != new and (device is None or device.disk != "UpToDate"):
        raise PlayFailed("its replica keeps its peer until it is up to date")


def _is_in_sync(world: World, instance: str, node: str) -> bool:
    assert world.disks is not None
    return bool(world.disks.answer(instance, node)["synced"])


def remove_replica(world: World, run: Path, step: dict[str, Any]) -> Play:
    """A replica that was left behind is removed, unless a rule keeps it."""
    instance, node, name = step["instance"]["uuid"], step["left_at"]["uuid"], step["instance"]["name"]
    yield LOOK
    check_answers(world, node)
    if node in world.guests[instance]:
        _keep(f"{name} runs there")
    for primary in [now["uuid"] for now in step["now_nodes"]]:
        check_answers(world, primary)
        if not _is_in_sync(world, instance, primary):
            _keep("its primary is not in sync")
        if replicas(world, instance).has(node):
            yield from work(world, instance, node, partial(replicas(world, instance).standby, node))
        yield LOOK
        check_answers(world, node, primary)
        objection = replacements.objection_to_removal(
            name, asked(world, instance, primary), asked(world, instance, node)
        )
        if objection:
            _keep(objection)
    yield from work(world, instance, node, partial(replicas(world, instance).remove, node))
    yield RECORD
    record(world, run, ReplicaLeft(instance, node, present=False))
    return None


def _keep(text: str) -> None:
    raise PlayFailed(text, {"kept": True})


PLAYS = {
    "migrate": migrate,
    "failover": failover,
    "find_instance": find_instance,
    "startup": startup,
    "shutdown": shutdown,
    "activate_disks": activate_disks,
    "deactivate_disks": deactivate_disks,
    "replace_disks": replace_disks,
    "remove_replica": remove_replica,
}
"""By the kind of opcode."""
