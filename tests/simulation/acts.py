"""What plays have in common: how they fail, what they record, and which nodes answer them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_replica import Rejected
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.left_replicas import ReplicaLeft

from tests.simulation.modules import Module

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs

    from tests.simulation.disks import Replicas
    from tests.simulation.world import World

    Play = Generator[float, None, Any]

POLL = 1.0
LOOK, MOVE, STOP, RECORD = 2.0, 30.0, 10.0, 0.5
"""Seconds that a part of a play takes at the most."""


class PlayFailed(Exception):
    """A task of the play has failed; `value` is what the play leaves all the same."""

    def __init__(self, text: str, value: Any = None) -> None:
        super().__init__(text)
        self.value = value


def record(world: World, run: Path, *stated: changes.Change) -> None:
    """Record, as a play does: what it was told to be durable is what must be on record in the end."""
    for change in stated:
        if isinstance(change, (changes.InstanceNodes, changes.InstanceState, ReplicaLeft)):
            _moved(world, change.instance)
    said = [key for change in stated if (key := _said(change)) is not None]
    for name, _ in said:
        world.recorded.pop(name, None)
    run_records.append(run, *(recording.encode(change) for change in stated))
    world.recorded.update(said)
    world.lines[run] = (run / run_records.CHANGES).read_bytes()
    world.said.setdefault(run, {}).update(said)
    if world.happens("power-loss-after-record"):
        world.cut_power(RECORD, "after a record")
    if world.happens("kill-after-record"):
        world.kill_soon(RECORD, "after a record")
    world.tell("recorded by", f"{run.parent.name}/{run.name}", *(type(change).__name__ for change in stated))


def _moved(world: World, instance: str) -> None:
    """What a controller does that does not lead any more is not on record where the other one leads."""
    if world.here is not world.leader:
        world.has_strayed(instance)


def _said(change: changes.Change) -> tuple[tuple[str, str], str] | None:
    if isinstance(change, changes.InstanceNodes):
        return (change.instance, "primary_node"), change.primary
    if isinstance(change, changes.InstanceState):
        return (change.instance, "admin_state"), change.admin_state
    return None


def work(world: World, instance: str, node: str, act: Callable[[], object]) -> Play:
    """A module does this on a node, under the lock of the instance (UUIDs), if the node follows whom it is ordered by.

    Raises:
        PlayFailed: it does not. Rejected: DRBD refuses it.
    """
    try:
        order = ordered(world, node)
        if world.modules_take_time:
            yield from _waited(world, Module(world, world.nodes[node], instance, order, act))
        else:
            with world.nodes[node].followed.held(world.names[instance], order):
                act()
    except errors.RoundsmanError as error:
        raise PlayFailed(str(error)) from error


def _waited(world: World, module: Module) -> Play:
    """Wait for a module; one whose node does not answer any more goes on by itself."""
    while not module.is_over:
        yield POLL
        check_answers(world, module.node.uuid)
    if module.failure is not None:
        raise module.failure


def ordered(world: World, node: str) -> epochs.Order | None:
    """The order that each module on a node (UUID) names, as `module_answers` reads it."""
    return controller_epoch.load(tree.Tree(world.root), node)


def tried(world: World, instance: str, node: str, act: Callable[[], object]) -> Play:
    """The same for what may fail."""
    try:
        yield from work(world, instance, node, act)
    except (PlayFailed, Rejected) as error:
        world.tell("not done:", error)


def check_answers(world: World, *nodes: str) -> None:
    """Fail where one of these nodes (UUIDs) does not answer."""
    for uuid in nodes:
        if not world.nodes[uuid].answers:
            raise PlayFailed(f"{world.nodes[uuid].name} does not answer")


def check_runs(world: World, instance: str, node: str) -> None:
    """Fail where the instance does not run on the node any more."""
    if node not in world.guests[instance]:
        raise PlayFailed("it does not run any more")


def check_linked(world: World, instance: str, source: str) -> None:
    """Abort a migration whose target lacks writes, as `kvm_migration.Watch` does."""
    if not replicas(world, instance).is_connected(source):
        raise PlayFailed("the target would lack its last writes")


def may_fail(world: World, where: str) -> None:
    if world.happens("play-fails"):
        raise PlayFailed(f"the world lets it fail {where}")


def may_break_off(world: World) -> None:
    """A look at what is true may not reach its nodes."""
    if world.happens("look-fails"):
        raise PlayFailed("the look breaks off")


def replicas(world: World, instance: str) -> Replicas:
    """Those of an instance (UUID)."""
    assert world.disks is not None
    return world.disks.of[instance]


def start(world: World, instance: str, node: str) -> None:
    """An instance is started on a node that may write its disks; where it runs elsewhere it runs twice."""
    if node in world.guests[instance]:
        return
    replicas(world, instance).begin(node)
    _moved(world, instance)
    world.guests[instance].add(node)
    if len(world.guests[instance]) > 1 and instance not in world.misplaced - world.strays:
        found = sorted(world.names[uuid] for uuid in world.guests[instance])
        world.violated(f"{world.names[instance]} runs twice: on {' and '.join(found)}")


def stop(world: World, instance: str, node: str) -> None:
    _moved(world, instance)
    world.guests[instance].discard(node)
    replicas(world, instance).finish(node)


def hand_over(world: World, instance: str, source: str, target: str) -> None:
    """A live migration ends, within a moment: libvirt pauses it here and resumes it there."""
    replicas(world, instance).finish(source)
    replicas(world, instance).begin(target, moves=True)
    _moved(world, instance)
    world.guests[instance] = {target}
