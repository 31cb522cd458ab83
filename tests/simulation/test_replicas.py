"""The replicas of the simulation without its daemon: what is written, who notices it, and what a failover may lose."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_replica as model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import instance_moves

from tests.chaos.mutants import known
from tests.simulation import acts, case, mutants, patches, replica_care, sides, trial
from tests.simulation.failovers import Failover
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from tests.simulation.disks import Replicas

BROKEN = ("loss_unlimited", "sight_undated", "off_now")
"""Mutants of chaos that an isolated primary shows, which writes alone before it is powered off."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(case.Case(1, (), {}), tmp_path / "root")
    with patches.installed(made):
        trial._build(made)
        yield made


def _first(world: World) -> tuple[Replicas, str, str]:
    """The replicas of an instance whose primary is not the master, its primary and its secondary."""
    assert world.known is not None
    assert world.disks is not None
    instance = next(
        instance for instance in world.known.instances.values() if world.known.cluster.master_node not in instance.nodes
    )
    return world.disks.of[instance.uuid], instance.primary_node, instance.secondary_nodes[0]


def _played(world: World, play: Generator[float, None, Any]) -> Any:
    while True:
        try:
            world.sleep(next(play))
        except StopIteration as end:
            return end.value


def _failed_over(world: World, found: Replicas, source: str, target: str) -> Any:
    assert world.known is not None
    opcode = instance_moves.Failover(instance=found.uuid, source=source, target=target)
    run = world.root / "var/lib/roundsman/queue/1/0"
    run.mkdir(parents=True)
    return _played(world, Failover(world, run, opcode.variables(world.known)).play())


def test_an_instance_writes_on_both_of_its_replicas(world: World) -> None:
    found, primary, secondary = _first(world)
    world.sleep(100.0)
    assert found.side(secondary).content.counter == found.side(primary).content.counter == 100


def test_a_secondary_may_notice_late_that_it_has_lost_its_primary(world: World) -> None:
    found, primary, secondary = _first(world)
    world.sleep(50.0)
    found.set_link(is_linked=False, late=15.0)
    world.sleep(12.0)
    assert sides.has_all_data(found.device(secondary) or model.Device(0, ""))
    world.sleep(12.0)
    device = found.device(secondary)
    assert device is not None
    assert not device.is_together
    assert world.now - found.sights(secondary)[primary] == 9
    assert found.acknowledged.missing_in(found.side(secondary).content) == 24


def test_a_write_that_no_replica_has_any_more_is_a_violation(world: World) -> None:
    found, primary, secondary = _first(world)
    found.set_link(is_linked=False, late=0.0)
    world.sleep(10.0)
    acts.stop(world, found.uuid, primary)
    found.standby(primary)
    found.remove(primary)
    assert any("are on no replica any more" in text for text in world.violations)
    assert found.has(secondary)


def test_a_failover_of_a_node_without_power_states_what_it_may_lose(world: World) -> None:
    found, primary, secondary = _first(world)
    world.sleep(60.0)
    world.nodes[primary].power_off()
    value = _failed_over(world, found, primary, secondary)
    assert value["possible_loss"]["seconds"] <= 60
    assert world.guests[found.uuid] == {secondary}
    assert not world.violations


def _isolated(world: World) -> tuple[Replicas, str, str]:
    """A primary that writes alone for longer than is allowed, and then has no power."""
    found, primary, secondary = _first(world)
    world.sleep(60.0)
    world.nodes[primary].is_isolated = True
    replica_care.cut_links(world, primary)
    world.sleep(400.0)
    world.nodes[primary].power_off()
    return found, primary, secondary


def test_a_primary_that_wrote_alone_is_not_failed_over_unasked(world: World) -> None:
    found, primary, secondary = _isolated(world)
    with pytest.raises(acts.PlayFailed, match="may lack the writes") as refused:
        _failed_over(world, found, primary, secondary)
    assert "waits" in refused.value.value
    assert not world.violations


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_for_failovers_is_found(world: World, name: str) -> None:
    mutant = next(mutant for mutant in known.MUTANTS if mutant.name == name)
    found, primary, secondary = _isolated(world)
    with mutants.put_back(mutant), contextlib.suppress(acts.PlayFailed):
        _failed_over(world, found, primary, secondary)
    assert world.violations


def test_replicas_are_in_sync_again_once_their_link_is(world: World) -> None:
    found, primary, _ = _first(world)
    replica_care.cut_links(world, primary)
    world.sleep(30.0)
    replica_care.heal_links(world)
    world.sleep(60.0)
    device = found.device(primary)
    assert device is not None
    assert sides.is_in_sync(device)
