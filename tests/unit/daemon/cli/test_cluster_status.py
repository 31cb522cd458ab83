from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import output
from ansible_collections.roundsman.cluster.daemon.jobs import values

from tests.unit.daemon.cli import canned

if TYPE_CHECKING:
    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn


def words(text: str, start: str) -> list[str]:
    """The words of the one line that starts so."""
    (found,) = [line for line in text.splitlines() if line.startswith(start)]
    return found.split()


def test_status_shows_only_nodes_that_are_not_in_order(daemon: StandIn, roundsman: Run) -> None:
    _, out, _ = roundsman("status")
    assert out.splitlines()[0].startswith("Cluster north, master node1; in order: 1 of 6 nodes, ")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("node")] == [
        *("node2", "node3", "node4", "node5", "node6"),
        "node6",
    ]
    assert words(out, "node3 ")[:5] == ["node3", "default", "offline", "off", "off"]
    state = json.loads(canned.answers()["GET", "/1/page"])
    quiet = {"nodes": state["nodes"][:1], "poll_problem": None, "at_work": False, "rejected": {}}
    quiet |= {key: [] for key in ("troubles", "incidents", "refusals")}
    daemon.put("GET", "/1/page", state | quiet)
    assert roundsman("status")[1].splitlines() == [
        "Cluster north, master node1; in order: 1 of 1 nodes, 4 of 4 instances that should run (all nodes: --all).",
        "",
        "No round is at work; 3 have been so far",
    ]


def test_all_nodes_are_shown_with_role_health_power_and_instances(daemon: StandIn, roundsman: Run) -> None:
    _, out, _ = roundsman("status", "--all")
    assert words(out, "node1 ") == ["node1", "master", "Ok", "on", "2.0/16.0", "GiB", "instance2", "(instance1)"]
    assert words(out, "node3 ")[:4] == ["node3", "offline", "off", "off"]
    assert words(out, "node4 ")[:6] == ["node4", "regular", "problem:", "missing", "no", "BMC"]


def test_status_shows_incidents_the_round_refusals_and_what_is_silent(daemon: StandIn, roundsman: Run) -> None:
    _, out, _ = roundsman("status")
    assert words(out, "3f2a91c0")[1:4] == ["node2", "evacuate", "pending"]
    assert "Round 3 is at work: 1 of 3 jobs have ended" in out
    assert "set node2 offline (after 11)" in out
    assert "1024 MiB on node1" in out
    assert words(out, "replayed") == ["replayed", "2"]
    assert "The newest of them, each with its reason, are in /var/lib/roundsman/rejected." in out
    assert "connection refused" in out


def test_status_says_what_to_do_about_reports_that_the_daemon_may_not_read(daemon: StandIn, roundsman: Run) -> None:
    state = json.loads(canned.answers()["GET", "/1/page"]) | {"rejected": {"unreadable": 3}}
    daemon.put("GET", "/1/page", state)
    out = roundsman("status")[1]
    assert words(out, "unreadable ") == ["unreadable", "3"]
    assert "make reports readable (0644)" in out


def test_a_paused_cluster_says_so(daemon: StandIn, roundsman: Run) -> None:
    state = json.loads(canned.answers()["GET", "/1/page"]) | {"paused": "new switch"}
    daemon.put("GET", "/1/page", state)
    assert "Maintenance is paused: new switch" in roundsman("status")[1]


def test_what_should_run_and_does_not_comes_first_with_the_command_that_starts_it(
    daemon: StandIn, roundsman: Run
) -> None:
    assert "is down" not in roundsman("status")[1]
    troubles = [
        {
            "code": "instance-down",
            "subject": f"db{number}",
            "nodes": ["node1"],
            "text": f"db{number} should run on node1, and is down",
            "step": f"start it: `roundsman instance start db{number}`",
        }
        for number in range(1, 11)
    ]
    daemon.put("GET", "/1/page", json.loads(canned.answers()["GET", "/1/page"]) | {"troubles": troubles})
    lines = roundsman("status")[1].splitlines()
    assert lines[1:3] == [
        "instance-down: db1 should run on node1, and is down.",
        "  What you do: start it: `roundsman instance start db1`.",
    ]
    assert lines[17] == "And 2 instance-down: see `roundsman explain NAME`."
    (node,) = (line for line in lines if line.startswith("node1 "))
    assert "Ok, instance-down" in node, "it is listed because of them"


def test_piped_output_has_no_control_characters_and_no_trailing_blanks(daemon: StandIn, roundsman: Run) -> None:
    _, out, _ = roundsman("status")
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_all_of_the_status_has_the_copies_of_the_configuration(daemon: StandIn, roundsman: Run) -> None:
    kept = {"node": "node2", "serial_no": 41, "confirmed": time.time() - 7, "is_newest": True, "lacks": ["a/b", "c"]}
    none: dict[str, Any] = {"node": "node3", "serial_no": None, "confirmed": None, "is_newest": False, "lacks": []}
    off = {**none, "node": "node4", "is_off": True}
    copies = [{**kept, "is_off": False}, {**none, "is_off": False}, off]
    daemon.put("GET", "/1/page", json.loads(canned.answers()["GET", "/1/page"]) | {"copies": copies})
    _, out, _ = roundsman("status", "--all")
    shown = out[out.index("Copies of the configuration") :].splitlines()
    assert [line.split() for line in shown[2:5]] == [
        ["node2", "41", "7", "s", "ago", "yes", "/a/b,", "/c"],
        ["node3", "-", "-", "no", "-"],
        ["node4", "-", "-", "no,", "it", "is", "off", "-"],
    ]
    said = " ".join(shown[5:8])
    assert "keeps its copy: remove /var/lib/roundsman/configuration.copy there" in said


def test_what_a_node_says_cannot_steer_the_terminal(daemon: StandIn, roundsman: Run) -> None:
    state = json.loads(canned.answers()["GET", "/1/page"])
    state["incidents"][0]["reason"] = "\x1b[2J[bold]gone[/bold]"
    daemon.put("GET", "/1/page", state)
    _, out, _ = roundsman("status")
    assert "\N{REPLACEMENT CHARACTER}[2J[bold]gone[/bold]" in out


def test_what_a_node_says_cannot_forge_a_line(daemon: StandIn, roundsman: Run) -> None:
    told = json.loads(canned.answers()["GET", "/1/explain/node2"])
    told["node"]["problem"] = {"reason": "failed", "text": "no\nThere is nothing for you to do."}
    daemon.put("GET", "/1/explain/node2", told)
    _, out, _ = roundsman("explain", "node2")
    assert "\n    | There is nothing for you to do.)" in out
    assert "\nThere is nothing" not in out


def test_json_on_a_terminal_has_escapes_for_what_could_steer_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = '{"text":"\x7f\x9b31m\u202e \U000e0041 \u00e9"}'
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.as_json(told)
    shown = capsys.readouterr().out
    assert shown[:-1].isprintable()
    assert json.loads(shown) == json.loads(told)


def test_json_is_the_very_text_of_the_daemon(daemon: StandIn, roundsman: Run) -> None:
    for command, path in (("status", "/1/page"), ("plan", "/1/plan"), ("explain node2", "/1/explain/node2")):
        code, out, err = roundsman(*command.split(), "-o", "json")
        assert (code, err) == (0, "")
        assert out.encode() == daemon.answers["GET", path] + b"\n"  # type: ignore[operator]
    assert '"serial":12345678901234567890,"load":0.10' in roundsman("status", "-o", "json")[1]


def test_a_plan_names_objects_and_their_order(daemon: StandIn, roundsman: Run) -> None:
    code, out, _ = roundsman("plan")
    assert code == 0
    assert "migrate instance1 from node2 to node1" in out
    assert words(out, "2 ")[:5] == ["2", "set", "node2", "offline", "1"]
    assert "u-node" not in out


def test_a_plan_shows_refusals_and_what_would_unblock_them(daemon: StandIn, roundsman: Run) -> None:
    _, out, _ = roundsman("plan")
    assert "instance2  node1 has no room  1024 MiB on node1" in out
    assert "the loss of node1" in out


def test_a_plan_says_when_jobs_of_rounds_before_have_not_ended(daemon: StandIn, roundsman: Run) -> None:
    assert "Balancing waits for these jobs" in roundsman("plan")[1]
    daemon.answers.update(canned.answers(at_work=False))
    assert "waits" not in roundsman("plan")[1]


def test_pause_and_resume_tell_the_daemon(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/pause", {"paused": "new switch"})
    told = "Maintenance is paused: new switch. It goes on with `roundsman resume`.\n"
    assert roundsman("pause", "new switch") == (0, told, "")
    daemon.put("PUT", "/2/pause", {"paused": "new switch (until then)"})
    told = "Maintenance is paused: new switch (until then). It goes on then, or with `roundsman resume`.\n"
    assert roundsman("pause", "new switch", "--for", "90m") == (0, told, "")
    daemon.put("PUT", "/2/pause", {"paused": ""})
    assert roundsman("resume")[0] == 0
    pauses = [{"reason": "new switch"}, {"reason": "new switch", "seconds": 5400}, {"reason": ""}]
    assert daemon.asked("PUT") == [("/2/pause", pause) for pause in pauses]
    assert roundsman("pause", "new switch", "--for", "2d")[0] != 0
    assert roundsman("pause", "new switch", "--for", "0")[0] != 0, "no pause without an end"
    assert len(daemon.asked("PUT")) == 3


@pytest.mark.parametrize(
    ("paused", "told"),
    [
        ("", "Maintenance goes on.\n"),
        ("an emergency power off stands", "Maintenance stays paused: an emergency power off stands\n"),
    ],
)
def test_resume_tells_what_holds_all_the_same(paused: str, told: str, daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/pause", {})
    daemon.put("GET", "/1/page", {"paused": paused})
    assert roundsman("resume") == (0, told, "")


def test_a_resume_that_ended_the_read_only_mode_says_that_the_pause_is_left(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("PUT", "/2/pause", {"paused": "tea"})
    daemon.put("GET", "/1/page", {"paused": "tea"})
    code, out, _ = roundsman("resume")
    assert (code, out.splitlines()[0].startswith("roundsmand is not read-only any more; run this again")) == (0, True)
    assert out.endswith("\nMaintenance stays paused: tea\n")


def test_a_pause_without_a_reason_is_refused(daemon: StandIn, roundsman: Run) -> None:
    assert roundsman("pause", " ")[0] == 2
    assert daemon.asked("PUT") == []


def test_explain_says_what_happens_what_is_refused_and_what_to_do(daemon: StandIn, roundsman: Run) -> None:
    _, out, _ = roundsman("explain", "node2")
    assert "node2, in group default, is drained; its power is on." in out
    assert "Job 12 (set node2 offline): queued, after job 11." in out
    assert "Refused for instance2: node1 has no room. What would unblock it: 1024 MiB on node1." in out
    assert "`roundsman incident cancel 3f2a91c0`" in out


def test_incidents_and_jobs_are_explained_too(daemon: StandIn, roundsman: Run) -> None:
    del daemon
    of_node = roundsman("explain", "node2")
    assert roundsman("explain", "3f2a91c0") == roundsman("explain", "3f2a") == of_node
    assert roundsman("explain", "10") == roundsman("jobs", "info", "10")
    assert roundsman("explain", "beef")[0] == 1


def test_a_failed_poll_is_shown(daemon: StandIn, roundsman: Run) -> None:
    assert "the playbook diagnose.yml has no hosts" in roundsman("status")[1]


def test_the_tags_of_finished_incidents_are_shown_while_they_are_on_the_node(daemon: StandIn, roundsman: Run) -> None:
    assert f"Tag maintd:repairready:{canned.MENDED} is on node3." in roundsman("status")[1]
    state = json.loads(canned.answers()["GET", "/1/page"])
    for one in state["nodes"]:
        one["tags"] = []
    daemon.put("GET", "/1/page", state)
    assert "maintd:" not in roundsman("status")[1]


@pytest.mark.parametrize(("command", "path"), [("status", "/1/page"), ("plan", "/1/plan")])
def test_refusals_for_the_same_reason_are_one_row(command: str, path: str, daemon: StandIn, roundsman: Run) -> None:
    value = json.loads(canned.answers()["GET", path])
    value["refusals"] = [
        *(refusal(f"instance{number}", "no room") for number in range(1, 13)),
        *(refusal(name, "storm") for name in ("node1", "node2")),
        refusal("instance13", "storm"),
        refusal("instance14", "no room", unblock="time"),
    ]
    daemon.put("GET", path, value)
    _, out, _ = roundsman(command)
    assert "12 instances: instance1, instance2, …  no room  nothing\n" in out
    assert "\n2 nodes: node1, node2 " in out
    assert words(out, "instance13 ") == ["instance13", "storm", "nothing"]
    assert words(out, "instance14 ") == ["instance14", "no", "room", "time"]


def refusal(subject: str, reason: str, *, unblock: str = "") -> dict[str, object]:
    return {"subject": subject, "reason": reason, "unblock": unblock, "incident": None, "permanent": False}


def test_the_help_of_pause_says_that_submitted_jobs_go_on(roundsman: Run) -> None:
    assert "jobs which are submitted already go on" in " ".join(roundsman("pause", "--help")[1].split())


def test_only_steps_that_succeeded_count(daemon: StandIn, roundsman: Run) -> None:
    one = json.loads(canned.answers()["GET", "/2/jobs/10"])
    steps = [one["opcodes"][0] | {"status": status} for status in ("success", "error", "canceled", "queued")]
    daemon.put("GET", "/2/jobs", [one | {"opcodes": steps, "status": "error"}])
    assert words(roundsman("jobs", "list")[1], "10 ")[:3] == ["10", "error", "1/4"]


def test_a_plan_names_what_holds_maintenance_instead_of_nothing_to_do(daemon: StandIn, roundsman: Run) -> None:
    told = json.loads(canned.answers()["GET", "/1/plan"])
    daemon.put("GET", "/1/plan", {**told, "jobs": [], "held": "new switch"})
    out = roundsman("plan")[1]
    assert "Maintenance is held: new switch" in out
    assert "nothing to do" not in out


def test_the_status_says_what_fails_in_the_daemon(daemon: StandIn, roundsman: Run) -> None:
    failure = {
        "part": "report intake",
        "since": 80.0,
        "last": 190.0,
        "times": 3,
        "text": "no room",
        "remedy": "free it",
    }
    state = json.loads(canned.answers()["GET", "/1/page"]) | {"failing": [failure]}
    daemon.put("GET", "/1/page", state)
    said = roundsman("status")[1]
    assert "roundsmand: report intake fails (3 times" in said
    assert "Remedy: free it." in said


def test_a_plan_names_the_jobs_of_the_round_at_work_and_then_what_follows(daemon: StandIn, roundsman: Run) -> None:
    plan = json.loads(canned.answers()["GET", "/1/plan"]) | {"jobs": [], "held": "", "waits_for_round": True}
    job = canned.job(20, "migrate", {"instance": "i1"}, status=values.Status.RUNNING)
    state = json.loads(canned.answers()["GET", "/1/page"]) | {"at_work": True, "round": 3, "jobs": [job]}
    daemon.put("GET", "/1/plan", plan)
    daemon.put("GET", "/1/page", state)

    out = roundsman("plan")[1]

    assert "Round 3 is at work: 0 of 1 jobs have ended" in out
    assert out.index("20 ") < out.index("What follows") < out.index("There is nothing more to do now.")
    daemon.put("GET", "/1/plan", plan | {"waits_for_round": False})
    out = roundsman("plan")[1]
    assert "at work" not in out
    assert "There is nothing to do now." in out
