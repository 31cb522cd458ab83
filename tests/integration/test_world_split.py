"""Both replicas of an instance were written since they disconnected: nothing starts until a person chooses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_programs, simulated_world

from . import labs, states
from .test_dead_nodes import runs
from .test_world_evidence import PAIR
from .test_world_left_behind import is_ahead

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "instance1"
RESOURCE = f"{NAME}-disk0"


def split(one: labs.Running) -> None:
    """Both node2 and node3 have run instance1 alone; it is down, and node3 is its primary on record."""
    one.lab.node("node2").cut_link("node3", is_cut=True)
    one.until(lambda _: is_ahead(one, "node2", "node3"), "node2 writes alone")
    done = states.command(one, "instance", "failover", NAME, "--ignore-consistency", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert runs(one, "node3") == [NAME]
    assert states.command(one, "instance", "stop", NAME, "--yes").returncode == 0
    one.lab.node("node2").cut_link("node3", is_cut=False)


@pytest.mark.slow
@pytest.mark.parametrize(("discard", "kept"), [("node2", "node3"), ("node3", "node2")])
def test_after_a_split_brain_nothing_starts_until_a_person_names_the_side_that_is_lost(
    discard: str, kept: str, lab: Callable[..., labs.Running]
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    split(one)
    # As a failover leaves it that was killed after its promotion: nothing writes there.
    simulated_programs.SimulatedPrograms(one.lab.node("node3").root).run("drbdadm", "primary", RESOURCE)
    before = simulated_world.replicas(one.lab.folder / "nodes", NAME)
    assert before["node2"] != before["node3"]

    refused = states.command(one, "instance", "start", NAME)

    assert refused.returncode != 0
    reason = f"both replicas of {NAME} were written since they disconnected"
    assert reason in refused.stderr, refused.stdout + refused.stderr
    assert refused.stderr.count(" KiB differ)") == 2, "each side says how much it wrote"
    for node in ("node2", "node3"):
        assert f"`roundsman instance start {NAME} --discard {node}`" in refused.stderr
    assert (runs(one, "node2"), runs(one, "node3")) == ([], [])
    failover = states.command(one, "instance", "failover", NAME)
    assert failover.returncode != 0
    assert f"`roundsman instance repair-disks {NAME}`" in failover.stderr
    assert "--discard NODE" in failover.stderr

    started = states.command(one, "instance", "start", NAME, "--discard", discard, "--yes")

    assert started.returncode == 0, started.stdout + started.stderr
    assert runs(one, "node3") == [NAME], "its primary on record"
    after = simulated_world.replicas(one.lab.folder / "nodes", NAME)
    assert after["node2"] == after["node3"] >= before[kept]
    audit = one.where.audit_log.read_text()
    assert f"discard what {discard} wrote by " in audit
    assert f", discarding what {discard} wrote" in audit
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []


@pytest.mark.slow
def test_a_person_starts_an_outdated_primary_whose_other_node_is_gone(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIR)
    assert states.command(one, "instance", "stop", NAME, "--yes").returncode == 0
    one.lab.node("node3").lose_power()
    simulated_programs.SimulatedPrograms(one.lab.node("node2").root).run("drbdadm", "outdate", RESOURCE)
    assert states.command(one, "node", "offline", "node3", "--force").returncode == 0

    refused = states.command(one, "instance", "start", NAME)
    assert f"`roundsman instance start {NAME} --discard node3`" in refused.stderr, refused.stdout + refused.stderr
    assert runs(one, "node2") == []

    started = states.command(one, "instance", "start", NAME, "--discard", "node3", "--yes")
    assert started.returncode == 0, started.stdout + started.stderr
    assert runs(one, "node2") == [NAME]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_guest_that_runs_at_the_discarded_side_keeps_the_other_from_being_started(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    root = one.lab.node("node2").root
    facts = json.loads((root / "var/lib/roundsman/fake/running" / f"{NAME}.json").read_text())
    split(one)
    simulated_programs.SimulatedPrograms(root).run("drbdadm", "primary", RESOURCE)
    assert fake.Driver(root, opcode="by hand").start(NAME, facts)
    assert runs(one, "node2") == [NAME]
    done = states.command(one, "instance", "start", NAME, "--discard", "node2", "--yes")

    assert runs(one, "node3") == [], "it runs twice"
    assert done.returncode != 0
