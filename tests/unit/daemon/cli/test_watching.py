from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

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


def end(status: str, text: str) -> dict[str, object]:
    return {"id": 10, "status": status, "text": text, "opcodes": [], "names": {}, "reason": [], "depends": []}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
