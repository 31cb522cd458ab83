from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model, text_format

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run

GROUP = model.Group("default", "uuid-1")


def _node(name: str, free: int) -> model.Node:
    return model.Node(name, GROUP.uuid, 8192, 1024, free, 100000, 50000, 8)


INSTANCE = model.Instance("large", 4096, 10240, 1, "running", auto_balance=True, primary="node-a", secondary="node-b")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two instances on node-a with replicas on node-b, which has room for one of them."""
    small = replace(INSTANCE, name="small", memory=1024)
    cluster = model.Model((GROUP,), (_node("node-a", 2048), _node("node-b", 4608)), (INSTANCE, small))
    found = tmp_path / "cluster.data"
    found.write_text(text_format.write(cluster))
    return found


def test_a_failure_that_is_not_survived_is_told_with_what_is_missing(roundsman: Run, file: Path) -> None:
    status, out, _err = roundsman("n1", "--text", str(file))
    assert status == 1
    (line,) = out.splitlines()[1:]
    assert line.split()[:2] == ["node-a", "1"]
    assert "node-b lacks 513 MiB" in line
    assert "small has no room on node-b: 1024 MiB needed, 512 MiB free" in line


def test_one_reason_of_many_instances_is_told_once(roundsman: Run, file: Path) -> None:
    alone = [replace(INSTANCE, name=f"web{number}", secondary="") for number in range(1, 6)]
    own = replace(INSTANCE, name="db1", secondary="", template=model.Template.FILE)
    cluster = model.Model((GROUP,), (_node("node-a", 4608), _node("node-b", 4608)), (*alone, own))
    file.write_text(text_format.write(cluster))
    _status, out, _err = roundsman("n1", "--text", str(file))
    (line,) = out.splitlines()[1:]
    assert line.split("  ")[-1].strip() == (
        "web1, web2 and 3 more have no other replica: their disks are drbd on node-a; "
        "db1 has no other replica: its disks are file on node-a"
    )


def test_when_all_failures_are_survived_it_says_so(roundsman: Run, file: Path) -> None:
    file.write_text(file.read_text().replace("|4608|", "|7168|"))
    assert roundsman("n1", "--text", str(file)) == (0, "Every instance survives the failure of any one node.\n", "")


def test_what_a_failure_does_to_each_instance_is_shown(roundsman: Run, file: Path) -> None:
    status, out, err = roundsman("n1", "--text", str(file), "--fail", "node-a")
    assert status == 1
    told = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert "starts on node-b: 4096 of 4608 MiB free" in told["large"]
    assert "no room" in told["small"]
    assert err == "node-b lacks 513 MiB: 5120 MiB would start there, 4608 MiB are free\n"


def test_as_commands_it_is_how_instances_start_again_and_a_comment_where_they_do_not(
    roundsman: Run, file: Path
) -> None:
    _status, out, _err = roundsman("n1", "--text", str(file), "--fail", "node-a", "-o", "commands")
    assert out.splitlines() == [
        "# if node-a fails",
        "gnt-instance failover -f large",
        "# small has no room on node-b: 1024 MiB needed, 512 MiB free",
    ]
    _status, out, _err = roundsman("n1", "--text", str(file), "-o", "commands")
    assert out.splitlines() == ["# if node-a fails", "# small has no room on node-b: 1024 MiB needed, 512 MiB free"]


def test_a_failure_that_only_takes_copies_is_no_loss(roundsman: Run, file: Path) -> None:
    status, out, _err = roundsman("n1", "--text", str(file), "--fail", "node-b", "-o", "json")
    (told,) = json.loads(out)
    assert status == 0
    assert [one["fate"] for one in told["instances"]] == ["unmirrored", "unmirrored"]


def test_a_node_that_is_not_there_is_told(roundsman: Run, file: Path) -> None:
    assert roundsman("n1", "--text", str(file), "--fail", "node-z") == (1, "", "roundsman: there is no node 'node-z'\n")
