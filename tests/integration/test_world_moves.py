"""Moves whose instance or node is not what the plan knew: nothing is recorded on a node's word alone."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake

from . import labs, states
from .test_world_evidence import PAIR

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIES = """#!{python} -I
import subprocess, sys
said = sys.stdin.buffer.read()
if b"instance_migrate" in said:
    sys.stdout.write({answer!r})
else:
    sys.exit(subprocess.run([{python!r}, *sys.argv[1:]], input=said).returncode)
"""
MIGRATED = json.dumps({"changed": True, "migrated": True, "progress": {}})


def running_on(one: labs.Running, name: str) -> list[str]:
    """The nodes on which an instance runs in truth."""
    return [node.name for node in one.lab.nodes() if name in fake.Driver(node.root, opcode="test").running()]


@pytest.mark.slow
def test_a_source_that_only_claims_to_have_migrated_is_not_believed(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=3, instances=3)
    python = tmp_path / "python"
    python.write_text(LIES.format(python=sys.executable, answer=MIGRATED))
    python.chmod(0o755)
    one.run_modules_with(python, node="node2")

    job = one.put("/2/instances/instance2/migrate", {}).json()
    ended = states.job_ended(one, job)

    assert running_on(one, "instance2") == ["node2"]
    assert one.cluster().node_name(one.cluster().instance("instance2").primary_node) == "node2"
    assert ended["status"] == "error"
    assert "node2 reports that instance2 was migrated, but node3 does not run it" in json.dumps(ended)


@pytest.mark.slow
def test_a_migration_whose_target_lacks_writes_is_aborted_and_its_guest_goes_on_where_its_writes_are(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR, migration_seconds=30)
    job = one.put("/2/instances/instance1/migrate", {}).json()
    source = one.lab.node("node2")
    one.until(lambda _: "instance1" in fake.Driver(source.root, opcode="test").migrations(), "memory is copied")
    source.cut_link("node3", is_cut=True)

    ended = states.job_ended(one, job)

    assert ended["status"] == "error"
    assert "the target would lack its last writes" in json.dumps(ended)
    assert running_on(one, "instance1") == ["node2"]
    source.cut_link("node3", is_cut=False)
    repaired = states.command(one, "instance", "repair-disks", "instance1", "--discard", "node3", "--yes")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    one.until(states.at_rest, "its jobs end")
    assert one.cluster().instance("instance1").moving == ""
    assert one.wrong() == []


@pytest.mark.slow
def test_an_instance_that_is_removed_while_its_move_is_planned_does_not_fail_the_incident(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, instances=8, migration_seconds=1.5, settings={"moves_per_node": 1, "power_off_evacuated": False})
    node2 = one.cluster().node("node2").uuid
    labs.drop(one, "r.json", labs.report(one, "node2", '{"status": "evacuate"}'))
    one.until(lambda _: states.running(one, "migrate"), "the first migration runs")
    working = json.dumps(states.running(one, "migrate"))
    waiting = [each for each in one.cluster().primaries(node2) if each.uuid not in working]
    assert waiting, "an instance waits for its move"

    removed = one.delete(f"/2/instances/{waiting[-1].name}")

    assert removed.is_success, removed.text
    assert one.until(one.ended("node2"), "the incident ends")["repair-status"] == "completed"
    assert waiting[-1].uuid not in one.cluster().instances
    assert one.cluster().node("node2").offline
    assert one.wrong() == []
