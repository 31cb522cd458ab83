from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import plan_documents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format

from tests import generated_clusters
from tests.unit.plugins.plugin_utils.rounds import tables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli import stand_in
    from tests.unit.daemon.cli.conftest import Run

TABLE = """
node1 16384 100000 master
node2 16384 100000
node3 16384 100000 group=b
node4 16384 100000 group=b
node5 16384 100000 group=c
node6 16384 100000 group=c
instance1 drbd 1024 10240 node2 node1
instance2 rbd 2048 10240 node1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "cluster.data"
    found.write_text(text_format.write(generated_clusters.make(nodes=12, instances=40, seed=1, groups=3, plain=0.1)))
    return found


@pytest.fixture
def running(daemon: stand_in.StandIn, tmp_path: Path) -> stand_in.StandIn:
    where = tree.Tree(tmp_path / "root").config
    where.parent.mkdir(parents=True)
    store.write(where, tables.read(TABLE))
    return daemon


def test_a_group_of_a_text_is_drained_into_the_groups_that_are_named(roundsman: Run, file: Path) -> None:
    found = text_format.read(file.read_text())
    homes = {one.name: one.group for one in found.nodes}
    status, out, _ = roundsman(
        "group", "drain", "group-1", "--to", "group-2,group-3", "--text", str(file), "-o", "json"
    )
    told = json.loads(out)
    alone = {one.name for one in found.instances if homes[one.primary] == "uuid-1" and not one.template.is_mirrored}
    assert (status, {one["instance"] for one in told["kept"]}) == (1, alone)
    assert all("keeps its only replica on" in one["text"] for one in told["kept"])
    assert {homes[one["primary"]] for one in told["moves"]} == {"uuid-2", "uuid-3"}
    only = roundsman("group", "drain", "group-1", "--to", "group-2", "--text", str(file), "-o", "json")[1]
    assert {homes[one["primary"]] for one in json.loads(only)["moves"]} == {"uuid-2"}


@pytest.mark.parametrize("command", [["group", "drain", "default"], ["instance", "change-group", "instance1"]])
def test_a_change_of_group_is_run_by_the_daemon_and_only_shown_when_it_is_planned(
    roundsman: Run, running: stand_in.StandIn, command: list[str]
) -> None:
    running.put("POST", "/2/plans", 7)
    planned = json.loads(roundsman(*command, "--to", "b", "--plan", "-o", "json")[1])
    assert running.asked("POST") == []
    status, out, _ = roundsman(*command, "--to", "b", "--submit")
    assert (status, out.splitlines()[-1]) == (0, "7")
    ((_, body),) = running.asked("POST")
    assert json.loads(plan_documents.text(plan_documents.read(body["document"].encode()))) == planned
    assert planned["command"] == f"roundsman {' '.join(command)} --to b"
    assert {one["primary"] for one in planned["moves"]} <= {"node3", "node4"}


def test_an_instance_goes_to_the_nodes_that_are_given(roundsman: Run, running: stand_in.StandIn) -> None:
    words = ("instance", "change-group", "instance1", "--primary", "node6", "--secondary", "node5", "--failover")
    status, out, _ = roundsman(*words, "--plan", "-o", "json")
    told = json.loads(out)
    assert (status, told["failover"], told["command"]) == (
        0,
        True,
        "roundsman instance change-group instance1 --failover --primary node6 --secondary node5",
    )
    assert [(one["primary"], one["secondary"]) for one in told["moves"]] == [("node6", "node5")]
    status, _, err = roundsman(*words[:-2], "node4", "--plan")
    assert (status, "primary and secondary are in one group" in err) == (1, True)
    assert running.asked("POST") == []
