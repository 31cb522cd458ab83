from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import wording
from ansible_collections.roundsman.cluster.daemon.jobs import values

from tests.unit.daemon.cli import canned, terminal

if TYPE_CHECKING:
    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

POWER = {"node": "u-node3", "command": "off"}
DONE = canned.job(20, "power", POWER, status=values.Status.SUCCESS, text="power is off")
BAD = canned.job(20, "power", POWER, status=values.Status.ERROR, text="the BMC is silent")


@pytest.mark.parametrize("noun", ["node", "instance", "incident", "jobs"])
def test_a_listing_as_json_is_the_very_text_of_the_daemon(noun: str, daemon: StandIn, roundsman: Run) -> None:
    path = {"node": "/1/nodes", "instance": "/1/instances", "incident": "/1/status", "jobs": "/2/jobs"}[noun]
    code, out, err = roundsman(noun, "list", "-o", "json")
    assert (code, err) == (0, "")
    assert out.encode() == daemon.answers["GET", path] + b"\n"  # type: ignore[operator]


def test_nodes_are_listed_with_how_their_agents_answer_where_those_are_asked(daemon: StandIn, roundsman: Run) -> None:
    assert "AGENT" not in roundsman("node", "list")[1]
    nodes = json.loads(daemon.answers["GET", "/1/nodes"])  # type: ignore[arg-type]
    told = {"misses": 3, "since": time.time() - 100, "answered": None, "text": "no answer", "load": None}
    daemon.put("GET", "/1/nodes", [{**one, "agent": told if one["name"] == "node6" else None} for one in nodes])
    _, out, _ = roundsman("node", "list")
    said = {line.split()[0]: line for line in out.splitlines() if line.startswith("node")}
    assert "missed 3 in 2 min" in said["node6"]
    assert "not asked" in said["node1"]


@pytest.mark.usefixtures("daemon")
def test_the_state_of_an_instance_is_told_as_what_is_on_record_not_as_what_was_found(roundsman: Run) -> None:
    assert "ON RECORD" in roundsman("instance", "list")[1]
    assert "On record" in roundsman("instance", "info", "instance1")[1]
    assert "no node is asked" in roundsman("instance", "list", "--help")[1]


def test_groups_are_listed_with_their_nodes_and_instances_and_so_is_one_without(
    daemon: StandIn, roundsman: Run
) -> None:
    known = {"default": ["node1", "node2", "node3"], "b": ["node4", "node5", "node6"], "empty": []}
    groups = [{"name": name, "alloc_policy": "preferred", "node_list": nodes} for name, nodes in known.items()]
    daemon.put("GET", "/2/groups", groups)
    _, out, _ = roundsman("group", "list", "-o", "json")
    assert json.loads(out) == [
        {"name": name, "alloc_policy": "preferred", "nodes": nodes, "instances": 2 if nodes else 0}
        for name, nodes in known.items()
    ]
    told = roundsman("group", "list")[1]
    assert "node4 node5 node6" in told
    assert "empty" in told


def test_an_object_is_shown_a_field_a_line(daemon: StandIn, roundsman: Run) -> None:
    found = {"ndparams": {"oob_program": "!"}, "tags": ["a", "b"], "ctime": 0.5, "paused": False, "empty": {}}
    daemon.put("GET", "/2/groups/b", found)
    lines = [line.split(maxsplit=1) for line in roundsman("group", "info", "b")[1].splitlines()]
    assert lines == [
        ["ctime", wording.moment(0.5)],
        ["empty", "-"],
        ["ndparams.oob_program", "!"],
        ["paused", "no"],
        ["tags", "a, b"],
    ]
    assert json.loads(roundsman("group", "info", "b", "-o", "json")[1]) == found


def test_an_incident_is_shown_with_its_jobs_what_is_refused_and_the_next_step(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("GET", "/2/incidents/3f2a", json.loads(canned.answers()["GET", f"/2/incidents/{canned.BROKEN}"]))
    code, out, err = roundsman("incident", "info", "3f2a")
    assert (code, err) == (0, "")
    shown = [" ".join(line.split()) for line in out.splitlines()]
    assert f"Incident {canned.BROKEN}" in shown
    assert {"Node node2", "Asks for evacuate", "Status pending"} <= set(shown)
    assert any("fan 3 stands still" in line for line in shown)
    assert any(line.startswith("11 running ") for line in shown)
    assert "Refused for instance2: node1 has no room. What would unblock it: 1024 MiB on node1." in out
    assert "  migrating" not in out
    assert out.endswith(
        "What you do next:\n  Wait: incident 3f2a91c0 is worked on. To have it ignored: "
        "`roundsman incident cancel 3f2a91c0`\n"
    )
    assert roundsman("incident", "info", "3f2a", "-o", "json")[1].startswith('{"id":')


def test_a_failed_incident_is_shown_with_jobs_that_are_gone_and_how_it_is_retried(
    daemon: StandIn, roundsman: Run
) -> None:
    out = roundsman("incident", "info", canned.LOST)[1]
    assert "Because" in out
    assert "Job 7 is not in the queue any more." in out
    assert "then retry: `roundsman incident ack c0ffee00`" in out
    daemon.put("GET", f"/2/incidents/{canned.LOST}", None)
    del daemon.answers["GET", f"/2/incidents/{canned.LOST}"]
    assert roundsman("incident", "info", canned.LOST)[0] == 1


def test_rounds_are_listed_with_how_far_their_jobs_are(daemon: StandIn, roundsman: Run) -> None:
    out = roundsman("round", "list")[1]
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["ROUND", "STARTED", "JOBS", "REFUSED", "WHAT"]
    assert " ".join(rows[1]).endswith("2: 1 running, 1 archived 1 moving instance1 away; node2 is empty")
    assert rows[2][:2] == ["2", "-"]
    assert roundsman("round", "list", "-o", "json")[1].startswith('[{"round":3,')
    several = {"jobs": [{"reason": f"evacuating node2: moving {name} away"} for name in ("a", "b")], "refusals": []}
    daemon.put("GET", "/1/rounds", [{"round": 4, "started": 1.0, "plan": several, "jobs": [], "problem": None}])
    assert roundsman("round", "list")[1].splitlines()[1].endswith("  evacuating node2"), "what for, once"
    assert "2.json is damaged" in out


def test_a_round_is_shown_with_its_jobs_refusals_and_ends_of_incidents(daemon: StandIn, roundsman: Run) -> None:
    out = roundsman("round", "info", "1")[1]
    assert [line.split()[:2] for line in out.splitlines() if line.startswith(("11 ", "9 "))] == [
        ["11", "running"],
        ["9", "archived"],
    ]
    assert "migrate instance1 from node2 to node1" in out
    assert "instance2  node1 has no room  1024 MiB on node1" in out
    assert "Incident 77be01d4 is complete." in out
    assert "Incident c0ffee00 fails: job 7 failed." in out
    assert roundsman("round", "info") == roundsman("round", "info", "3"), "the newest"
    daemon.put("GET", "/1/rounds", [])
    assert roundsman("round", "info")[1] == "No round has been yet.\n"
    assert roundsman("round", "list")[1] == "No round has been yet.\n"


def test_incident_ids_are_short_in_tables_and_whole_in_json(daemon: StandIn, roundsman: Run) -> None:
    assert canned.BROKEN not in roundsman("incident", "list")[1]
    assert "3f2a91c0" in roundsman("incident", "list")[1]
    assert canned.BROKEN in roundsman("incident", "list", "-o", "json")[1]


@pytest.mark.parametrize(("noun", "name"), [("node", "node3"), ("instance", "instance3")])
def test_info_shows_one_object(noun: str, name: str, daemon: StandIn, roundsman: Run) -> None:
    assert json.loads(roundsman(noun, "info", name, "-o", "json")[1])["name"] == name
    assert f"u-{name}" in roundsman(noun, "info", name)[1]


def test_info_shows_several_nodes_in_the_order_asked_and_without_any_all(daemon: StandIn, roundsman: Run) -> None:
    out = roundsman("node", "info", "node3", "node1")[1]
    assert 0 <= out.index("u-node3") < out.index("u-node1")
    assert "u-node2" not in out
    told = json.loads(roundsman("node", "info", "node3", "node1", "-o", "json")[1])
    assert [one["name"] for one in told] == ["node3", "node1"]
    every = json.loads(roundsman("node", "info", "-o", "json")[1])
    assert [one["name"] for one in every] == [
        one["name"] for one in json.loads(roundsman("node", "list", "-o", "json")[1])
    ]


def test_info_of_what_is_not_there_is_one_line(daemon: StandIn, roundsman: Run) -> None:
    assert roundsman("node", "info", "nodex") == (1, "", "roundsman: there is no node 'nodex'\n")
    assert roundsman("instance", "info", "x") == (1, "", "roundsman: there is no instance 'x'\n")


def test_a_job_shows_its_steps_and_what_it_waits_for(daemon: StandIn, roundsman: Run) -> None:
    _, out, _ = roundsman("jobs", "info", "12")
    assert "11 (success)" in out
    assert "set node2 offline" in out
    assert "evacuating node2" in out


def test_canceling_goes_to_the_daemon(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("DELETE", "/2/jobs/12", ([True, "job 12 is canceled"], [False, "job 12 has ended: success"]))
    daemon.put(
        "PUT",
        "/2/incidents/3f2a/cancel",
        {"uuid": canned.BROKEN, "node_name": "node2", "remaining": ["node2 stays drained."]},
    )
    assert roundsman("jobs", "cancel", "12")[1] == "Job 12 is canceled.\n"
    assert roundsman("jobs", "cancel", "12") == (1, "", "roundsman: job 12 has ended: success\n")
    assert (
        roundsman("incident", "cancel", "3f2a")[1] == "Incident 3f2a91c0 of node2 is canceled.\nnode2 stays drained.\n"
    )


def test_the_floor_of_a_node_s_reports_is_reset_by_the_daemon(daemon: StandIn, roundsman: Run) -> None:
    path = "/2/nodes/node2/reset-report-floor"
    daemon.put("PUT", path, ({"node": "node2", "seconds_ahead": 200.4}, {"node": "node2", "seconds_ahead": 0}))
    assert "dated 200 s ahead; reports made from now on count" in roundsman("node", "reset-report-floor", "node2")[1]
    assert "nothing to reset" in roundsman("node", "reset-report-floor", "node2")[1]


def test_a_job_that_did_not_succeed_is_one_line_and_exit_status_1(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/nodes/node3/role", 20)
    daemon.put("GET", "/2/jobs/20/wait", BAD)
    found = roundsman("node", "online", "node3")
    assert found == (1, "", "roundsman: job 20 ended as error: the BMC is silent\n")


def test_submit_prints_the_number_of_the_job_and_does_not_wait(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/nodes/node3/role", 20)
    assert roundsman("node", "online", "node3", "--submit") == (0, "20\n", "")
    assert daemon.asked("GET") == []


@pytest.mark.parametrize(
    ("command", "role"),
    [("drain", "drained"), ("undrain", "undrained"), ("offline", "offline"), ("online", "online")],
)
def test_each_role_command_asks_for_its_role(command: str, role: str, daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/nodes/node3/role", 20)
    roundsman("node", command, "node3", "--force", "--submit")
    assert daemon.asked("PUT") == [("/2/nodes/node3/role", role)]
    assert daemon.queries == ["force=1"]


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yesterday\n"])
def test_anything_but_a_yes_at_the_question_does_nothing(
    answer: str, daemon: StandIn, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", terminal.Terminal(answer))
    code, _, err = roundsman("node", "remove", "node3")
    assert code == 1
    assert err.endswith("roundsman: nothing was done\n")
    assert daemon.requests == []


def test_tags_are_listed_added_and_removed(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("GET", "/2/nodes/node3/tags", ["rack:a", "old"])
    daemon.put("GET", "/2/tags", ["blue"])
    daemon.put("PUT", "/2/groups/default/tags", 20)
    daemon.put("DELETE", "/2/instances/instance3/tags", 20)
    daemon.put("GET", "/2/jobs/20/wait", DONE)
    assert roundsman("node", "tags", "list", "node3")[1] == "rack:a\nold\n"
    assert json.loads(roundsman("node", "tags", "list", "node3", "-o", "json")[1]) == ["rack:a", "old"]
    assert roundsman("cluster", "tags", "list")[1] == "blue\n"
    for words in (
        ("group", "tags", "add", "default", "rack:a/left"),
        ("instance", "tags", "remove", "instance3", ".."),
    ):
        assert roundsman(*words)[0] == 0
    assert {"tag=rack%3Aa%2Fleft", "tag=.."} <= set(daemon.queries)


def test_the_cluster_has_tags_without_a_name(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/tags", 20)
    daemon.put("GET", "/2/jobs/20/wait", DONE)
    assert roundsman("cluster", "tags", "add", "blue")[0] == 0
    assert "tag=blue" in daemon.queries
