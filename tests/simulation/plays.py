"""What the plays of opcodes come to in the world: each acts, and records what became true, the moment it is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, recording
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
    run_records.append(run, *(recording.encode(change) for change in stated))
    world.tell("recorded by", f"{run.parent.name}/{run.name}", *(type(change).__name__ for change in stated))


def _may_fail(world: World, where: str) -> None:
    if world.happens("play-fails"):
        raise PlayFailed(f"the world lets it fail {where}")


def _migrate(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, source, target = step["instance"]["uuid"], step["source"]["uuid"], step["target"]["uuid"]
    _may_fail(world, "before it moves")
    yield LOOK
    runs_on = world.guests[instance]
    if runs_on != {source} and runs_on:
        raise PlayFailed(f"it does not run on {step['source']['name']}")
    if runs_on:
        yield MOVE
        # Within a moment: libvirt pauses it here and resumes it there.
        world.guests[instance] = {target}
    yield RECORD
    _record(world, run, changes.InstanceNodes(instance, target, tuple(step["secondaries"])))
    yield RECORD
    _may_fail(world, "after it has moved")
    return None


def _failover(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance, target = step["instance"]["uuid"], step["target"]["uuid"]
    _may_fail(world, "before the stop")
    was_up = bool(world.guests[instance])
    yield STOP
    world.guests[instance] = set()
    yield RECORD
    _record(world, run, changes.InstanceNodes(instance, target, tuple(step["secondaries"])))
    yield STOP
    if was_up and step["instance"]["admin_state"] == "up":
        world.guests[instance] = {target}
    return None


def _find_instance(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance = step["instance"]["uuid"]
    yield LOOK
    found = sorted(world.guests[instance] & {node["uuid"] for node in step["nodes"]})
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
    world.guests[instance].add(primary)
    if len(world.guests[instance]) > 1:
        world.violated(f"{world.names[instance]} runs twice")
    yield RECORD
    _record(world, run, changes.InstanceState(instance, "up"))
    return None


def _shutdown(world: World, run: Path, step: dict[str, Any]) -> Play:
    instance = step["instance"]["uuid"]
    _may_fail(world, "before the stop")
    yield STOP
    world.guests[instance].discard(step["primary"]["uuid"])
    yield RECORD
    _record(world, run, changes.InstanceState(instance, "down"))
    return None


def _replace_disks(world: World, run: Path, step: dict[str, Any]) -> Play:
    _may_fail(world, "before the new replica")
    yield MOVE
    moved = changes.InstanceNodes(step["instance"]["uuid"], step["primary"]["uuid"], (step["new"]["uuid"],))
    _record(world, run, moved, *(recording.decode(change) for change in step["given_up"]))
    yield RECORD
    return None


PLAYS: dict[str, Callable[[World, Path, dict[str, Any]], Play]] = {
    "migrate": _migrate,
    "failover": _failover,
    "find_instance": _find_instance,
    "startup": _startup,
    "shutdown": _shutdown,
    "replace_disks": _replace_disks,
}
"""By the kind of opcode; what a play that is not here does changes nothing that the simulation knows."""
