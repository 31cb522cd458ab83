from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.planning.models import text_format

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
