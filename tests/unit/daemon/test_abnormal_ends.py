"""A daemon that ends by unforeseen exceptions: as a process, seen from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import abnormal_ends
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import daemon_client
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins
from tests.unit.daemon.api.reached import livelock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

PROGRAM = """
import sys
from pathlib import Path
from ansible_collections.roundsman.cluster.daemon import __main__ as daemon
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
write, switch = store.write, Path(sys.argv.pop(1))
def fail(*arguments):
    if switch.exists():
        raise MemoryError("no memory for 20 MiB")
    return write(*arguments)
store.write = fail
daemon.main()
"""


class Daemon:
    """A daemon whose configuration cannot be written, for an unforeseen reason, while the file `switch` is there."""

    def __init__(self, folder: Path) -> None:
        self.where = tree.Tree(twins.lab(folder).controller)
        settings = {"warm_ansible": False}
        self.where.daemon_settings.write_text(json.dumps(settings))
        self.switch = folder / "switch"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        ready, tell = os.pipe()
        arguments = ["--root", str(self.where.root), "--port", "0", "--bind", "127.0.0.1", "--ready-fd", str(tell)]
        command = [sys.executable, "-c", PROGRAM, str(self.switch), *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pass_fds=(tell,))
        os.close(tell)
        with os.fdopen(ready, "rb") as stream:
            assert stream.readline() == b"ready\n", self.process.communicate(timeout=60)[1]

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        with daemon_client.connected(self.where.socket, seconds=60) as client:
            return client.request(method, path, json=body)

    def end(self) -> tuple[int, str]:
        assert self.process is not None
        said = self.process.communicate(timeout=60)[1]
        return self.process.returncode, said

    def stop(self) -> tuple[int, str]:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.end()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    one = Daemon(tmp_path)
    yield one
    if one.process is not None and one.process.poll() is None:
        one.process.kill()
        one.process.communicate()


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
    for method, path in (("POST", "/2/hold"), ("PUT", "/2/queue/drained"), ("PUT", "/2/config")):
        answer = daemon.ask(method, path, {})
        assert answer.status_code == 503, path
        assert "roundsman resume" in answer.json()["detail"]
    assert daemon.ask("PUT", "/2/pause", {"reason": "another"}).status_code == 409
    assert daemon.ask("PUT", "/2/query/node", {"fields": ["name"]}).status_code == 200
    daemon.switch.unlink()
    command = [sys.executable, "-m", "ansible_collections.roundsman.cluster.daemon.cli.main"]
    resumed = subprocess.run(
        [*command, "--dir", str(daemon.where.root), "resume"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (resumed.returncode, resumed.stdout) == (0, "Maintenance goes on.\n"), resumed.stderr
    assert daemon.ask("PUT", "/2/pause", {"reason": "a new switch"}).status_code == 200
    assert daemon.ask("GET", "/1/health").status_code == 200
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


@pytest.mark.slow
def test_after_kill_9_and_clean_stops_no_start_is_read_only(daemon: Daemon) -> None:
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        daemon.start()
        assert daemon.ask("GET", "/1/health").status_code == 200
        assert daemon.process is not None
        daemon.process.send_signal(number)
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
