from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import plan_documents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format

from tests import generated_clusters
from tests.unit.daemon.cli import canned
from tests.unit.plugins.plugin_utils.rounds import tables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli import stand_in
    from tests.unit.daemon.cli.conftest import Run

TABLE = """
node1 16384 100000 master
node2 16384 100000
node3 16384 100000
instance1 drbd 1024 10240 node2 node1
instance2 drbd 2048 10240 node1 node2
"""
PLAIN = "instance3 plain 2048 10240 node2\n"
MOVE = {"instance": "u-instance1", "source": "u-node2", "target": "u-node1"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "cluster.data"
    found.write_text(text_format.write(generated_clusters.make(nodes=6, instances=30, seed=1)))
    return found


@pytest.fixture
def running(daemon: stand_in.StandIn, tmp_path: Path) -> stand_in.StandIn:
    """A daemon whose plan, job 7, ends as job 8 and 9, and the configuration that it has."""
    where = tree.Tree(tmp_path / "root").config
    where.parent.mkdir(parents=True, exist_ok=True)
    store.write(where, tables.read(TABLE))
    daemon.put("POST", "/2/plans", 7)
    ended = canned.job(7, "run_plan", {"command": "roundsman evacuate node2"}, status=values.Status.SUCCESS)
    daemon.put("GET", "/2/jobs/7/wait", ended)
    daemon.put("GET", "/2/jobs/7", {**ended, "opresult": [{"jobs": [[True, 8], [True, 9]]}]})
    for number in (8, 9):
        daemon.put("GET", f"/2/jobs/{number}/wait", canned.job(number, "migrate", MOVE, status=values.Status.SUCCESS))
    return daemon


def _asked(daemon: stand_in.StandIn) -> list[plan_documents.Document]:
    return [plan_documents.read(body["document"].encode()) for path, body in daemon.asked("POST") if path == "/2/plans"]


def test_a_plan_that_is_kept_is_shown_again_in_the_same_forms(roundsman: Run, file: Path, tmp_path: Path) -> None:
    kept = tmp_path / "a.plan"
    for form in ("table", "json", "commands"):
        status, out, err = roundsman("balance", "--text", str(file), "--save", str(kept), "-o", form)
        assert (status, err) == (0, "")
        assert roundsman("plan", "show", str(kept), "-o", form) == (0, out, "")
    told = json.loads(roundsman("plan", "show", str(kept), "-o", "json")[1])
    assert told["command"] == f"roundsman balance --text {file}"


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "it is no plan"), (b'{"checksum": "sha256:' + b"0" * 64 + b'",}', "cut off, damaged or edited")],
)
def test_a_file_that_is_no_plan_is_one_line(roundsman: Run, tmp_path: Path, content: bytes, told: str) -> None:
    kept = tmp_path / "a.plan"
    kept.write_bytes(content)
    for command in ("show", "submit"):
        status, out, err = roundsman("plan", command, str(kept))
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(f"roundsman: {kept}: ")
        assert told in err


def test_an_evacuation_of_a_text_is_shown_and_says_what_stays(roundsman: Run, file: Path) -> None:
    status, out, err = roundsman("evacuate", "node-0001", "node-0002", "--text", str(file), "-o", "json")
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert told["kept"] == []
    for move in told["moves"]:
        assert {move["primary"], move["secondary"]}.isdisjoint({"node-0001", "node-0002"})
    commands = roundsman("evacuate", "node-0001", "node-0002", "--text", str(file), "-o", "commands")[1].splitlines()
    assert len([line for line in commands if line.startswith("# wave ")]) == len(told["waves"])
    steps = sum(len(move["action"].split()) for move in told["moves"])
    assert len([line for line in commands if line.startswith("gnt-instance ")]) == steps


def test_with_failover_no_command_migrates(roundsman: Run, file: Path) -> None:
    out = roundsman("evacuate", "node-0001", "--text", str(file), "--failover", "-o", "commands")[1]
    assert "gnt-instance failover -f " in out
    assert "migrate" not in out


def test_consistency_is_ignored_only_by_failovers_and_by_whoever_confirms_it(
    roundsman: Run, running: stand_in.StandIn, file: Path, tmp_path: Path
) -> None:
    words = ("evacuate", "node-0001", "--text", str(file), "--failover", "--ignore-consistency", "-o", "commands")
    failovers = [line for line in roundsman(*words)[1].splitlines() if line.startswith("gnt-instance failover")]
    assert failovers
    assert all(line.endswith(" --ignore-consistency") for line in failovers)
    status, _, err = roundsman("evacuate", "node2", "--ignore-consistency")
    assert (status, "--failover" in err) == (2, True)
    status, _, err = roundsman("evacuate", "node2", "--failover", "--ignore-consistency")
    assert (status, "add --yes" in err) == (1, True)
    kept = tmp_path / "kept.plan"
    roundsman("evacuate", "node2", "--failover", "--ignore-consistency", "--save", str(kept))
    assert (roundsman("plan", "submit", str(kept))[0], _asked(running)) == (1, [])
    roundsman("evacuate", "node2", "--failover", "--ignore-consistency", "--yes")
    roundsman("plan", "submit", str(kept), "--yes")
    assert [document.ignore_consistency for document in _asked(running)] == [True, True]


LOST = "possible loss: writes of the last 262 s"


def test_an_evacuation_by_failover_prints_the_possible_loss_before_and_after(
    roundsman: Run, running: stand_in.StandIn
) -> None:
    against = {"instance": "instance9", "in_sync": False, "reason": "it is stale", "unblock": "wait", "loss": None}
    known = {"instance": "instance1", "in_sync": True, "reason": "", "unblock": "", "loss": LOST}
    running.put("GET", "/1/explain/node2", {"failovers": [known, against]})
    done = canned.job(8, "failover", MOVE, status=values.Status.SUCCESS)
    done["opcodes"][0]["text"] = LOST
    running.put("GET", "/2/jobs/8/wait", done)
    status, out, err = roundsman("evacuate", "node2", "--failover")
    assert err == f"roundsman: instance1: {LOST}\nroundsman: instance9: it is stale\n"
    assert f"Job 8: fail instance1 over from node2 to node1: success ({LOST})\n" in out
    assert status == 0


def test_the_loss_that_a_person_accepts_is_part_of_the_plan_and_only_of_failovers(
    roundsman: Run, running: stand_in.StandIn
) -> None:
    status, _, err = roundsman("evacuate", "node2", "--max-loss", "6m")
    assert (status, "--failover" in err) == (2, True)
    out = roundsman("evacuate", "node2", "--failover", "--max-loss", "6m", "--plan", "-o", "commands")[1]
    failovers = [line for line in out.splitlines() if "instance failover" in line]
    assert failovers
    assert all(line.endswith(" --max-loss 360s") for line in failovers)
    roundsman("evacuate", "node2", "--failover", "--max-loss", "6m")
    assert [(document.max_loss, document.ignore_consistency) for document in _asked(running)] == [(360, False)]


def test_an_evacuation_is_run_as_it_is_planned(roundsman: Run, running: stand_in.StandIn) -> None:
    planned = json.loads(roundsman("evacuate", "node2", "--plan", "-o", "json")[1])
    assert _asked(running) == []
    status, out, err = roundsman("evacuate", "node2")
    assert (status, err) == (0, "")
    (document,) = _asked(running)
    assert json.loads(plan_documents.text(document)) == planned
    assert [(move.instance, move.action) for move in document.moves] == [
        ("instance1", "f r:node3"),
        ("instance2", "r:node3"),
    ]
    assert out.splitlines()[-2:] == [
        "Job 8: migrate instance1 from node2 to node1: success",
        "Job 9: migrate instance1 from node2 to node1: success",
    ]


def test_a_balance_leaves_nodes_with_incidents_alone_and_what_can_never_be_migrated(
    roundsman: Run, running: stand_in.StandIn, tmp_path: Path
) -> None:
    crowd = "".join(f"instance{number} drbd 1024 10240 node2 node1\n" for number in range(3, 8))
    node4 = "node4 16384 100000\nincident a1 node3 evacuate pending 100\n"
    store.write(tree.Tree(tmp_path / "root").config, tables.read(TABLE + node4 + crowd))
    words = ("balance", "--price", "0", "-o", "json")
    free = json.loads(roundsman(*words)[1])["moves"]
    assert free
    assert all("node3" not in (move["primary"], move["secondary"]) for move in free)
    assert running.asked("POST") == []
    still = (TABLE + node4 + crowd).replace("node2 node1\n", "node2 node1 migratable=no\n")
    store.write(tree.Tree(tmp_path / "root").config, tables.read(still))
    moved = {move["instance"] for move in json.loads(roundsman(*words)[1])["moves"]}
    assert moved <= {"instance2"}


def test_a_balance_replaces_no_adopted_disks_and_says_so(
    roundsman: Run, running: stand_in.StandIn, tmp_path: Path
) -> None:
    crowd = "".join(f"instance{number} drbd 1024 10240 node2 node1 adopted\n" for number in range(3, 8))
    store.write(tree.Tree(tmp_path / "root").config, tables.read(TABLE + "node4 16384 100000\n" + crowd))
    for more in ((), ("--like-hbal",)):
        told = json.loads(roundsman("balance", "--price", "0", *more, "-o", "json")[1])
        actions = {move["instance"]: move["action"] for move in told["moves"]}
        assert any(action == "f" for action in actions.values())
        assert all(action == "f" for name, action in actions.items() if name not in {"instance1", "instance2"})
        assert [note.partition(" stay ")[0] for note in told["notes"]] == [
            "the replicas of instance3, instance4, instance5 and 2 more"
        ]
    assert running.asked("POST") == []
    assert "Note: the replicas of instance3, " in roundsman("balance")[1]
    assert json.loads(roundsman("balance", "--no-disk-moves", "-o", "json")[1])["notes"] == []


def test_what_cannot_leave_is_told_with_its_reason_and_is_status_1(
    roundsman: Run, running: stand_in.StandIn, tmp_path: Path
) -> None:
    store.write(tree.Tree(tmp_path / "root").config, tables.read(TABLE + PLAIN))
    status, out, _ = roundsman("evacuate", "node2")
    assert status == 1
    assert "instance3 stays: disk template plain keeps its only replica on node2" in out
    assert [move.instance for move in _asked(running)[0].moves] == ["instance1", "instance2"]


def test_where_nothing_has_to_move_nothing_is_run(roundsman: Run, running: stand_in.StandIn) -> None:
    status, out, _ = roundsman("evacuate", "node3")
    assert (status, out.splitlines()[0]) == (0, "Nothing has to move.")
    assert _asked(running) == []


def test_a_job_that_fails_is_told_and_is_status_1(roundsman: Run, running: stand_in.StandIn) -> None:
    failed = canned.job(9, "migrate", MOVE, status=values.Status.ERROR, text="it did not start")
    running.put("GET", "/2/jobs/9/wait", failed)
    status, _, err = roundsman("evacuate", "node2")
    assert status == 1
    assert err.splitlines() == [
        "Job 9: migrate instance1 from node2 to node1: error: it did not start",
        "roundsman: 1 of 2 moves did not succeed",
    ]


def test_a_plan_that_the_daemon_refuses_is_one_line(roundsman: Run, running: stand_in.StandIn) -> None:
    text = "the cluster has changed since this plan was made: make it again with `roundsman evacuate node2`"
    running.put("GET", "/2/jobs/7/wait", canned.job(7, "run_plan", {}, status=values.Status.ERROR, text=text))
    status, _, err = roundsman("evacuate", "node2")
    assert (status, err) == (1, f"roundsman: {text}\n")


def test_a_submitted_plan_is_not_waited_for(roundsman: Run, running: stand_in.StandIn, tmp_path: Path) -> None:
    kept = tmp_path / "a.plan"
    assert roundsman("evacuate", "node2", "--save", str(kept))[0] == 0
    assert _asked(running) == []
    status, out, _ = roundsman("plan", "submit", str(kept), "--submit")
    assert (status, out.splitlines()[-1]) == (0, "7")
    status, out, _ = roundsman("evacuate", "node2", "--submit", "-o", "json")
    assert (status, json.loads(out)["job"]) == (0, 7)
    assert len({plan_documents.text(one) for one in _asked(running)}) == 1
    assert not [path for path, _ in running.asked("GET") if path.startswith("/2/jobs")]


def test_a_balance_is_only_run_when_it_is_submitted(roundsman: Run, running: stand_in.StandIn) -> None:
    assert roundsman("balance", "--price", "0")[0] == 0
    assert _asked(running) == []
    status, out, _ = roundsman("balance", "--price", "0", "--submit", "-o", "json")
    told: dict[str, Any] = json.loads(out)
    assert status == 0
    (document,) = _asked(running)
    assert (told["job"], told["command"]) == (7, "roundsman balance --price 0.0")
    assert [move.instance for move in document.moves] == [move["instance"] for move in told["moves"]] != []


def test_commands_for_the_running_cluster_are_ours(roundsman: Run, running: stand_in.StandIn, tmp_path: Path) -> None:
    shared = "instance3 rbd 2048 10240 node2\n"
    store.write(tree.Tree(tmp_path / "root").config, tables.read(TABLE + shared))
    out = roundsman("evacuate", "node2", "--plan", "-o", "commands")[1].splitlines()
    assert out[1:3] == ["roundsman instance migrate instance1", "roundsman instance replace-disks instance1 --to node3"]
    assert "roundsman instance migrate instance3 --to node3" in out
    for line in [line for line in out if not line.startswith("#")]:
        running.put("PUT", f"/2/instances/{line.split()[3]}/migrate", 8)
        running.put("POST", f"/2/instances/{line.split()[3]}/replace-disks", 9)
        assert roundsman(*line.split()[1:])[0] == 0
    assert ("/2/instances/instance1/replace-disks", {"mode": "replace_new_secondary", "remote_node": "node3"}) in (
        running.asked("POST")
    )
    assert running.asked("PUT") == [
        ("/2/instances/instance1/migrate", {}),
        ("/2/instances/instance3/migrate", {"target_node": "node3"}),
    ]


@pytest.mark.parametrize("command", [["balance"], ["evacuate", "node-0001"]])
def test_a_text_is_not_run(roundsman: Run, file: Path, command: list[str]) -> None:
    status, _, err = roundsman(*command, "--text", str(file), "--submit")
    assert status == 2
    assert "--text is no running cluster" in err


def test_a_plan_is_shown_or_run(roundsman: Run, running: stand_in.StandIn) -> None:
    assert roundsman("evacuate", "node2", "--plan", "--submit")[0] == 2
    assert _asked(running) == []


def test_below_plan_the_round_is_still_shown(roundsman: Run, running: stand_in.StandIn) -> None:
    assert roundsman("plan")[0] == 0
    assert next(path for path, _ in running.asked("GET")) == "/1/plan"
