"""A daemon that ends by unforeseen exceptions: as a process, seen from outside."""

from __future__ import annotations

import dataclasses
import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon import __main__ as daemon_program
from ansible_collections.roundsman.cluster.daemon import abnormal_ends
from ansible_collections.roundsman.cluster.daemon.maintenance import polling
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import daemon_client, unsynced
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import livelock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    import httpx

FORKS = multiprocessing.get_context("forkserver")
"""Each daemon is a process of its own, forked from one that has imported what it takes."""
FORKS.set_forkserver_preload([daemon_program.__name__])


def run(switch: Path, arguments: list[str], said: Path, ready: Connection) -> None:
    """A daemon's process, from its start to its end; what it says on its standard error is in a file."""
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    once, write, sync = polling.Poll.once, store.write, os.fsync

    async def poll(self: polling.Poll) -> None:
        if self._configuration.current.maintenance.settings.diagnose_interval == 61:
            raise OverflowError("port must be 0-65535")
        await once(self)

    def fail(*given: Any) -> Any:
        if switch.exists() and not switch.read_text():
            raise MemoryError("no memory for 20 MiB")
        return write(*given)

    def fail_to_sync(descriptor: int) -> None:
        if switch.exists() and (code := switch.read_text()):
            raise OSError(int(code), os.strerror(int(code)))
        sync(descriptor)

    polling.Poll.once, store.write, os.fsync = poll, fail, fail_to_sync  # type: ignore[method-assign,assignment]
    sys.argv = ["roundsmand", *arguments, "--ready-fd", str(ready.fileno())]
    daemon_program.main()


class Daemon:
    """A daemon whose configuration cannot be written, for an unforeseen reason, while the file `switch` is there.

    With the number of an error in that file it is its disk that fails, with this error. With a `diagnose_interval` of
    61 its poll ends it.
    """

    def __init__(self, folder: Path) -> None:
        self.where = tree.Tree(twins.lab(folder).controller)
        settings = {"warm_ansible": False}
        self.where.daemon_settings.write_text(json.dumps(settings))
        self.switch = folder / "switch"
        self.said = folder / "said"
        self.process: ForkServerProcess | None = None

    def start(self) -> None:
        assert self._started() == b"ready\n", self.end()[1]

    def start_and_end(self) -> tuple[int, str]:
        """Start a daemon that ends before it serves."""
        assert self._started() == b""
        return self.end()

    def _started(self) -> bytes:
        ready, tell = FORKS.Pipe(duplex=False)
        arguments = ["--root", str(self.where.root), "--port", "0", "--bind", "127.0.0.1"]
        self.process = FORKS.Process(target=run, args=(self.switch, arguments, self.said, tell))
        self.process.start()
        tell.close()
        with os.fdopen(os.dup(ready.fileno()), "rb") as stream:
            return stream.readline()

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        with daemon_client.connected(self.where.socket, seconds=60) as client:
            return client.request(method, path, json=body)

    def roundsman(self, *arguments: str) -> tuple[int, str, str]:
        """The status, the output and the errors of a command."""
        command = [sys.executable, "-m", "ansible_collections.roundsman.cluster.daemon.cli.main"]
        done = subprocess.run(
            [*command, "--dir", str(self.where.root), *arguments],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def end(self) -> tuple[int, str]:
        assert self.process is not None
        self.process.join(60)
        assert self.process.exitcode is not None
        return self.process.exitcode, self.said.read_text()

    def stop(self) -> tuple[int, str]:
        assert self.process is not None
        self.process.terminate()
        return self.end()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    one = Daemon(tmp_path)
    yield one
    if one.process is not None and one.process.is_alive():
        one.process.kill()
        one.process.join()


def test_after_the_third_unforeseen_exception_in_five_minutes_the_next_start_is_read_only(daemon: Daemon) -> None:
    daemon.switch.touch()
    for _ in range(3):
        daemon.start()
        assert daemon.ask("GET", "/1/health").status_code == 200
        assert daemon.ask("PUT", "/2/pause", {"reason": "a new switch"}).status_code == 500
        status, said = daemon.end()
        assert status == 1
        assert "no memory for 20 MiB" in said
        assert "Traceback" in said
    daemon.start()
    health = daemon.ask("GET", "/1/health")
    assert health.status_code == 503
    (failure,) = health.json()["failures"]
    assert "ended 3 times within 5 minutes" in failure["text"]
    assert "no memory for 20 MiB" in failure["text"]
    assert "roundsman resume" in failure["remedy"]
    assert daemon.ask("GET", "/1/status").json() == []
    assert "ended 3 times" in daemon.ask("GET", "/1/page").json()["paused"]
    for method, path in (("POST", "/2/hold"), ("PUT", "/2/queue/drained"), ("GET", "/2/instances/instance1/info")):
        answer = daemon.ask(method, path, {})
        assert answer.status_code == 503, path
        assert "roundsman resume" in answer.json()["detail"]
    assert daemon.ask("PUT", "/2/pause", {"reason": "another"}).status_code == 409
    assert daemon.ask("PUT", "/2/query/node", {"fields": ["name"]}).status_code == 200
    daemon.switch.unlink()
    assert daemon.roundsman("resume") == (0, "Maintenance goes on.\n", "")
    assert daemon.ask("PUT", "/2/pause", {"reason": "a new switch"}).status_code == 200
    assert daemon.ask("GET", "/1/health").status_code == 200
    assert daemon.stop()[0] == 0
    assert not daemon.where.abnormal_ends.exists()


def test_what_a_read_only_daemon_says_removes_a_cause_that_is_in_the_configuration(
    daemon: Daemon, tmp_path: Path
) -> None:
    cluster = store.read(daemon.where.config)
    settings = dataclasses.replace(cluster.maintenance.settings, diagnose_interval=61)
    maintenance = dataclasses.replace(cluster.maintenance, settings=settings)
    store.write(daemon.where.config, dataclasses.replace(cluster, maintenance=maintenance, serial_no=99))
    ends = abnormal_ends.AbnormalEnds(daemon.where.abnormal_ends)
    for _ in range(3):
        ends.record("port must be 0-65535")
    daemon.start()
    status, _, told = daemon.roundsman("resume")
    assert status == 1
    assert "was resumed and ends again" in told
    assert "port must be 0-65535" in told
    assert daemon.end()[0] == 1
    daemon.start()
    (failure,) = daemon.ask("GET", "/1/health").json()["failures"]
    assert "it is read-only" in failure["text"]
    assert "`roundsman config import FILE`" in failure["remedy"]
    edited = tmp_path / "edited.json"
    assert daemon.roundsman("config", "export", str(edited))[0] == 0
    edited.write_text(edited.read_text().replace('"diagnose_interval": 61', '"diagnose_interval": 0'))
    status, _, told = daemon.roundsman("config", "import", str(edited), "--yes")
    assert (status, told) == (0, "")
    assert daemon.roundsman("resume") == (0, "Maintenance goes on.\n", "")
    assert daemon.ask("GET", "/1/health").status_code == 200
    assert daemon.ask("PUT", "/2/queue/drained", {"drained": False}).status_code == 200
    assert daemon.stop()[0] == 0
    assert not daemon.where.abnormal_ends.exists()


def test_a_play_that_holds_locks_records_what_is_true_while_the_daemon_is_read_only(daemon: Daemon) -> None:
    daemon.start()
    node = store.read(daemon.where.config).node("node2")
    lock, play = f"node/{node.uuid}", {"owner": "play-1", "livelock": "play-1"}
    record = {**play, "changes": [{"change": "node_powered", "node": node.uuid, "powered": False}]}
    with livelock(daemon.where, "play-1"), livelock(daemon.where, "play-2"):
        assert daemon.ask("POST", "/2/hold", {**play, "wants": {lock: "exclusive"}}).status_code == 200
        assert daemon.stop()[0] == 0
        ends = abnormal_ends.AbnormalEnds(daemon.where.abnormal_ends)
        for _ in range(3):
            ends.record("why")
        daemon.start()
        assert daemon.ask("GET", "/1/health").status_code == 503
        assert daemon.ask("POST", "/2/hold", {**play, "wants": {lock: "exclusive"}}).status_code == 503
        other = {**record, "owner": "play-2", "livelock": "play-2"}
        assert daemon.ask("POST", "/2/record", other).status_code == 409
        assert store.read(daemon.where.config).node("node2").powered
        assert daemon.ask("POST", "/2/record", record).json() == {"recorded": True}
        assert not store.read(daemon.where.config).node("node2").powered
        assert daemon.ask("GET", "/1/health").status_code == 503
        assert daemon.stop()[0] == 0


def test_a_record_that_ends_a_read_only_daemon_does_not_make_the_next_one_work(daemon: Daemon) -> None:
    now = [1000.0]
    path = daemon.where.abnormal_ends
    ends = abnormal_ends.AbnormalEnds(path, clock=lambda: now[0])
    for _ in range(3):
        ends.record("why")
    read_only = abnormal_ends.AbnormalEnds(path, clock=lambda: now[0])
    now[0] += 10 * abnormal_ends.WINDOW
    read_only.record("why again")
    assert abnormal_ends.ReadOnly(abnormal_ends.AbnormalEnds(path, clock=lambda: now[0])).reason
    resumed = abnormal_ends.AbnormalEnds(path, clock=lambda: now[0])
    abnormal_ends.AbnormalEnds(path, clock=lambda: now[0]).clear()
    resumed.record("why once more")
    assert len(abnormal_ends.AbnormalEnds(path, clock=lambda: now[0]).recent()) == 1


def test_after_the_third_failure_of_the_disk_the_daemon_is_read_only_until_its_state_is_written_again(
    daemon: Daemon,
) -> None:
    daemon.start()
    assert daemon.ask("PUT", "/2/pause", {"reason": "kept"}).status_code == 200
    daemon.switch.write_text(str(errno.EIO))
    answer = daemon.ask("PUT", "/2/pause", {"reason": "unknown"})
    assert (answer.status_code, "unknown" in answer.json()["detail"]) == (500, True)
    status, said = daemon.end()
    assert status == 1
    assert "the disk failed" in said.splitlines()[-1]
    assert unsynced.pending(daemon.where)
    for _ in range(2):
        # What is to be written again fails before anything is served.
        assert daemon.start_and_end()[0] == 1
    daemon.start()
    health = daemon.ask("GET", "/1/health")
    assert health.status_code == 503
    (failure,) = health.json()["failures"]
    assert "ended 3 times within 5 minutes" in failure["text"]
    assert "disk" in failure["text"]
    assert "roundsman resume" in failure["remedy"]
    status, _, said = daemon.roundsman("status")
    assert (status, "the disk failed" in said, "run `roundsman resume`" in said) == (1, True, True)
    before = daemon.where.config.read_bytes()
    daemon.switch.write_text(str(errno.ENOSPC))
    refused = daemon.ask("PUT", "/2/pause", {"reason": ""})
    assert (refused.status_code, "No space left" in refused.json()["detail"]) == (507, True)
    assert daemon.ask("GET", "/1/health").status_code == 503
    daemon.switch.unlink()
    inode = daemon.where.config.stat().st_ino
    assert daemon.ask("PUT", "/2/pause", {"reason": ""}).json() == {"paused": "kept"}
    assert daemon.where.config.stat().st_ino != inode
    assert daemon.where.config.read_bytes() == before
    assert unsynced.pending(daemon.where) == ""
    assert daemon.ask("GET", "/1/health").status_code == 200
    assert daemon.stop()[0] == 0


def test_a_full_disk_at_the_start_leaves_the_daemon_read_only_with_what_is_to_be_done(daemon: Daemon) -> None:
    # It has begun its epoch.
    daemon.start()
    assert daemon.stop()[0] == 0
    unsynced.note(daemon.where, errors.StateUnknown("config.data: the disk failed"))
    daemon.switch.write_text(str(errno.ENOSPC))
    daemon.start()
    failures = {failure["part"]: failure for failure in daemon.ask("GET", "/1/health").json()["failures"]}
    failure = failures["roundsmand"]
    assert "No space left on device" in failure["text"]
    assert "its free space, then run `roundsman resume`" in failure["remedy"]
    assert daemon.ask("PUT", "/2/queue/drained", {"drained": True}).status_code == 503
    # A clean stop does not lose the note.
    assert daemon.stop()[0] == 0
    assert unsynced.pending(daemon.where)
    daemon.switch.unlink()
    daemon.start()
    assert daemon.ask("GET", "/1/health").status_code == 200
    assert unsynced.pending(daemon.where) == ""
    assert daemon.stop()[0] == 0


def test_what_is_no_state_of_the_daemon_keeps_no_failed_disk_from_being_left_behind(daemon: Daemon) -> None:
    unsynced.note(daemon.where, errors.StateUnknown("config.data: the disk failed"))
    (daemon.where.reports / "old.json").mkdir(parents=True)
    (daemon.where.reports / "link.json").symlink_to("/dev/null")
    daemon.start()
    assert daemon.ask("GET", "/1/health").status_code == 200
    assert unsynced.pending(daemon.where) == ""
    assert daemon.stop()[0] == 0


@pytest.mark.slow
def test_after_kill_9_and_clean_stops_no_start_is_read_only(daemon: Daemon) -> None:
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        daemon.start()
        assert daemon.ask("GET", "/1/health").status_code == 200
        assert daemon.process is not None
        assert daemon.process.pid is not None
        os.kill(daemon.process.pid, number)
        assert daemon.end()[0] == (0 if number == signal.SIGTERM else -number)


def test_ends_are_counted_by_the_kernels_clock_within_one_boot(tmp_path: Path) -> None:
    path, now = tmp_path / "ends", [1000.0]
    ends = abnormal_ends.AbnormalEnds(path, clock=lambda: now[0])
    for moment in (1000.0, 1200.0, 1299.0):
        now[0] = moment
        ends.record("why")
    assert abnormal_ends.ReadOnly(ends).reason
    now[0] = 1301.0
    assert [end.moment for end in ends.recent()] == [1200.0, 1299.0]
    assert abnormal_ends.ReadOnly(ends).reason == ""
    path.write_text(path.read_text().replace(ends.recent()[0].boot, "another boot"))
    assert ends.recent() == []
    path.write_text("{damaged")
    assert ends.recent() == []
