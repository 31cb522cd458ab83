"""The simulated DRBD answers as the real one did on two guests, in every recorded sequence of steps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_store
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_programs import SimulatedPrograms
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_replica import Device
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import Action
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_node, drbd_repairing, templates
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import State

from tests.drbd_sequences import playing, sequences, simulated
from tests.unit.plugins.module_utils.storage.copies import NAME, ONE, THREE, TWO, storage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.plugins.module_utils.storage.machine import Machine

RECORDED = playing.recorded()


def test_there_are_at_least_25_sequences() -> None:
    assert len(sequences.SEQUENCES) >= 25


def test_every_sequence_is_recorded() -> None:
    assert list(RECORDED) == list(sequences.SEQUENCES)


@pytest.mark.parametrize("name", sequences.SEQUENCES)
def test_a_recorded_sequence_is_seen_on_simulated_disks_too(name: str, tmp_path: Path) -> None:
    seen = playing.Story(simulated.Simulated(tmp_path)).play(sequences.SEQUENCES[name])
    assert [_plain(step) for step in seen] == RECORDED[name]


def test_a_split_brain_is_repaired_on_simulated_disks_and_a_snapshot_keeps_what_is_discarded(tmp_path: Path) -> None:
    pair = simulated.Simulated(tmp_path)
    playing.Story(pair).play(sequences.SPLIT)
    for node, action in (("node2", Action.DISCARD), ("node1", Action.CONNECT)):
        runner = SimulatedPrograms(tmp_path / node, clock=lambda: pair.now)
        drbd = drbd_node.DrbdNode(runner, proc=tmp_path / node / drbd_node.PROC)
        templates.done(drbd_repairing.Repairs(runner, drbd).steps(action, playing.RESOURCE))
    seen = pair.settled()
    assert [seen[node].writes for node in playing.NODES] == [(1,), (1,)]
    with simulated_store.opened(tmp_path, now=pair.now) as store:
        kept = store.volumes("node2")[f"{simulated.DATA}.discarded1"]
    assert kept.content.runs == (("2", 2),)


def _plain(step: dict[str, Any]) -> dict[str, Any]:
    writes = {node: None if found is None else list(found) for node, found in step["writes"].items()}
    return {**step, "writes": writes}


@pytest.mark.parametrize(
    ("connection", "peer_disk", "is_alone"),
    [("Connected", "UpToDate", False), ("Connected", "Diskless", True), ("Connecting", "DUnknown", True)],
)
def test_a_primary_writes_alone_without_its_peer_or_without_the_disk_of_its_peer(
    connection: str, peer_disk: str, is_alone: bool
) -> None:
    device = Device(0, "node2", connection=connection, role="Primary", disk="UpToDate", peer_disk=peer_disk)
    assert device.is_alone is is_alone
    assert not dataclasses.replace(device, role="Secondary").is_alone


def test_who_connects_with_the_secret_is_taken_for_the_peer_whatever_its_address(machine: Machine) -> None:
    for node, peer in ((machine, TWO), (machine.peer(), ONE)):
        templates.done(storage(node, peer=peer, secret="one").steps(State.PRESENT))
    machine.drbdadm("new-current-uuid", f"{NAME}/0", "--clear-bitmap")

    templates.done(storage(machine, peer=THREE, secret="one").steps(State.PRESENT))

    for node in (machine, machine.peer()):
        (disk,) = storage(node).local_disks()
        assert (disk.text, disk.is_synced) == ("Secondary, Connected, UpToDate/UpToDate", True)
    assert machine.resources[NAME].peer == "n3"
    machine.set_link(is_cut=True)
    machine.set_link(is_cut=False)
    assert machine.resources[NAME].connection == "Connected"
