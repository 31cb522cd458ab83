from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power, power_record

from tests.unit.daemon.cli import canned, printed, terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN
SILENT = power.Failure(power.Reason.TIMEOUT, "the BMC did not answer")
NO_TERMINAL = "roundsman: confirmation required, but standard input is not a terminal: "


def row(name: str, command: str, *seen: power.State, before: power.State = ON, sent: bool = True) -> dict[str, Any]:
    failure = SILENT if before is UNKNOWN else None
    attempts = [power.Attempt(power.Answer.ACCEPTED)] * (sent and command != "status")
    told = power.judge(
        power.Command(command), name=name, before=before, seen=seen, attempts=attempts, seconds=0.5, failure=failure
    )
    return told.as_dict()


@pytest.fixture
def ends(daemon: StandIn) -> Callable[..., None]:
    """Let the next power or health job end with these rows."""

    def end(params: dict[str, Any], *rows: dict[str, Any], kind: str = "power", more: int = 0) -> None:
        is_good = all(one["reason"] is None for one in rows)
        status = values.Status.SUCCESS if is_good else values.Status.ERROR
        told = canned.job(20, kind, params, status=status, text="" if is_good else "not all is confirmed")
        leaves = canned.job(20, "node_role", {"node": "u-node6", "offline": True}, status=status)
        told |= {"results": [list(rows)], "names": {"u-node6": "node6"}}
        told["opcodes"] += leaves["opcodes"] * more
        for path in ("/2/power", "/2/health"):
            daemon.put("PUT", path, {"id": 20})
        daemon.put("GET", "/2/jobs/20/wait", told)

    return end


def held(found: tuple[int, str, str], name: str) -> None:
    assert printed.of(found) == printed.text(name)


def types(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", terminal.Terminal(answer))


def test_the_status_is_the_table_of_the_seed_and_what_is_unknown_comes_last_and_loud(
    ends: Callable[..., None], roundsman: Run
) -> None:
    known = [(1, ON), (2, OFF), (3, ON), (4, UNKNOWN)]
    rows = [row(f"node{number}.example.com", "status", before=state) for number, state in known]
    ends({"command": "status", "nodes": []}, *rows)
    held(roundsman("node", "power", "status", *(one["name"] for one in rows)), "power-status")
    assert json.loads(roundsman("node", "power", "status", "node1", "-o", "json")[1]) == rows


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("power", "status"), ["node1", "node2", "node3", "node6"]),
        (("power", "on", "--yes"), ["node1", "node2", "node3", "node6"]),
        (("power", "on", "--all", "--yes"), ["node1", "node2", "node3", "node6"]),
        (("power", "on", "--all", "--force"), ["node1", "node2", "node3", "node6"]),
        (("power", "off", "--all", "--force"), ["node2", "node3", "node6"]),
        (("power", "cycle", "--all", "--force"), ["node2", "node3", "node6"]),
        (("power", "off", "--dry-run"), ["node2", "node3", "node6"]),
        (("health",), ["node1", "node2", "node3", "node6"]),
    ],
)
def test_without_names_all_nodes_are_meant_that_are_not_opted_out_and_the_master_keeps_its_power(
    words: tuple[str, ...], asked: list[str], daemon: StandIn, ends: Callable[..., None], roundsman: Run
) -> None:
    ends({"command": "on", "nodes": []})
    _, _, err = roundsman("node", *words, "--submit")
    assert daemon.asked("PUT")[0][1]["nodes"] == asked
    assert ("node1 is the master and keeps its power" in err) is ("node1" not in asked)


def test_without_any_node_with_oob_it_is_said_what_to_set(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("GET", "/1/nodes", [{"name": "node1", "powered": None, "role": "master"}])
    assert roundsman("node", "power", "status")[2] == (
        "roundsman: no node supports OOB commands: set the parameter oob_program of the cluster or of nodes\n"
    )


@pytest.mark.parametrize("command", ["on", "cycle"])
def test_for_a_whole_cluster_the_question_names_the_nodes(
    command: str,
    daemon: StandIn,
    ends: Callable[..., None],
    roundsman: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends({"command": command, "nodes": []})
    daemon.put("GET", "/1/instances", [])
    types(monkeypatch, "y\n")
    held(roundsman("node", "power", command, "--submit"), f"power-{command}-question")
    assert daemon.asked("PUT")[0][0] == "/2/power"


@pytest.mark.parametrize("words", [("on",), ("off", "node6"), ("cycle", "node6"), ("off",), ("cycle",)])
def test_power_is_not_changed_unasked(words: tuple[str, ...], daemon: StandIn, roundsman: Run) -> None:
    daemon.put("GET", "/1/instances", [])
    code, _, err = roundsman("node", "power", *words)
    assert (code, err.splitlines()[-1]) == (1, f"{NO_TERMINAL}add --yes")
    assert daemon.asked("PUT") == []


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("off", "--force"), "--force"),
        (("off", "--force", "--ignore-status"), "--force"),
        (("off", "--force", "--yes"), "--force"),
        (("off", "--yes"), "--yes"),
        (("cycle", "--force"), "--force"),
        (("cycle", "--yes"), "--yes"),
        (("on", "--force"), "--force"),
    ],
)
def test_all_nodes_are_never_meant_by_mistake(
    words: tuple[str, ...], flag: str, daemon: StandIn, roundsman: Run
) -> None:
    daemon.put("GET", "/1/instances", [])
    code, out, err = roundsman("node", "power", *words)
    assert (code, out) == (1, "")
    assert err == f"roundsman: {flag} without node names is refused: name the nodes, or add --all for all of them\n"
    assert daemon.asked("PUT") == []


@pytest.mark.parametrize(
    ("command", "flags"), [("on", ["--force"]), ("off", ["--yes", "--force"]), ("cycle", ["--yes", "--force"])]
)
def test_the_help_says_which_options_need_names_or_all(command: str, flags: list[str], roundsman: Run) -> None:
    text = " ".join(roundsman("node", "power", command, "--help")[1].replace("│", " ").split())
    for flag in ("--yes", "--force"):
        shown = text.partition(f" {flag} ")[2].partition(" --")[0]
        needs = "needs node names or" in shown
        assert needs is (flag in flags), (flag, shown)


def test_all_and_names_exclude_each_other(daemon: StandIn, roundsman: Run) -> None:
    code, _, err = roundsman("node", "power", "off", "node2", "--all", "--force")
    assert (code, err) == (1, "roundsman: give node names or --all, not both\n")
    assert daemon.asked("PUT") == []


@pytest.mark.parametrize(
    ("name", "told"),
    [("node9", "there is no node 'node9'"), ("node4", "Node node4 does not support OOB commands")],
)
def test_nobody_is_asked_about_a_node_that_cannot_lose_its_power_here(
    name: str, told: str, daemon: StandIn, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(monkeypatch, "yes\n")
    assert roundsman("node", "power", "cycle", "node2", name) == (1, "", f"roundsman: {told}\n")
    assert daemon.asked("PUT") == []


def test_named_nodes_are_powered_on_and_read_without_a_question(
    daemon: StandIn, ends: Callable[..., None], roundsman: Run
) -> None:
    ends({"command": "on", "node": "u-node6"}, row("node6", "on", ON, before=OFF))
    held(roundsman("node", "power", "on", "node6", "--power-delay", "0.5"), "power-on")
    assert daemon.asked("PUT") == [("/2/power", {"command": "on", "nodes": ["node6"], "power_delay": 0.5})]


@pytest.mark.parametrize("options", [(), ("--yes",)])
def test_who_runs_instances_loses_its_power_only_after_a_typed_yes(
    options: tuple[str, ...],
    daemon: StandIn,
    ends: Callable[..., None],
    roundsman: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends({"command": "cycle", "nodes": []})
    assert roundsman("node", "power", "cycle", "node1", "node2", *options)[2].splitlines()[-1] == (
        f"{NO_TERMINAL}add --force"
    )
    types(monkeypatch, "y\n")
    assert roundsman("node", "power", "cycle", "node1", "node2", *options)[0] == 1
    assert daemon.asked("PUT") == []
    types(monkeypatch, "yes\n")
    held(roundsman("node", "power", "cycle", "node1", "node2", "--submit", *options), "power-cycle-running")
    body = {"command": "cycle", "nodes": ["node1", "node2"], "force": True}
    assert daemon.asked("PUT") == [("/2/power", body)]


def test_force_asks_nothing_and_skips_the_checks(daemon: StandIn, ends: Callable[..., None], roundsman: Run) -> None:
    ends({"command": "off", "nodes": []})
    assert roundsman("node", "power", "off", "node2", "--force", "--submit") == (0, "20\n", "")
    body = {"command": "off", "nodes": ["node2"], "force": True, "offline": True}
    assert daemon.asked("PUT") == [("/2/power", body)]


def test_what_is_not_confirmed_comes_last_and_loud(ends: Callable[..., None], roundsman: Run) -> None:
    rows = [
        row("node2", "off", OFF),
        row("node3", "off", before=OFF, sent=False),
        row("node4", "off", ON),
        row("node5", "off", before=UNKNOWN, sent=False),
    ]
    ends({"command": "off", "nodes": []}, *rows)
    names = [one["name"] for one in rows]
    held(roundsman("node", "power", "off", *names, "--force"), "power-off-unconfirmed")
    code, out, err = roundsman("node", "power", "off", *names, "--force", "-o", "json")
    assert (code, json.loads(out)) == (1, rows)
    assert err.startswith("NOT CONFIRMED: 2 of 4 nodes\n")


def test_off_takes_nodes_out_of_service_and_says_how_they_come_back(
    daemon: StandIn, ends: Callable[..., None], roundsman: Run
) -> None:
    ends({"command": "off", "node": "u-node6"}, row("node6", "off", OFF), more=1)
    held(roundsman("node", "power", "off", "node6", "--yes"), "power-off")
    roundsman("node", "power", "off", "node6", "--yes", "--ignore-status")
    assert [body["offline"] for _, body in daemon.asked("PUT")] == [True, False]


def test_a_dry_run_asks_nothing_and_tells_what_would_change(
    daemon: StandIn, ends: Callable[..., None], roundsman: Run
) -> None:
    status = [row("node2", "status", before=ON), row("node3", "status", before=OFF)]
    told = [power_record.foresee(power.parse_outcome(one), command=power.Command.OFF).as_dict() for one in status]
    ends({"command": "off", "nodes": [], "check": True}, *told)
    held(roundsman("node", "power", "off", "node2", "node3", "--dry-run"), "power-off-dry-run")
    assert daemon.queries[0] == "dry-run=1"
    assert daemon.asked("PUT")[0][1]["force"] is False


def test_a_job_without_rows_tells_why(daemon: StandIn, roundsman: Run) -> None:
    text = "Node node4 does not support OOB commands"
    bad = canned.job(20, "power", {"command": "on", "node": "u-node4"}, status=values.Status.ERROR, text=text)
    daemon.put("PUT", "/2/power", {"id": 20})
    daemon.put("GET", "/2/jobs/20/wait", {**bad, "results": [None]})
    found = roundsman("node", "power", "on", "node4")
    assert found == (1, "", f"roundsman: job 20 ended as error: {text}\n")


def test_health_is_an_item_a_line_and_a_bmc_that_was_not_read_comes_last(
    ends: Callable[..., None], roundsman: Run
) -> None:
    good = {"reason": None, "text": None}
    rows = [
        {"name": "node2", "status": "OK", "items": [["FAN 1 RPM", "OK"]], **good},
        {"name": "node3", "status": "CRITICAL", "items": [["Ambient Temp", "WARNING"], ["PS", "CRITICAL"]], **good},
        {"name": "node6", "status": "UNKNOWN", "items": [], "reason": "timeout", "text": "no answer within 60 s"},
    ]
    ends({"nodes": []}, *rows, kind="health")
    held(roundsman("node", "health", "node2", "node3", "node6"), "health")
    assert json.loads(roundsman("node", "health", "node2", "-o", "json")[1]) == rows


def test_info_shows_powered_only_where_there_is_oob(daemon: StandIn, roundsman: Run) -> None:
    for name, line in (("node3", ["Powered", "off", "(on", "record)"]), ("node2", ["Powered", "on", "(on", "record)"])):
        assert line in [one.split() for one in roundsman("node", "info", name)[1].splitlines()]
    for name in ("node4", "node5"):
        assert "ower" not in roundsman("node", "info", name)[1]
