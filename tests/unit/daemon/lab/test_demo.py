from __future__ import annotations

import io
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import building, demo, processes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from rich.console import Console

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path


class Watched(demo.Demo):
    """A demonstration whose daemon is two values."""

    def __init__(self, folder: Path) -> None:
        self.text = io.StringIO()
        super().__init__(twins.lab(folder, nodes=1, instances=0), Console(file=self.text, width=200))
        self.incidents: list[dict[str, Any]] = []
        self.jobs: list[dict[str, Any]] = []

    def _get(self, path: str) -> Any:
        return {"/1/status": self.incidents, "/1/jobs": self.jobs}[path]

    def told(self) -> list[str]:
        return [line.partition(" s  ")[2].strip() for line in self.text.getvalue().splitlines()]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def incident(name: str, status: str, *jobs: int) -> dict[str, Any]:
    return {"id": f"id-{name}", "node_name": name, "repair-status": status, "jobs": list(jobs), "reason": "no room"}


def job(number: int, status: str) -> dict[str, Any]:
    step = {"kind": "diagnose", "what": "diagnose it", "status": status, "text": ""}
    return {"id": number, "names": {}, "opcodes": [step]}


def test_it_is_given_up_only_if_no_step_comes_for_long(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks = [0.0], iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Watched, "_get", lambda _self, _path: {"number": 1})

    def look() -> bool:
        now[0] += demo.PATIENCE - 1
        if (number := next(looks)) < 5:
            watched._say(f"step {number}")
        return False

    with pytest.raises(errors.Failed, match=r"nothing has happened for 300 s; see .*daemon\.log"):
        watched._until(look)
    assert len(watched.told()) == 5


def test_both_incidents_are_followed_at_the_same_time(watched: Watched) -> None:
    watched.incidents = [incident("node3", "noted"), incident("node5", "noted")]
    assert watched.both_ended() is None
    watched.incidents = [incident("node3", "pending", 1), incident("node5", "completed", 2)]
    watched.jobs = [job(1, "running"), job(2, "success")]
    assert watched.both_ended() is None
    watched.incidents[0] = incident("node3", "completed", 1)
    watched.jobs[0] = job(1, "success")
    found = watched.both_ended()
    assert found is not None
    assert sorted(found) == ["node3", "node5"]
    assert watched.told() == [
        "incident id-node3 of node3 is noted",
        "incident id-node5 of node5 is noted",
        "incident id-node3 of node3 is pending",
        "job 1: diagnose it: running",
        "incident id-node5 of node5 is pending",
        "job 2: diagnose it: success",
        "incident id-node5 of node5 is completed",
        "job 1: diagnose it: success",
        "incident id-node3 of node3 is completed",
    ]


def test_one_incident_alone_is_not_both(watched: Watched) -> None:
    watched.incidents = [incident("node3", "completed")]
    assert watched.both_ended() is None


def test_an_incident_that_fails_ends_the_demonstration(watched: Watched) -> None:
    watched.incidents = [incident("node3", "failed")]
    with pytest.raises(errors.Failed, match="the incident of node3 failed: no room"):
        watched.both_ended()


def test_a_demonstration_that_is_terminated_brings_its_lab_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []
    monkeypatch.setattr(sys, "argv", ["demo", "--dir", str(tmp_path / "demo")])
    lab = twins.lab(tmp_path / "lab", nodes=1, instances=0)
    monkeypatch.setattr(building, "build", lambda *_, **__: lab)
    for name in ("start_bmcs", "start_daemon"):
        monkeypatch.setattr(processes, name, lambda _: None)
    monkeypatch.setattr(processes, "down", ended.append)
    monkeypatch.setattr(demo.Demo, "run", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    try:
        # Without a handler of its own the demonstration would end the test run.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert demo.main() == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [lab]
