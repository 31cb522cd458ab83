"""What the plays of opcodes come to in the world: each acts, and records what became true, the moment it is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.world import OK
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power, power_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.simulation import moves, repairs
from tests.simulation.acts import (
    LOOK,
    MOVE,
    RECORD,
    PlayFailed,
    check_answers,
    may_break_off,
    may_fail,
    ordered,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.simulation.acts import Play
    from tests.simulation.world import World


def play(world: World, run: Path, kind: str, step: dict[str, Any]) -> Play:
    """The life of a play: it yields the most seconds until its next act, and returns its value."""
    made = PLAYS.get(kind)
    if made is None:
        yield MOVE
        return None
    return (yield from made(world, run, step))


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
            stated.append(changes.NodePowered(node.uuid, powered=powered, confirms=confirms, commanded=outcome.sent))
        yield RECORD
        if stated:
            record(world, run, *stated)
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
        may_break_off(world)
        outcome = world.nodes[target["uuid"]].command(power.Command.STATUS)
        stated: list[changes.Change] = [changes.NodeLived(target["uuid"])] if power_record.lived(outcome) else []
        if (powered := power_record.read(outcome)) is not None:
            stated.append(changes.NodePowered(target["uuid"], powered=powered, confirms=False, commanded=False))
        if stated:
            record(world, run, *stated)
    return None


def _repair_command(world: World, _run: Path, step: dict[str, Any]) -> Play:
    node = world.nodes[step["node"]["uuid"]]
    yield MOVE
    check_answers(world, node.uuid)
    may_fail(world, "its command fails")
    try:
        node.followed.require(ordered(world, node.uuid))
    except errors.RoundsmanError as error:
        raise PlayFailed(str(error)) from error
    node.say(OK)
    return None


PLAYS: dict[str, Callable[[World, Path, dict[str, Any]], Play]] = {
    **moves.PLAYS,
    **repairs.PLAYS,
    "power": _power,
    "find_power": _find_power,
    "repair_command": _repair_command,
}
"""By the kind of opcode; what a play that is not here does changes nothing that the simulation knows."""
