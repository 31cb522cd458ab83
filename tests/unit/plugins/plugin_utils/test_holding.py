from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import http.server
import json
import os
import pwd
import shutil
import signal
import socketserver
import subprocess
import threading
import traceback
from typing import TYPE_CHECKING, Any, Iterator, Self

import pytest
from ansible_collections.roundsman.cluster.daemon.locks import desk, holders
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Order
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import (
    controller_epoch,
    holding,
    livelocks,
    run_group,
    run_records,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import other_users, small_cluster

if TYPE_CHECKING:
    from pathlib import Path

X, SH = Mode.EXCLUSIVE, Mode.SHARED
OFF = changes.NodePowered("n3", powered=False)
Playbook = subprocess.Popen[bytes]


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tree.Tree:
    monkeypatch.delenv(run_group.RUN_VARIABLE, raising=False)
    found = tree.Tree(tmp_path)
    found.lib.mkdir(parents=True)
    found.run.mkdir(parents=True)
    store.write(found.config, small_cluster.make())
    return found


@pytest.fixture
def playbook() -> Iterator[Playbook]:
    yield from playing()


@pytest.fixture
def other() -> Iterator[Playbook]:
    yield from playing()


def playing() -> Iterator[Playbook]:
    """A process that stands for ansible-playbook; it ends when its standard input does."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def play(where: tree.Tree, process: Playbook) -> holding.Play:
    return holding.find_play(str(where.root), pid=process.pid)


def wait_until_free(path: Path) -> None:
    """Until nobody holds a file; a livelock may be taken away before."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.close(descriptor)


@pytest.fixture
def run(where: tree.Tree, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = where.queue / "1/0"
    folder.mkdir(parents=True)
    granted = {"node/n3": "exclusive", "node/n2": "shared", "instance/[lockset]": "exclusive"}
    (folder / "granted.json").write_text(json.dumps(granted))
    monkeypatch.setenv(run_group.RUN_VARIABLE, str(folder))
    return folder


def test_under_the_daemon_a_record_is_a_line_in_the_run_folder(where: tree.Tree, run: Path, playbook: Playbook) -> None:
    one = play(where, playbook)
    holding.hold(one, {"node/n3": X, "node/n2": SH}, time_limit=1)
    holding.record(one, OFF, now=1.0)
    assert run_records.recorded(run, expected=1) == run_records.Recorded([OFF], [])
    assert store.read(where.config).nodes["n3"].powered


@pytest.mark.parametrize("wants", [{"node/n1": SH}, {"node/n2": X}, {"node/n3": X, "node/n1": SH}])
def test_under_the_daemon_nothing_is_held_that_was_not_granted(
    where: tree.Tree, run: Path, playbook: Playbook, wants: dict[str, Mode]
) -> None:
    with pytest.raises(errors.LockRefused, match="was not granted to this job"):
        holding.hold(play(where, playbook), wants, time_limit=1)
    with pytest.raises(errors.Refused, match="run the play again"):
        holding.record(play(where, playbook), OFF, now=1.0)


def test_under_the_daemon_only_what_was_held_is_recorded(where: tree.Tree, run: Path, playbook: Playbook) -> None:
    one = play(where, playbook)
    holding.hold(one, {"node/n2": SH}, time_limit=1)
    with pytest.raises(errors.Refused, match="node/n3 is not held"):
        holding.record(one, OFF, now=1.0)
    holding.hold(one, {"node/n3": X}, time_limit=1)
    holding.hold(one, {"node/n3": SH}, time_limit=1)
    holding.record(one, OFF, now=1.0)
    with pytest.raises(errors.Refused, match="node/n2 is only shared"):
        holding.record(one, changes.NodePowered("n2", powered=True), now=1.0)
    assert run_records.recorded(run, expected=1) == run_records.Recorded([OFF], [])


@pytest.mark.parametrize("wants", [{"instance/[lockset]": X}, {"instance/i1": X}])
def test_under_the_daemon_all_instances_stand_for_each(
    where: tree.Tree, run: Path, playbook: Playbook, wants: dict[str, Mode]
) -> None:
    one, down = play(where, playbook), changes.InstanceState("i1", "down")
    holding.hold(one, wants, time_limit=1)
    holding.record(one, down, now=1.0)
    assert run_records.recorded(run, expected=1) == run_records.Recorded([down], [])


def test_without_a_daemon_who_shares_all_nodes_records_none_and_who_has_them_alone_each(
    where: tree.Tree, playbook: Playbook
) -> None:
    one = play(where, playbook)
    holding.hold(one, {"node/[lockset]": SH}, time_limit=1)
    with pytest.raises(errors.Refused, match="node/n3 is only shared"):
        holding.record(one, OFF, now=1.0)
    holding.hold(one, {"node/[lockset]": X}, time_limit=1)
    holding.record(one, OFF, now=1.0)
    assert not store.read(where.config).nodes["n3"].powered


def test_without_a_daemon_a_record_is_committed(where: tree.Tree, playbook: Playbook) -> None:
    one = play(where, playbook)
    holding.hold(one, {"node/n3": X}, time_limit=1)
    holding.hold(one, {"instance/i1": X}, time_limit=1)
    holding.record(one, OFF, now=1.0)
    holding.record(one, changes.InstanceState("i1", "down"), now=2.0)
    found = store.read(where.config)
    assert (found.nodes["n3"].powered, found.instances["i1"].admin_state) == (False, "down")


@pytest.mark.parametrize("wants", [{"instance/i1": X, "node/n3": SH}, {"instance/[lockset]": X}])
def test_without_a_daemon_no_instance_is_touched_whose_nodes_have_not_answered_since_another_controller_led(
    where: tree.Tree, playbook: Playbook, wants: dict[str, Mode]
) -> None:
    order = Order(Epoch(4, "four"), "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11", 7)
    cluster = store.read(where.config)
    node = cluster.nodes["n3" if "node/n3" in wants else cluster.instances["i1"].primary_node]
    controller_epoch.write(where, order, waits=[node.uuid])
    one = play(where, playbook)

    with pytest.raises(errors.Refused) as refusal:
        holding.hold(one, wants, time_limit=1)

    assert "another controller led before epoch 4 (four)" in str(refusal.value)
    assert f"{node.name} has not answered" in str(refusal.value)
    assert "start roundsmand here" in str(refusal.value)
    with pytest.raises(errors.Refused, match="is not held"):
        holding.record(one, changes.InstanceState("i1", "down"), now=2.0)
    holding.hold(one, {f"node/{node.uuid}": X}, time_limit=1)
    holding.hold(one, wants, time_limit=1, is_emergency=True)


def test_without_a_daemon_other_instances_are_touched(where: tree.Tree, playbook: Playbook) -> None:
    cluster = store.read(where.config)
    order = Order(Epoch(4, "four"), "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11", 7)
    others = cluster.nodes.keys() - {*cluster.instances["i1"].nodes}
    controller_epoch.write(where, order, waits=others)

    holding.hold(play(where, playbook), {"instance/i1": X}, time_limit=1)


def test_without_a_daemon_a_copy_of_the_state_touches_no_instance(where: tree.Tree, playbook: Playbook) -> None:
    order = Order(Epoch(4, "four"), "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11", 7)
    controller_epoch.write(where, order)
    copy = tree.Tree(where.root.with_name("copy"))
    shutil.copytree(where.root, copy.root)

    with pytest.raises(errors.StoreFailed, match="start roundsmand here first"):
        holding.hold(play(copy, playbook), {"instance/i1": X}, time_limit=1)


def test_without_hold_a_record_fails_and_nothing_is_written(where: tree.Tree, playbook: Playbook) -> None:
    with pytest.raises(errors.Refused, match="node/n3 is not held: run the play again"):
        holding.record(play(where, playbook), OFF, now=1.0)
    holding.hold(play(where, playbook), {"node/n2": X}, time_limit=1)
    with pytest.raises(errors.Refused, match="node/n3 is not held"):
        holding.record(play(where, playbook), OFF, now=1.0)
    assert store.read(where.config).nodes["n3"].powered


def test_without_a_daemon_power_is_in_the_audit_log(where: tree.Tree, playbook: Playbook) -> None:
    one = play(where, playbook)
    holding.hold(one, {"node/n3": X}, time_limit=1)
    holding.record(one, OFF, now=1.0)
    holding.record(one, dataclasses.replace(OFF, powered=True), now=2.0)
    _, line = where.audit_log.read_text().splitlines()
    user = f"user={pwd.getpwuid(os.getuid()).pw_name} uid={os.getuid()}"
    assert line.endswith(
        f"INFO roundsman.audit: record {user} play={one.name}: node3 is recorded as powered on, was off"
    )


def test_without_a_daemon_the_right_to_write_is_held_until_the_play_ends(
    where: tree.Tree, playbook: Playbook, other: Playbook
) -> None:
    one = play(where, playbook)
    holding.hold(one, {"node/n3": X}, time_limit=1)
    with pytest.raises(errors.StoreFailed, match=f"held by ansible-playbook, pid {playbook.pid}"):
        store.open_lock(where)
    with pytest.raises(errors.StoreFailed, match=f"held by ansible-playbook, pid {playbook.pid}"):
        holding.hold(play(where, other), {"node/n2": X}, time_limit=1)
    playbook.kill()
    playbook.wait()
    wait_until_free(where.config_lock)
    os.close(store.open_lock(where))


@other_users.only_root
@pytest.mark.parametrize("name", ["hold", "hold.lock"])
def test_what_another_user_says_that_roots_play_holds_is_refused(
    where: tree.Tree, playbook: Playbook, name: str
) -> None:
    one = play(where, playbook)
    planted = one.state if name == "hold" else one.turns
    where.livelocks.mkdir()
    planted.write_text(json.dumps({"play": one.name, "alone": True, "locks": {"node/n3": "exclusive"}}))
    os.chown(planted, other_users.DAEMON, other_users.DAEMON)
    refused = f"{planted} belongs to the user with uid {other_users.DAEMON}"
    with pytest.raises(errors.Refused, match=refused):
        holding.hold(one, {"node/n3": X}, time_limit=1)
    with pytest.raises(errors.Refused, match=refused if name == "hold" else "is not held"):
        holding.record(one, OFF, now=1.0)
    assert store.read(where.config).nodes["n3"].powered


@other_users.only_root
def test_nobody_takes_the_names_that_a_play_of_root_is_going_to_use(where: tree.Tree, playbook: Playbook) -> None:
    """What others may know of a process before are its pid and its start, and each name seen betrays no other one."""
    one = play(where, playbook)
    names = [path.name for path in (one.livelock, one.state, one.turns, one.processes)]
    assert len({name.partition(".")[0] for name in names}) == len(names)
    with other_users.acting_as(other_users.DAEMON), pytest.raises(PermissionError):
        assert play(where, playbook).livelock
    where.livelocks.mkdir()
    for suffix in ("", ".hold", ".hold.lock", ".run"):
        planted = where.livelocks / f"{one.name}{suffix}"
        planted.touch()
        os.chown(planted, other_users.DAEMON, other_users.DAEMON)
    holding.hold(one, {"node/n3": X}, time_limit=1)
    command = os.popen(f"pgrep --list-full -f 'keeper.py {playbook.pid}'").read()
    assert command
    assert not any(name in command for name in names), "every user can read the arguments of the keeper"


def test_what_another_play_of_the_same_user_holds_is_not_held_by_this_one(
    where: tree.Tree, playbook: Playbook, other: Playbook
) -> None:
    first, second = play(where, playbook), play(where, other)
    with Daemon(where):
        holding.hold(first, {"node/n3": X}, time_limit=1)
        holding.hold(second, {"node/n2": X}, time_limit=1)
        first.state.replace(second.state)
        with pytest.raises(errors.Refused, match=f"is not of {second.name}"):
            holding.record(second, OFF, now=1.0)


def test_a_play_whose_keeper_was_killed_holds_and_records_nothing(where: tree.Tree, playbook: Playbook) -> None:
    one = play(where, playbook)
    holding.hold(one, {"node/n3": X}, time_limit=1)
    for line in os.popen(f"pgrep -f 'keeper.py {playbook.pid}$'").read().split():
        os.kill(int(line), signal.SIGKILL)
    wait_until_free(one.livelock)
    with pytest.raises(errors.Refused, match="keeper"):
        holding.hold(one, {"node/n2": X}, time_limit=1)
    with pytest.raises(errors.Refused, match="keeper"):
        holding.record(one, OFF, now=1.0)
    with pytest.raises(errors.Refused, match="keeper"):
        holding.confirm_boots(one, store.read(where.config), ["n3"])
    assert store.read(where.config).nodes["n3"].powered


def test_records_of_several_hosts_at_once_are_all_kept(where: tree.Tree, playbook: Playbook) -> None:
    one = play(where, playbook)
    nodes = ["n1", "n2", "n3", "n10"]
    holding.hold(one, {f"node/{node}": X for node in nodes}, time_limit=1)
    children = []
    for node in nodes:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                holding.record(one, changes.NodePowered(node, powered=False), now=1.0)
                status = 0
            except errors.RoundsmanError:
                traceback.print_exc()
            finally:
                # A child that unwound further would kill the playbook, and with it the keeper of all of them.
                os._exit(status)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4
    assert not any(node.powered for node in store.read(where.config).nodes.values())


def left(where: tree.Tree, *owners: holders.Owner) -> None:
    """The table of a daemon that stopped while these owners held the instance."""

    async def story() -> None:
        one = desk.Desk(where.locks, clock=lambda: 1.0)
        for owner in (holders.Owner("job 1"), *owners):
            await one.acquire(owner, {"instance/i1": SH})
        one.release(holders.Owner("job 1"))
        await one.written()

    asyncio.run(story())


def test_jobs_that_a_stopped_daemon_left_are_settled_first(where: tree.Tree, playbook: Playbook) -> None:
    left(where, holders.Owner("job 7"))
    for _attempt in range(2):
        with pytest.raises(errors.LockRefused, match="job 7 of the stopped daemon is not settled"):
            holding.hold(play(where, playbook), {"node/n3": X}, time_limit=1)
    left(where)
    holding.hold(play(where, playbook), {"node/n3": X}, time_limit=1)


def test_a_play_that_still_runs_with_locks_of_a_stopped_daemon_is_waited_for(
    where: tree.Tree, playbook: Playbook, other: Playbook
) -> None:
    with Daemon(where):
        holding.hold(play(where, other), {"instance/i1": X}, time_limit=1)
    livelock = play(where, other).livelock
    left(where, holders.Owner("play-x", str(livelock)))
    with pytest.raises(errors.LockRefused, match="play-x still runs"):
        holding.hold(play(where, playbook), {"instance/i1": X}, time_limit=1)
    other.kill()
    other.wait()
    wait_until_free(livelock)
    holding.hold(play(where, playbook), {"instance/i1": X}, time_limit=1)


def test_a_table_of_a_stopped_daemon_has_only_livelocks_of_their_own_folder_opened(
    where: tree.Tree, playbook: Playbook, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    descriptor = os.open(elsewhere, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    left(where, holders.Owner("play-x", str(elsewhere)))
    holding.hold(play(where, playbook), {"instance/i1": X}, time_limit=1)
    os.close(descriptor)


def test_a_damaged_table_of_a_stopped_daemon_lets_nobody_go_on(where: tree.Tree, playbook: Playbook) -> None:
    left(where, holders.Owner("job 7"))
    where.locks.write_bytes(where.locks.read_bytes()[:-3])
    with pytest.raises(errors.StoreFailed, match=r"locks\.data is damaged"):
        holding.hold(play(where, playbook), {"node/n3": X}, time_limit=1)


class Daemon:
    """What a play sees of the daemon: an HTTP server on the unix socket."""

    def __init__(self, where: tree.Tree, *, status: int = 200, body: bytes | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def address_string(self) -> str:
                return "play"

            def log_message(self, *_: object) -> None:
                return

            def do_GET(self) -> None:
                self._say(200, b"[1]")

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, asked))
                held = {"node/n1": "shared", **asked.get("wants", {})}
                self._say(status, json.dumps(held).encode() if body is None else body)

            def _say(self, code: int, data: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._where = where
        where.socket.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(where.socket.parent, os.O_PATH)
        # The path itself may be too long for an address.
        self._server = socketserver.ThreadingUnixStreamServer(f"/proc/self/fd/{folder}/{where.socket.name}", Handler)
        os.close(folder)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_with_a_daemon_its_table_is_asked_and_it_gets_the_change(
    where: tree.Tree, playbook: Playbook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "PATIENCE", 0.1)
    one = play(where, playbook)
    with Daemon(where) as daemon:
        holding.hold(one, {"node/n3": X}, time_limit=5)
        holding.record(one, OFF, now=1.0)
    same = {"owner": one.name, "livelock": one.livelock.name}
    assert daemon.asked == [
        ("/2/hold", {**same, "wants": {"node/n3": "exclusive"}, "time_limit": 5}),
        ("/2/record", {**same, "changes": [recording.encode(OFF)]}),
    ]
    assert livelocks.is_alive(one.livelock)
    os.close(store.open_lock(where))
    with pytest.raises(errors.StoreFailed, match="does not answer"):
        holding.record(one, OFF, now=1.0)


def test_a_hold_that_was_refused_can_be_tried_again(where: tree.Tree, playbook: Playbook) -> None:
    one = play(where, playbook)
    with (
        Daemon(where, status=423, body=b'{"detail": "held by job 4"}'),
        pytest.raises(errors.LockRefused, match="held by job 4"),
    ):
        holding.hold(one, {"node/n3": X}, time_limit=5)
    with pytest.raises(errors.Refused, match="run the play again"):
        holding.record(one, OFF, now=1.0)
    where.socket.unlink()
    with Daemon(where):
        holding.hold(one, {"node/n3": X}, time_limit=5)
        holding.record(one, OFF, now=1.0)


@pytest.mark.parametrize("body", [b"Internal Server Error", b"{}", b'{"detail": "Internal Server Error"}'])
def test_a_daemon_that_fails_is_no_refusal(where: tree.Tree, playbook: Playbook, body: bytes) -> None:
    with Daemon(where, status=500, body=body), pytest.raises(errors.StoreFailed, match="the daemon failed"):
        holding.hold(play(where, playbook), {"node/n3": X}, time_limit=5)


def test_the_socket_of_a_dead_daemon_is_none(where: tree.Tree, playbook: Playbook) -> None:
    with Daemon(where):
        pass
    assert where.socket.exists()
    holding.hold(play(where, playbook), {"node/n3": X}, time_limit=5)
    holding.record(play(where, playbook), OFF, now=1.0)
    assert not store.read(where.config).nodes["n3"].powered


def test_a_record_waits_for_a_daemon_that_is_being_restarted(where: tree.Tree, playbook: Playbook) -> None:
    one = play(where, playbook)
    with Daemon(where):
        holding.hold(one, {"node/n3": X}, time_limit=5)
    where.socket.unlink()
    recording = threading.Thread(target=holding.record, args=(one, OFF), kwargs={"now": 1.0})
    recording.start()
    with Daemon(where) as restarted:
        recording.join()
    assert [path for path, _asked in restarted.asked] == ["/2/record"]


@pytest.mark.parametrize("is_served", [True, False], ids=["of before this version", "that is stopped"])
def test_a_daemon_that_confirms_no_boot_ends_no_play(
    where: tree.Tree, playbook: Playbook, monkeypatch: pytest.MonkeyPatch, *, is_served: bool
) -> None:
    monkeypatch.setattr(holding, "BOOTS_SECONDS", 0.3)
    monkeypatch.setattr(holding, "BOOTS_PAUSE", 0.1)
    one = play(where, playbook)
    with Daemon(where):
        holding.hold(one, {"node/n3": X}, time_limit=5)
    where.socket.unlink()
    served = Daemon(where, status=404, body=b'{"detail": "Not Found"}') if is_served else contextlib.nullcontext()
    with served:
        # The nodes refuse what is ordered for the boot before, and say why.
        holding.confirm_boots(one, store.read(where.config), ["n3"])
