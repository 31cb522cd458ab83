from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import task_log

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TASK = "Wait until the replicas are equal"


def retried(*progress: float, **res: Any) -> dict[str, Any]:
    disks = [{"progress": each, "path": "/dev/drbd0"} for each in progress]
    told = {"disks": disks, "progress": min(progress, default=100.0), "attempts": 1, **res}
    delegated = {"_ansible_delegated_vars": {"ansible_delegated_host": "node2"}}
    return {"event": "runner_retry", "event_data": {"host": "localhost", "task": TASK, "res": {**told, **delegated}}}


def test_a_wait_for_copies_tells_the_percent_of_each_disk_and_how_long_it_still_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    log = task_log.Writer(tmp_path)
    log.event(retried(10.0, 100.0))
    now += 60
    log.event(retried(20.0, 100.0))
    now += 60
    log.event(retried(20.0))
    texts = [entry[3] for entry in task_log.entries(tmp_path, first=1)]
    assert texts == [
        f"node2: {TASK}: disk 0 is 10 % in sync, disk 1 100 %",
        f"node2: {TASK}: disk 0 is 20 % in sync, disk 1 100 %, expected to take 8 min more",
        f"node2: {TASK}: disk 0 is 20 % in sync, expected to take 16 min more",
    ]
    assert {entry[2] for entry in task_log.entries(tmp_path, first=1)} == {"progress"}


def test_other_retries_and_answers_that_nodes_make_up_are_no_progress(tmp_path: Path) -> None:
    log = task_log.Writer(tmp_path)
    made_up: list[Any] = [None, [{}], [{"progress": "x"}], [3], "x"]
    for disks in made_up:
        log.event(retried(50.0, disks=disks))
    log.event(retried(50.0, censored="x"))
    log.event(retried(0.0))
    log.event(retried(0.0))
    texts = [entry[3] for entry in task_log.entries(tmp_path, first=1)]
    assert texts == [f"node2: {TASK}: disk 0 is 0 % in sync"] * 2


def test_a_clock_that_is_set_back_makes_no_wait_negative_and_a_crawl_is_no_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, monotonic = 5000.0, 10.0
    monkeypatch.setattr("time.time_ns", lambda: int(wall * 1e9))
    monkeypatch.setattr("time.monotonic", lambda: monotonic)
    log = task_log.Writer(tmp_path)
    log.event(retried(10.0))
    wall, monotonic = 1000.0, 70.0
    log.event(retried(20.0))
    log.event(retried(10.0001))
    texts = [entry[3] for entry in task_log.entries(tmp_path, first=1)]
    assert texts[1].endswith("20 % in sync, expected to take 8 min more")
    assert texts[2].endswith("10 % in sync"), "years say nothing"
