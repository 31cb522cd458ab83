from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import questions
from ansible_collections.roundsman.cluster.daemon.jobs import values

from tests.unit.daemon.cli import canned

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

DONE = canned.job(20, "verify_disks", {"instance": "u-instance1"}, status=values.Status.SUCCESS)


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (("activate-disks", "web1"), ("PUT", None)),
        (("deactivate-disks", "web1"), ("PUT", None)),
        (("verify-disks", "web1"), ("PUT", None)),
        (("repair-disks", "web1"), ("PUT", None)),
        (("recreate-disks", "web1", "--yes"), ("POST", {})),
        (("reinstall", "web1", "--yes", "-o", "debian"), ("POST", {"os": "debian", "start": True})),
    ],
)
def test_each_verb_is_a_job_of_its_instance(
    daemon: StandIn, roundsman: Run, command: tuple[str, ...], asked: tuple[str, Any]
) -> None:
    path = f"/2/instances/web1/{command[0]}"
    daemon.put(asked[0], path, 20)
    daemon.put("GET", "/2/jobs/20/wait", DONE)
    assert roundsman("instance", *command)[0] == 0
    assert daemon.requests[0] == (asked[0], path, asked[1])


@pytest.mark.parametrize(
    ("node", "left_behind", "question"),
    [
        ("node1", [], "Discard what only node1 has of the disks of web1?"),
        ("node2", [], "Discard what only node2 has of the disks of web1?"),
        ("node3", ["web1"], "Remove the replica that web1 left behind on node3?"),
    ],
)
def test_a_node_with_a_replica_is_named_to_discard_it(
    node: str, left_behind: list[str], question: str, daemon: StandIn, roundsman: Run
) -> None:
    asked: list[str] = []
    stored(daemon, left_behind)
    daemon.put("PUT", "/2/instances/web1/repair-disks", 20)
    words = ("instance", "repair-disks", "web1", "--discard", node, "--yes", "--submit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "confirm", lambda text, *, yes: asked.append(f"{text} {yes}"))
        assert roundsman(*words) == (0, "20\n", "")
    assert asked == [f"{question} True"]
    assert daemon.asked("PUT") == [("/2/instances/web1/repair-disks", {"discard": node})]


def test_a_start_after_a_split_brain_names_the_node_whose_data_are_given_up(
    daemon: StandIn, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    stored(daemon, ["web1"])
    daemon.put("PUT", "/2/instances/web1/startup", 20)
    monkeypatch.setattr(questions, "confirm", lambda text, *, yes: asked.append(f"{text} {yes}"))
    assert roundsman("instance", "start", "web1", "--discard", "node2", "--submit") == (0, "20\n", "")
    assert asked == ["Discard what only node2 has of the disks of web1? False"]
    assert daemon.asked("PUT") == [("/2/instances/web1/startup", {"discard": "node2"})]
    code, _, err = roundsman("instance", "start", "web1", "--discard", "node3")
    assert (code, "node3 has no replica of web1; use node1 or node2" in err) == (1, True)


@pytest.mark.parametrize(
    ("instance", "node", "said"),
    [
        ("web1", "node3", "--discard node3: node3 has no replica of web1; use node1 or node2"),
        ("web1", "node9", "'node9'"),
        ("web9", "node1", "'web9'"),
    ],
)
def test_nobody_is_asked_to_discard_what_is_not_there(
    instance: str, node: str, said: str, daemon: StandIn, roundsman: Run
) -> None:
    stored(daemon, [])
    code, out, err = roundsman("instance", "repair-disks", instance, "--discard", node)
    assert (code, out) == (1, "")
    assert said in err
    assert "--yes" not in err
    assert daemon.asked("PUT") == []


def test_nobody_is_asked_to_discard_a_replica_that_is_being_made(daemon: StandIn, roundsman: Run) -> None:
    stored(daemon, [], being_made=["web1"])
    code, out, err = roundsman("instance", "repair-disks", "web1", "--discard", "node3")
    assert (code, out) == (1, "")
    assert "web1 may be written to its new replica on node3" in err
    assert "run `roundsman instance replace-disks web1` with `--to` another node, or with `--to node2`" in err
    assert "--yes" not in err
    assert daemon.asked("PUT") == []


def stored(daemon: StandIn, left_behind: list[str], being_made: list[str] | None = None) -> None:
    """An instance on node1 and node2, what it left behind on node3, and what is being made there."""
    daemon.put("GET", "/1/instances", [{"name": "web1", "primary": "node1", "secondaries": ["node2"]}])
    left = {"node1": [], "node2": [], "node3": left_behind}
    nodes = [{"name": name, "left_behind": names, "being_made": []} for name, names in left.items()]
    nodes[2]["being_made"] = being_made or []
    daemon.put("GET", "/1/nodes", nodes)


def test_a_playbook_is_named_by_its_whole_path(
    daemon: StandIn, roundsman: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    daemon.put("POST", "/2/instances/web1/reinstall", 20)
    words = ("instance", "reinstall", "web1", "--os-playbook", "os.yml", "--no-start", "--yes", "--submit")
    assert roundsman(*words) == (0, "20\n", "")
    assert daemon.asked("POST")[0][1] == {"os_playbook": str(tmp_path / "os.yml"), "start": False}


@pytest.mark.parametrize(
    "command",
    [
        ("recreate-disks", "web1"),
        ("reinstall", "web1", "-o", "debian"),
        ("repair-disks", "web1", "--discard", "node2"),
    ],
)
def test_what_overwrites_disks_is_asked_for_twice(daemon: StandIn, roundsman: Run, command: tuple[str, ...]) -> None:
    stored(daemon, [])
    code, _, err = roundsman("instance", *command)
    assert (code, "add --yes" in err) == (1, True)
    assert daemon.asked("PUT") == daemon.asked("POST") == []


def test_one_playbook_is_named_and_not_two(daemon: StandIn, roundsman: Run) -> None:
    assert roundsman("instance", "reinstall", "web1", "--yes")[0] != 0
    assert daemon.requests == []


def test_a_person_types_the_name_of_the_node_that_is_off(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/nodes/node3/confirm-off", 20)
    lost = {"instance": "web1", "seconds": 250.0, "loss": "possible loss: writes of the last 250 s"}
    lost |= {"reason": "it may lack them", "unblock": "`roundsman instance failover web1 --max-loss 260s`"}
    told = {"node": "node3", "since": 1772373900.0, "by": "alice", "instances": [lost]}
    daemon.put("GET", "/2/nodes/node3/confirm-off", told)
    preview = (
        "node3 would be off since 2026-03-01 14:05:00 UTC by the word of alice.\n"
        "web1: possible loss: writes of the last 250 s: it may lack them. "
        "What would unblock it: `roundsman instance failover web1 --max-loss 260s`.\n"
    )
    for given in ((), ("--confirm", "node4")):
        code, _, err = roundsman("node", "confirm-off", "node3", *given)
        assert (code, err.startswith(preview)) == (1, True)
    assert daemon.asked("PUT") == []
    options = ("--since", "2026-03-01T15:05:00+01:00", "--confirm", "node3", "--submit")
    assert roundsman("node", "confirm-off", "node3", *options) == (0, "20\n", preview)
    assert "since=1772373900.0" in daemon.queries[-1]
    code, _, err = roundsman("node", "confirm-off", "node3", "--since", "2026-03-01 14:05", "--confirm", "node3")
    assert (code, "zone" in err) == (2, True)
    assert roundsman("node", "confirm-off", "node3", "--undo", "--since", "2026-03-01 14:05 UTC")[0] == 2
    assert roundsman("node", "confirm-off", "node3", "--undo", "--submit") == (0, "20\n", "")
