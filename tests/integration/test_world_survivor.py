"""The last replica that is left: nothing starts it by itself, and a person can, knowing what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.drbd import Disk

from . import labs, states
from .test_dead_nodes import runs
from .test_world_evidence import PAIR, disk

if TYPE_CHECKING:
    from collections.abc import Callable


def outdated(one: labs.Running) -> None:
    """The primary node2 loses its secondary node3, which is outdated."""
    labs.report_all(one)
    one.lab.node("node2").cut_link("node3", is_cut=True)
    labs.report_all(one)
    one.until(lambda _: disk(one, "node3") is Disk.OUTDATED, "the secondary is outdated")
    one.until(states.at_rest, "its job ends")


@pytest.mark.slow
def test_an_outdated_replica_whose_primary_is_lost_for_good_is_started_when_a_person_says_so(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    outdated(one)

    # The primary still answers: nothing is stopped, and the text says what to do if it is lost.
    failover = ("instance", "failover", "instance1")
    refused = states.command(one, *failover, "--ignore-consistency", "--yes")
    assert refused.returncode != 0
    assert "If node2 is lost for good, power it off with `roundsman node power off node2 --force`" in refused.stderr
    assert runs(one, "node2") == ["instance1"]

    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    refused = states.command(one, *failover)
    assert (refused.returncode != 0, runs(one, "node3")) == (True, [])

    done = states.command(one, *failover, "--ignore-consistency", "--yes")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "possible loss: writes of the last " in done.stderr, "it is printed before anything is done"
    assert "(consistency was ignored)" in done.stdout
    assert (runs(one, "node3"), disk(one, "node3")) == (["instance1"], Disk.UP_TO_DATE)
    audit = one.where.audit_log.read_text()
    assert "instance1 fails over to node3 with ignore_consistency: " in audit
    assert "possible loss: writes of the last " in audit
    assert "the replica of instance1 on node3 (Secondary, Connecting, Outdated/DUnknown) is promoted by force" in audit
    assert one.wrong() == []


@pytest.mark.slow
def test_no_round_starts_an_outdated_replica(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIR)
    outdated(one)
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")

    planned = states.command(one, "evacuate", "node2", "--failover", "--yes")

    assert planned.returncode != 0
    assert (runs(one, "node3"), disk(one, "node3")) == ([], Disk.OUTDATED)
