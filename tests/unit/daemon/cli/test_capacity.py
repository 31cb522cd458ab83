from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
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
    found.write_text(text_format.write(generated_clusters.make(nodes=4, instances=6, seed=1)))
    return found


def test_programs_get_the_seeds_document(roundsman: Run, file: Path) -> None:
    status, out, _err = roundsman("capacity", "--text", str(file), "-o", "json")
    told = json.loads(out)
    assert status == 0
    assert set(told) == {"cluster", "node_groups", "ctime", "tiered", "standard"}
    assert told["tiered"] == told["cluster"] != []
    assert all(len(tier) == 4 for tier in told["tiered"])


def test_people_get_a_table_for_the_cluster_and_each_group(roundsman: Run, file: Path) -> None:
    told = json.loads(roundsman("capacity", "--text", str(file), "-o", "json")[1])
    _status, out, _err = roundsman("capacity", "--text", str(file))
    assert "The whole cluster" in out
    assert "Node group group-1" in out
    assert out.count(f"Of the standard size: {told['standard']}") == 2
    assert [int(word) for word in out.splitlines()[3].split()] == told["tiered"][0]


def test_as_commands_there_is_nothing_to_run(roundsman: Run, file: Path) -> None:
    small = ("--max-inst-spec", "1024,10240,1")
    told = json.loads(roundsman("capacity", "--text", str(file), *small, "-o", "json")[1])
    status, out, _err = roundsman("capacity", "--text", str(file), *small, "-o", "commands")
    assert status == 0
    assert all(line.startswith("# ") for line in out.splitlines())
    assert f"# the whole cluster: {told['standard']} of the standard size" in out.splitlines()


def test_limits_of_the_call_are_kept(roundsman: Run, file: Path) -> None:
    small = roundsman("capacity", "--text", str(file), "--max-inst-spec", "1024,10240,1", "-o", "json")[1]
    assert json.loads(small)["tiered"][0][:3] == [1024, 10240, 1]


def test_a_cluster_in_which_nothing_fits_says_what_is_missing_and_which_nodes_are_left_out(
    roundsman: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small_cluster.make()
    where = tree.Tree(tmp_path).config
    where.parent.mkdir(parents=True)
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path))
    small = {uuid: dataclasses.replace(one, mtotal=64, dtotal=30_000) for uuid, one in made.nodes.items()}
    drained = {**small, "n2": dataclasses.replace(small["n2"], drained=True)}
    store.write(where, dataclasses.replace(made, nodes=drained, instances={}))
    _, out, err = roundsman("capacity")
    assert "No instance fits, however small: for the smallest (128 MiB of memory, 1024 MiB of disk" in out
    assert "there is too little memory." in out
    assert "node2 is left out: it is drained." in err
    away = {uuid: dataclasses.replace(one, offline=uuid != "n1") for uuid, one in small.items()}
    store.write(where, dataclasses.replace(made, nodes=away, instances={}))
    _, out, err = roundsman("capacity")
    assert "No instance fits, however small: drbd needs two nodes of one group that take instances." in out
    assert err.count("node10 is left out: it is offline.") == 1
    none = {uuid: dataclasses.replace(one, offline=True) for uuid, one in small.items()}
    store.write(where, dataclasses.replace(made, nodes=none, instances={}))
    assert "No instance fits, however small: no node takes instances." in roundsman("capacity")[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--max-inst-spec", "1024"), "--max-inst-spec: '1024' is not MEMORY,DISK,VCPUS"),
        (("--max-inst-spec", "0,1,1"), "max_inst_spec: (0, 1, 1): each number must be at least 1"),
        (("--max-cpu-ratio", "0"), "max_cpu_ratio: 0.0 is not more than 0"),
        (("--max-disk-usage", "2"), "max_disk_usage: 2.0 is not more than 0 and at most 1"),
        (("--default-template", "tape"), "--default-template: 'tape' is not one of diskless, file"),
    ],
)
def test_an_impossible_limit_is_told_in_one_line(roundsman: Run, file: Path, words: tuple[str, ...], told: str) -> None:
    status, out, err = roundsman("capacity", "--text", str(file), *words)
    assert (status, out) == (1, "")
    assert err.startswith(f"roundsman: {told}")
    assert len(err.splitlines()) == 1


def test_the_limits_of_a_running_cluster_are_the_calls_then_the_groups_then_its_own(
    roundsman: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small_cluster.make()
    nodes = {uuid: dataclasses.replace(one, mtotal=8192, dtotal=30_000) for uuid, one in made.nodes.items()}
    own = dataclasses.replace(made.cluster, max_inst_spec=(4096, 10240, 2), max_cpu_ratio=2.0)
    limited = dataclasses.replace(made.nodegroups["g1"], max_inst_spec=(2048, 10240, 2), default_template="plain")
    groups = {**made.nodegroups, "g1": limited}
    cluster = dataclasses.replace(made, nodes=nodes, cluster=own, nodegroups=groups)
    where = tree.Tree(tmp_path).config
    where.parent.mkdir(parents=True)
    store.write(where, cluster)
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path))
    told = json.loads(roundsman("capacity", "-o", "json")[1])
    assert told["tiered"] == told["cluster"]
    assert told["cluster"][0][:3] == [2048, 10240, 2]
    first, second = told["node_groups"]["g1"], told["node_groups"]["g2"]
    assert (first["max_inst_spec"], first["default_template"], first["max_cpu_ratio"]) == (
        [2048, 10240, 2],
        "plain",
        2.0,
    )
    assert (second["max_inst_spec"], second["default_template"]) == ([4096, 10240, 2], "drbd")
    called = json.loads(roundsman("capacity", "--max-inst-spec", "1024,1024,1", "-o", "json")[1])
    assert called["node_groups"]["g1"]["max_inst_spec"] == [1024, 1024, 1]
    assert called["node_groups"]["g1"]["tspecs"][0][:3] == [1024, 1024, 1]
