"""Two controllers in one world: what modules do on a node that both reach, and how a takeover ends."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept, Order
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.simulation import case, frequent, modules, patches, trial
from tests.simulation.modules import Module
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.simulation.nodes import Node

MASTER = "67b74994-68cf-4c16-a33a-e1041e8292d7"
OLD, NEW = Order(Epoch(1, "old"), MASTER, 1), Kept(Epoch(2, "new"), MASTER, 1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(case.Case(1, (), {}), tmp_path / "root")
    with patches.installed(made):
        trial._build(made)
        yield made


def _module(world: World, node: Node, done: list[str], name: str) -> Module:
    return Module(world, node, next(iter(world.guests)), OLD, lambda: done.append(name))


def test_a_module_that_waited_for_the_lock_is_refused_where_its_node_follows_another_epoch_then(world: World) -> None:
    node, done = next(iter(world.nodes.values())), list[str]()
    first = _module(world, node, done, "first")
    while not first.has_lock:
        world.leap(None)
    second = _module(world, node, done, "second")
    world.sleep(modules.ON_WAY)
    assert not second.is_over
    with node.followed.at_work():
        leader_record.keep(node.followed.root, NEW)
    world.sleep(2 * modules.WORKS)

    assert done == ["first"], "it had the lock before"
    assert isinstance(second.failure, errors.NotFollowed)
    assert world.violations == []


def test_a_module_that_comes_late_to_a_node_that_has_booted_since_is_refused(world: World) -> None:
    node, done = next(iter(world.nodes.values())), list[str]()
    named = dataclasses.replace(OLD, boot=node.followed.boot_id)
    late = Module(world, node, next(iter(world.guests)), named, lambda: done.append("late"))
    node.power_off()
    node.power_on()
    world.sleep(modules.ON_WAY + modules.WORKS)

    assert done == []
    assert isinstance(late.failure, errors.NotFollowed)
    assert world.violations == []
    node.followed.look_at_order(named)
    assert world.violations == [f"{node.name} does what was ordered for its boot before"]


def test_modules_end_with_the_power_of_their_node(world: World) -> None:
    node, done = next(iter(world.nodes.values())), list[str]()
    first, second = _module(world, node, done, "first"), _module(world, node, done, "second")
    while not any(module.has_lock for module in (first, second)):
        world.leap(None)
    world.sleep(modules.ON_WAY)

    node.power_off()

    assert first.is_over
    assert second.is_over
    assert node.modules == []


def test_what_a_node_has_said_that_it_follows_it_follows_after_a_loss_of_power(world: World) -> None:
    node = next(iter(world.nodes.values()))
    node.followed.require(OLD)
    node.power_off()
    node.power_on()
    assert world.violations == []

    (node.followed.root / leader_record.FILE).unlink()
    node.power_off()
    node.power_on()
    assert world.violations == [f"{node.name} has forgotten that it follows epoch 1"]


def test_of_two_controllers_one_is_left() -> None:
    made = frequent.FREQUENT["compared_before_lock"].of_seed(2)
    outcome = trial.play(made)
    assert outcome.violations == ()
    assert any("controller stays" in line for line in outcome.lines)
