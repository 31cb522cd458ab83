"""What the plays of opcodes come to in the world: each acts, and records what became true, the moment it is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.world import OK
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, power, power_record, recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_records

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from tests.simulation.world import World

    Play = Generator[float, None, Any]

LOOK, MOVE, STOP, RECORD = 2.0, 30.0, 10.0, 0.5
"""Seconds that a part of a play takes at the most."""


class PlayFailed(Exception):
    """A task of the play has failed."""


def play(world: World, run: Path, kind: str, step: dict[str, Any]) -> Play:
    """The life of a play: it yields the most seconds until its next act, and returns its value."""
    made = PLAYS.get(kind)
    if made is None:
        yield MOVE
        return None
    return (yield from made(world, run, step))


def _record(world: World, run: Path, *stated: changes.Change) -> None:
    """Record, as a play does: what it was told to be durable is what must be on record in the end."""
    said = [key for change in stated if (key := _said(change)) is not None]
    for name, _ in said:
        world.recorded.pop(name, None)
    run_records.append(run, *(recording.encode(change) for change in stated))
    world.recorded.update(said)
    world.lines[run] = (run / run_records.CHANGES).read_bytes()
    if world.happens("power-loss-after-record"):
        world.cut_power(RECORD, "after a record")
    world.tell("recorded by", f"{run.parent.name}/{run.name}", *(type(change).__name__ for change in stated))


def _said(change: changes.Change) -> tuple[tuple[str, str], str] | None:
    if isinstance(change, changes.InstanceNodes):
        return (change.instance, "primary_node"), change.primary
    if isinstance(change, changes.InstanceState):
        return (change.instance, "admin_state"), change.admin_state
    return None


def _check_answers(world: World, *nodes: str) -> None:
    for uuid in nodes:
        if not world.nodes[uuid].answers:
            raise PlayFailed(f"{world.nodes[uuid].name} does not answer")


def _run(world: World, instance: str, node: str) -> None:
    """An instance is started on a node; where it runs elsewhere it runs twice."""
    world.guests[instance].add(node)
    if len(world.guests[instance]) > 1 and instance not in world.misplaced:
        found = sorted(world.names[uuid] for uuid in world.guests[instance])
        world.violated(f"{world.names[instance]} runs twice: on {' and '.join(found)}")


def _may_fail(world: World, where: str) -> None:
    if world.happens("play-fails"):
        raise PlayFailed(f"the world lets it fail {where}")


def _migrate(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, source, target = step["instance"]["uuid"], step["source"]["uuid"], step["target"]["uuid"]
    _may_fail(world, "before it moves")
    yield LOOK
    _check_answers(world, source, target)
    runs_on = world.guests[instance]
    is_there = step["unfinished"] and runs_on == {target}
    if runs_on != {source} and runs_on and not is_there:
        raise PlayFailed(f"it does not run on {step['source']['name']}")
    if runs_on and not is_there:
        _record(world, run, changes.InstanceMoving(instance, target))
        yield MOVE
        _check_answers(world, source, target)
        if source not in world.guests[instance]:
            raise PlayFailed("it does not run any more")
        # Within a moment: libvirt pauses it here and resumes it there.
        world.guests[instance] = {target}
    yield RECORD
    _record(world, run, changes.InstanceNodes(instance, target, tuple(step["secondaries"])))
    yield RECORD
    _may_fail(world, "after it has moved")
    return None


def _failover(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, source, target = step["instance"]["uuid"], world.nodes[step["source"]["uuid"]], step["target"]["uuid"]
    _may_fail(world, "before the stop")
    yield LOOK
    _check_answers(world, target)
    yield STOP
    if source.answers:
        world.guests[instance].discard(source.uuid)
    else:
        outcome = source.command(power.Command.FENCE)
        if not outcome.confirmed:
            raise PlayFailed(f"{source.name} does not answer, and nobody knows that it is off")
        _record(world, run, changes.NodePowered(source.uuid, powered=False, confirms=power_record.confirms(outcome)))
    yield RECORD
    _check_answers(world, target)
    _record(world, run, changes.InstanceNodes(instance, target, tuple(step["secondaries"])))
    yield STOP
    _check_answers(world, target)
    if step["instance"]["admin_state"] == "up":
        _run(world, instance, target)
    return None


def _find_instance(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance = step["instance"]["uuid"]
    yield LOOK
    asked = {node["uuid"] for node in step["nodes"]}
    found = sorted(node for node in world.guests[instance] & asked if world.nodes[node].answers)
    _may_fail(world, "while it looks")
    if len(found) == 1:
        others = tuple(node for node in step["known"] if node != found[0])
        _record(world, run, changes.InstanceNodes(instance, found[0], others))
    yield RECORD
    return None


def _startup(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, primary = step["instance"]["uuid"], step["primary"]["uuid"]
    _may_fail(world, "before the start")
    yield STOP
    _check_answers(world, primary)
    if step["unfinished"]:
        other = step["source"]["uuid"]
        _check_answers(world, other)
        if other in world.guests[instance]:
            _record(world, run, changes.InstanceNodes(instance, other, (primary,)))
            return None
    _run(world, instance, primary)
    if step["unfinished"]:
        _record(world, run, changes.InstanceMoving(instance, primary))
    yield RECORD
    _record(world, run, changes.InstanceState(instance, "up"))
    return None


def _shutdown(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance = step["instance"]["uuid"]
    _may_fail(world, "before the stop")
    yield STOP
    _check_answers(world, step["primary"]["uuid"])
    world.guests[instance].discard(step["primary"]["uuid"])
    yield RECORD
    _record(world, run, changes.InstanceState(instance, "down"))
    return None


def _replace_disks(world: World, run: Path, step: dict[str, Any]) -> Play:
    _may_fail(world, "before the new replica")
    yield MOVE
    _check_answers(world, step["primary"]["uuid"], step["new"]["uuid"])
    moved = changes.InstanceNodes(step["instance"]["uuid"], step["primary"]["uuid"], (step["new"]["uuid"],))
    _record(world, run, moved, *(recording.decode(change) for change in step["given_up"]))
    yield RECORD
    return None


def _power(world: World, run: Path, step: dict[str, Any]) -> Play:
    command, outcomes = power.Command(step["command"]), []
    for target in sorted(step["targets"], key=lambda target: str(target["name"])):
        node = world.nodes[target["uuid"]]
        yield LOOK
        is_refused = command.fences and node.answers
        outcome = _answering(node.name, command) if is_refused else node.command(command)
        outcomes.append(outcome)
        stated: list[changes.Change] = [changes.NodeLived(node.uuid)] if power_record.lived(outcome) else []
        if (powered := power_record.recorded(outcome)) is not None:
            confirms = power_record.confirms(outcome)
            stated.append(changes.NodePowered(node.uuid, powered=powered, confirms=confirms))
        yield RECORD
        if stated:
            _record(world, run, *stated)
    yield RECORD
    return [outcome.as_dict() for outcome in outcomes]


def _answering(name: str, command: power.Command) -> power.Outcome:
    unknown, reason = power.State.UNKNOWN, power.Reason.ANSWERS.value
    return power.Outcome(
        name,
        command,
        unknown,
        unknown,
        sent=False,
        confirmed=False,
        attempts=0,
        seconds=1.0,
        reason=reason,
        text="it answers",
    )


def _find_power(world: World, run: Path, step: dict[str, Any]) -> Play:
    for target in step["targets"]:
        yield LOOK
        outcome = world.nodes[target["uuid"]].command(power.Command.STATUS)
        if (powered := power_record.read(outcome)) is not None:
            _record(world, run, changes.NodePowered(target["uuid"], powered=powered, confirms=False))
    return None


def _repair_command(world: World, _run: Path, step: dict[str, Any]) -> Play:
    node = world.nodes[step["node"]["uuid"]]
    yield MOVE
    _check_answers(world, node.uuid)
    _may_fail(world, "its command fails")
    node.say(OK)
    return None


PLAYS: dict[str, Callable[[World, Path, dict[str, Any]], Play]] = {
    "migrate": _migrate,
    "failover": _failover,
    "find_instance": _find_instance,
    "startup": _startup,
    "shutdown": _shutdown,
    "replace_disks": _replace_disks,
    "power": _power,
    "find_power": _find_power,
    "repair_command": _repair_command,
}
"""By the kind of opcode; what a play that is not here does changes nothing that the simulation knows."""
