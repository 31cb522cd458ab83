from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format

from tests import generated_clusters

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "cluster.data"
    found.write_text(text_format.write(generated_clusters.make(nodes=6, instances=30, seed=1)))
    return found


def test_the_json_has_the_scores_the_components_and_every_move(roundsman: Run, file: Path) -> None:
    status, out, err = roundsman("balance", "--text", str(file), "-o", "json")
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert told["final_score"] < told["initial_score"]
    assert len(told["components"]["initial"]) == 20
    assert {"instance", "action", "primary", "secondary"} <= set(told["moves"][0])
    assert sorted(name for wave in told["waves"] for name in wave) == sorted(one["instance"] for one in told["moves"])
    assert told["data_gib"] == pytest.approx(sum(one["data_gib"] for one in told["moves"]))


def test_the_table_tells_each_move_and_what_it_is_worth(roundsman: Run, file: Path) -> None:
    told = json.loads(roundsman("balance", "--text", str(file), "-o", "json")[1])
    _status, out, _err = roundsman("balance", "--text", str(file))
    lines = out.splitlines()
    assert [line.split()[1] for line in lines[1 : len(told["moves"]) + 1]] == [one["instance"] for one in told["moves"]]
    assert f"Score {told['initial_score']:.8f} -> {told['final_score']:.8f}" in lines


def test_no_moves_only_tell_the_score(roundsman: Run, file: Path) -> None:
    told = json.loads(roundsman("balance", "--text", str(file), "--max-moves", "0", "-o", "json")[1])
    assert told["moves"] == []
    assert told["initial_score"] == told["final_score"]


def test_commands_are_those_of_ganeti_in_waves(roundsman: Run, file: Path) -> None:
    told = json.loads(roundsman("balance", "--text", str(file), "--like-hbal", "-o", "json")[1])
    _status, out, _err = roundsman("balance", "--text", str(file), "--like-hbal", "-o", "commands")
    lines = out.splitlines()
    assert sum(line.startswith("# wave ") for line in lines) == len(told["waves"])
    steps = sum(len(one["action"].split()) for one in told["moves"])
    assert (
        sum(line.startswith(("gnt-instance migrate -f ", "gnt-instance replace-disks -n ")) for line in lines) == steps
    )


def test_of_several_groups_one_must_be_named(roundsman: Run, file: Path) -> None:
    file.write_text(text_format.write(generated_clusters.make(nodes=6, instances=20, seed=1, groups=2)))
    status, _out, err = roundsman("balance", "--text", str(file))
    assert (status, err) == (1, "roundsman: say with --group which one is balanced: group-1, group-2\n")
    assert roundsman("balance", "--text", str(file), "--group", "group-2", "--max-moves", "1")[0] == 0
    assert "there is no node group 'group-3'" in roundsman("balance", "--text", str(file), "-g", "group-3")[2]


def moves(roundsman: Run, file: Path, *options: str) -> list[dict[str, str]]:
    status, out, err = roundsman("balance", "--text", str(file), *options, "-o", "json")
    assert (status, err) == (0, "")
    found: list[dict[str, str]] = json.loads(out)["moves"]
    return found


@pytest.mark.parametrize("mode", [[], ["--like-hbal"]])
def test_only_what_is_allowed_moves_in_both_modes(roundsman: Run, file: Path, mode: list[str]) -> None:
    free = moves(roundsman, file, *mode)
    assert any("r:" in one["action"] for one in free)
    assert {one["action"] for one in moves(roundsman, file, *mode, "--no-disk-moves")} == {"f"}
    primaries = {one.name: one.primary for one in text_format.read(file.read_text()).instances}
    for one in moves(roundsman, file, *mode, "--no-instance-moves"):
        assert one["primary"] == primaries[one["instance"]]
    first = free[0]["instance"]
    assert first not in {one["instance"] for one in moves(roundsman, file, *mode, "--exclude-instance", first)}
    assert {one["instance"] for one in moves(roundsman, file, *mode, "--select-instance", first)} == {first}


@pytest.mark.parametrize("mode", [[], ["--like-hbal"]])
def test_an_evacuation_moves_what_has_an_offline_node_and_nothing_else(
    roundsman: Run, file: Path, mode: list[str]
) -> None:
    assert moves(roundsman, file, *mode, "-E") == []
    there = {
        one.name for one in text_format.read(file.read_text()).instances if "node-0003" in {one.primary, one.secondary}
    }
    found = moves(roundsman, file, *mode, "-E", "-O", "node-0003")
    assert {one["instance"] for one in found} == there
    assert all("node-0003" not in {one["primary"], one["secondary"]} for one in found)


@pytest.mark.parametrize("mode", [[], ["--like-hbal"]])
def test_the_search_ends_early_when_told_what_is_enough(roundsman: Run, file: Path, mode: list[str]) -> None:
    free = moves(roundsman, file, *mode)
    assert len(moves(roundsman, file, *mode, "--min-score", "6")) < len(free)
    if not mode:
        assert len(moves(roundsman, file, "--min-gain", "0.8")) < len(free)


def test_measured_loads_are_read_or_ignored(roundsman: Run, file: Path, tmp_path: Path) -> None:
    def score(*options: str) -> float:
        told = json.loads(roundsman("balance", "--text", str(file), "--max-moves", "0", *options, "-o", "json")[1])
        return float(told["initial_score"])

    loads = tmp_path / "loads"
    loads.write_text("inst-00001 50 0 0 0\n")
    ignored = score("--ignore-dynamic-load")
    assert ignored < score() < score("-U", str(loads))
    assert score("-U", str(loads), "--ignore-dynamic-load") == ignored
    loads.write_text("inst-00001 50 0\n")
    status, _out, err = roundsman("balance", "--text", str(file), "-U", str(loads))
    assert status == 1
    assert err.startswith(f"roundsman: {loads}: line 1: ")


@pytest.mark.parametrize("option", ["--offline", "--select-instance", "--exclude-instance"])
def test_a_name_of_nobody_is_refused(roundsman: Run, file: Path, option: str) -> None:
    status, _out, err = roundsman("balance", "--text", str(file), option, "nobody")
    assert status == 1
    assert "'nobody'" in err


def test_a_saved_plan_tells_the_command_with_all_its_options(roundsman: Run, file: Path) -> None:
    given = ["--no-disk-moves", "--exclude-instance", "inst-00002", "--offline", "node-0003", "--min-gain", "0.5"]
    told = json.loads(roundsman("balance", "--text", str(file), *given, "-o", "json")[1])
    assert told["command"] == f"roundsman balance {' '.join(given)} --text {file}"
