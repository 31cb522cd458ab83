from __future__ import annotations

import dataclasses
import json
import sys
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format

from tests import generated_clusters
from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "cluster.data"
    found.write_text(text_format.write(generated_clusters.make(nodes=6, instances=8, seed=1)))
    return found


def test_every_node_of_a_text_is_in_one_step_and_the_master_is_last(roundsman: Run, file: Path) -> None:
    status, out, err = roundsman("rolling", "--text", str(file), "-o", "json")
    assert (status, err) == (0, "")
    groups = json.loads(out)["groups"]
    assert sorted(node for step in groups for node in step) == [f"node-{number:04d}" for number in range(1, 7)]
    assert groups[-1][-1] == "node-0001"


def test_the_table_has_a_line_for_each_step(roundsman: Run, file: Path) -> None:
    steps = json.loads(roundsman("rolling", "--text", str(file), "-o", "json")[1])["groups"]
    status, out, _err = roundsman("rolling", "--text", str(file))
    assert status == 0
    assert [line.split()[1] for line in out.splitlines()[1:]] == [step[0] for step in steps]


def test_commands_empty_the_nodes_of_each_step_before_their_reboot(roundsman: Run, file: Path) -> None:
    _status, out, _err = roundsman("rolling", "--text", str(file), "-o", "commands")
    lines = out.splitlines()
    assert lines[0].startswith("# step 1 of ")
    migrated = [line.split()[-1] for line in lines if line.startswith("gnt-node migrate -f ")]
    assert sorted(migrated) == [f"node-{number:04d}" for number in range(1, 7)]
    assert all(line.startswith(("#", "gnt-")) for line in lines)


def test_without_a_text_it_is_the_configured_cluster(
    roundsman: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tree.Tree(tmp_path / "root")
    where.lib.mkdir(parents=True)
    store.write(where.config, small_cluster.make())
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(where.root))
    status, out, _err = roundsman("rolling", "-o", "json")
    assert status == 0
    names = {one.name for one in small_cluster.make().nodes.values() if not one.offline}
    assert {node for step in json.loads(out)["groups"] for node in step} == names


def test_a_node_whose_reboot_would_stop_an_instance_is_left_out_with_the_reason(
    roundsman: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, cluster = tree.Tree(tmp_path / "root"), small_cluster.make()
    where.lib.mkdir(parents=True)
    store.write(where.config, clusters.with_node(cluster, dataclasses.replace(cluster.node("node3"), drained=True)))
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(where.root))
    status, out, err = roundsman("rolling", "-o", "json")
    found = json.loads(out)
    assert (status, {node for step in found["groups"] for node in step}) == (1, {"node1", "node10"})
    assert [(entry["node"], entry["instance"]) for entry in found["left_out"]] == [("node2", "inst1"), ("node3", "")]
    assert "node2 is left out: inst1 would stop, because its secondary node3 is drained" in err
    assert roundsman("rolling", "--offline-maintenance")[0] == 0


def test_a_malformed_text_is_told_with_file_line_and_field(roundsman: Run, file: Path) -> None:
    file.write_text(file.read_text().replace("|131072|", "|plenty|", 1))
    status, out, err = roundsman("rolling", "--text", str(file))
    assert (status, out) == (1, "")
    assert err.startswith(f"roundsman: {file}: line 4, field t_mem: ")
    assert len(err.splitlines()) == 1


def test_what_is_no_text_is_told_in_one_line(roundsman: Run, file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    assert roundsman("rolling", "--text", str(file))[2].startswith(f"roundsman: {file}: it is no text: ")


def test_a_dash_is_standard_input(roundsman: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO(file.read_text()))
    assert roundsman("rolling", "--text", "-")[0] == 0


def test_two_ways_with_instances_that_have_no_secondary_are_refused(roundsman: Run, file: Path) -> None:
    status, _out, err = roundsman("rolling", "--text", str(file), "--ignore-non-redundant", "--skip-non-redundant")
    assert status == 2
    assert "not both" in err
