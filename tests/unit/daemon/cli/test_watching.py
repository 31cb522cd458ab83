from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs.values import Status

from tests.unit.daemon.cli import canned, stand_in

if TYPE_CHECKING:
    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

COLLECTIONS = Path(__file__).resolve().parents[4] / "playbooks/collections"
START = "from ansible_collections.roundsman.cluster.daemon.cli.main import main; main()"
STARTED = [1, [1000, 0], "started", "node2: Ask the BMC"]
ENDED = [2, [1001, 0], "changed", "node2: Ask the BMC: changed (0.7 s)"]
SKIPPED = [3, [1001, 0], "skipped", "Look: skipped"]
LAST = [4, [1002, 0], "failed", "Tell: failed: no \x1b[31m more"]


def log(status: str, *entries: object) -> dict[str, object]:
    return {"status": status, "final": status not in {"running", "waiting"}, "entries": list(entries)}


def lines(out: str) -> list[str]:
    return [one.partition(" ")[2] for one in out.splitlines()]


def test_tasks_are_shown_as_they_come_and_the_end_last(daemon: StandIn, roundsman: Run) -> None:
    answers = (log("running", STARTED), log("running", ENDED, SKIPPED), log("error", LAST), log("error"))
    daemon.put("GET", "/2/jobs/10/log", answers)
    daemon.put("GET", "/2/jobs/10/wait", end("error", "too hot"))
    code, out, err = roundsman("jobs", "watch", "10")
    assert (code, err.partition(": ")[2]) == (1, "job 10 ended as error: too hot\n")
    assert lines(out) == ["node2: Ask the BMC ...", ENDED[3], "Tell: failed: no \N{REPLACEMENT CHARACTER}[31m more"]


def test_the_start_of_a_task_that_has_ended_already_is_not_shown(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("GET", "/2/jobs/10/log", (log("success", STARTED, ENDED), log("success")))
    daemon.put("GET", "/2/jobs/10/wait", end("success", ""))
    code, out, _ = roundsman("jobs", "watch", "10")
    assert (code, lines(out)[0]) == (0, ENDED[3])


def test_a_canceled_job_has_an_exit_status_of_its_own(daemon: StandIn, roundsman: Run) -> None:
    daemon.put("GET", "/2/jobs/10/log", log("canceled"))
    assert roundsman("jobs", "watch", "10") == (3, "", "roundsman: job 10 was canceled\n")


def in_terminal(root: Path, *words: str) -> tuple[int, str, str]:
    """Run the command with a terminal of sixty columns as its standard error."""
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "TERM": "xterm", "COLUMNS": "60"}
    terminal, inside = os.openpty()
    command = [sys.executable, "-c", START, "--dir", str(root), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inside, env=environment, text=True) as child:
        os.close(inside)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal ends that nobody has open any more
            while part := os.read(terminal, 10_000):
                shown += part
        os.close(terminal)
        assert child.stdout is not None
        out = child.stdout.read()
    return child.returncode, out, shown.decode()


def test_on_a_terminal_one_line_tells_which_task_is_at_work(tmp_path: Path) -> None:
    params = {"node": "u-node2", "command": "status"}
    running, done = (canned.job(10, "power", params, status=one) for one in (Status.RUNNING, Status.SUCCESS))
    with stand_in.serve(tmp_path) as server:
        server.put("PUT", "/2/power", {"id": 10})
        reads_on = [{"name": "node2", "before": "on", "after": "on", "reason": None}]
        server.put("GET", "/2/jobs/10", (running, running, running, {**done, "results": [reads_on]}))
        long = [5, [1003, 0], "started", "node2: " + "x" * 100]
        server.put("GET", "/2/jobs/10/log", (log("running", STARTED), log("running", SKIPPED), log("running", long)))
        code, out, shown = in_terminal(tmp_path, "node", "power", "status", "node2")
        assert [query for query in server.queries if "after" in query] == [
            f"after={after}&seconds=1.0" for after in (0, 1, 3)
        ]
    assert (code, out) == (0, "Node   Power Status\nnode2  on\n")
    assert "job 10: power status node2: running, step 0/1: node2: Ask…" in shown
    assert "\n" not in shown.replace("\r\n", "", 1)


def test_as_json_nothing_is_shown_but_the_job(tmp_path: Path) -> None:
    done = canned.job(10, "cluster_modify", {"fields": {}}, status=Status.SUCCESS)
    with stand_in.serve(tmp_path) as server:
        server.put("PUT", "/2/modify", 10)
        server.put("GET", "/2/jobs/10/wait", done)
        server.put("GET", "/2/jobs/10", done)
        code, out, shown = in_terminal(tmp_path, "cluster", "modify", "round_interval=60", "-o", "json")
    assert (code, json.loads(out), shown) == (0, done, "")


def end(status: str, text: str) -> dict[str, object]:
    return {"id": 10, "status": status, "text": text, "opcodes": [], "names": {}, "reason": [], "depends": []}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
