from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import process, recovery, settling
from ansible_collections.roundsman.cluster.plugins.plugin_utils import installed_version, run_group, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract

LEFT = "import os, sys, time; os.write(1, b'%s %d\\n' % (sys.argv[1].encode(), os.getpid())); time.sleep(60)"
TREE = """
import subprocess, sys, time
def left(name, **more):
    subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1], name], **more)
left("plain")
left("gone", start_new_session=True)
left("bare", env={}, start_new_session=True)
time.sleep(60)
"""


WRITTEN = ("inventory.json", "granted.json", "opcode.json")
"""What the daemon writes for the processes of a run."""


def _spec(run: Path) -> process.Spec:
    return process.Spec(
        kind="startup",
        playbook=run / "step.yml",
        variables={"step": {}},
        environment={"ROUNDSMAN_ROOT": str(run)},
        inventory=b"{}",
        granted={"node/n1": "exclusive"},
        time_limit=60,
        files={"report.json": "{}"},
    )


@pytest.mark.parametrize(
    ("files", "left"),
    [
        (set(), recovery.Traces()),
        ({"livelock"}, recovery.Traces()),
        ({"livelock", "began"}, recovery.Traces(has_begun=True)),
        ({"livelock", "began", "result.json"}, recovery.Traces(has_begun=True, result=recovery.Result.READABLE)),
    ],
)
def test_what_a_run_has_left_are_its_livelock_and_its_files(
    tmp_path: Path, files: set[str], left: recovery.Traces
) -> None:
    for name in files - {"result.json"}:
        (tmp_path / name).touch()
    if "result.json" in files:
        run_records.conclude(tmp_path, {"status": "success"})
    assert process.traces(tmp_path) == left
    descriptor = os.open(tmp_path / "livelock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert process.traces(tmp_path) == dataclasses.replace(left, is_alive=True)
    os.close(descriptor)
    assert process.traces(tmp_path) == left


def test_every_process_of_a_run_is_ended_and_no_other(tmp_path: Path) -> None:
    other = {**os.environ, process.RUN_VARIABLE: str(tmp_path / "1")}
    mine = {**os.environ, process.RUN_VARIABLE: str(tmp_path)}
    command = [sys.executable, "-S", "-c", TREE, LEFT]
    with (
        subprocess.Popen(["sleep", "60"], env=other) as stranger,
        subprocess.Popen(command, env=mine, stdout=subprocess.PIPE, text=True) as root,
    ):
        assert root.stdout is not None
        said = {root.stdout.readline().split()[0] for _child in range(3)}
        ended = process.end_all_of(tmp_path)
        root.kill()
        # Their end is the end of the output: the pipe closes when the last of them is gone.
        left = root.stdout.read()
        is_left_alone = stranger.poll() is None
        stranger.kill()
    assert (said, ended >= 4, left, is_left_alone) == ({"plain", "gone", "bare"}, True, "", True)


def test_a_run_without_processes_has_none_to_end(tmp_path: Path) -> None:
    assert process.end_all_of(tmp_path) == 0


def overdue(folder: Path) -> process.Spec:
    """A run whose process is stopped as soon as it began, so that its own time limit never comes."""
    (folder / "play.yml").write_text(
        "[{hosts: localhost, gather_facts: false, tasks: [{ansible.builtin.command: sleep 600}]}]"
    )
    return process.Spec(
        kind="test",
        playbook=folder / "play.yml",
        variables={},
        environment={"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "ROUNDSMAN_ROOT": str(folder)},
        inventory=json.dumps({"all": {"hosts": {"localhost": {"ansible_connection": "local"}}}}).encode(),
        granted={},
        time_limit=0,
    )


@pytest.mark.parametrize("is_adopted", [False, True])
def test_a_run_whose_process_is_stopped_is_killed_from_outside_and_settled_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_adopted: bool
) -> None:
    monkeypatch.setattr(process, "MARGIN", 0.0)
    monkeypatch.setattr(process, "SHORTEST_WAIT", 0.1)
    run = tmp_path / "1/0"

    async def scenario() -> settling.Settlement:
        processes = process.Processes()
        processes.start(run, overdue(tmp_path))
        child = processes.children[run]
        os.kill(child.pid, signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, child.pid, os.WSTOPPED)
        (run / "began").touch()
        waiting = process.Processes() if is_adopted else processes
        await asyncio.wait_for(waiting.ended(run), 60)
        found = await settling.settle(run)
        # Looked at from outside: no process of the run is left.
        assert child.wait(60) == -signal.SIGKILL
        return found

    found = asyncio.run(scenario())
    assert not found.succeeded
    assert found.text == (
        "its process did not end at its time limit (it hung or was stopped), and was killed: "
        "it is lost, and not repeated"
    )
    assert run_group.members(run) == frozenset()


def test_processes_that_cannot_be_killed_hold_neither_the_loop_nor_the_threads_that_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()

    def stuck(_run: Path) -> run_group.Ended:
        is_over.wait(60)
        return run_group.Ended(1, frozenset({1}))

    monkeypatch.setattr(run_group, "end", stuck)

    async def scenario() -> None:
        endings = [asyncio.create_task(process.end_run(tmp_path / str(number))) for number in range(50)]
        await asyncio.sleep(0)
        try:
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "written"), 20) == "written"
            assert not any(ending.done() for ending in endings)
        finally:
            is_over.set()
        await asyncio.gather(*endings)

    asyncio.run(scenario())


def test_the_time_that_an_adopted_run_has_left_is_counted_from_its_start(tmp_path: Path) -> None:
    (tmp_path / "opcode.json").write_text(json.dumps({"time_limit": 100, "started": time.monotonic() - 130}))
    left = process._seconds_left(tmp_path)
    assert left is not None
    assert process.SHORTEST_WAIT <= left <= 100 + process.MARGIN - 130
    (tmp_path / "opcode.json").write_text(json.dumps({"time_limit": 100, "started": time.monotonic() - 10_000}))
    assert process._seconds_left(tmp_path) == process.SHORTEST_WAIT
    (tmp_path / "opcode.json").write_text("{}")
    assert process._seconds_left(tmp_path) is None


def test_processes_killed_for_lack_of_memory_are_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    processes = process.Processes(oom_kills=2)
    for count in (2, 5, 5):
        processes.log_oom_kills(count)
    assert [line.partition(";")[0] for line in caplog.messages] == [
        "out of memory: the kernel killed 3 processes of roundsmand and its jobs"
    ]


def test_the_process_of_a_run_holds_the_version_of_its_daemon_by_the_same_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = os.open(tmp_path / "in-use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_SH)
    monkeypatch.setattr(installed_version, "hold", lambda: lock)
    processes = process.Processes()
    processes.start(tmp_path / "run", overdue(tmp_path))
    (child,) = processes.children.values()
    os.kill(child.pid, signal.SIGSTOP)
    os.close(lock)
    with (tmp_path / "in-use").open("rb") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        child.kill()
        child.wait()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_only_the_processes_of_a_run_read_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    process.Processes._write(tmp_path, _spec(tmp_path))
    assert synced == []
    assert {path.name for path in tmp_path.iterdir()} == {*WRITTEN, "runner", "report.json"}
    assert json.loads((tmp_path / "granted.json").read_bytes()) == {"node/n1": "exclusive"}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_of_a_run_that_a_loss_of_power_emptied_counts_as_none(tmp_path: Path, name: str) -> None:
    process.Processes._write(tmp_path, _spec(tmp_path))
    (tmp_path / name).write_bytes(b"")
    assert process.traces(tmp_path) == recovery.Traces()
    assert recovery.recover(process.traces(tmp_path), execution=contract.Execution.PLAY) is recovery.Step.START
    asyncio.run(asyncio.wait_for(process.Processes().ended(tmp_path), 5))
    # It is started again, with all of its files.
    process.Processes._write(tmp_path, _spec(tmp_path))
    assert (tmp_path / name).read_bytes() != b""
