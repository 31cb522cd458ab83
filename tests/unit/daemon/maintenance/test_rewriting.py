"""What is written again after a failed disk; `tests/integration/test_failing_disk.py` lets each fsync fail."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from ansible_collections.roundsman.cluster.daemon import abnormal_ends, app
from ansible_collections.roundsman.cluster.daemon.api import read_only as guards
from ansible_collections.roundsman.cluster.daemon.maintenance import rewriting
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, unsynced
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import history

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon import service


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    """A daemon that has archived a job, and that finds that the disk failed before."""
    monkeypatch.setattr(durable_files, "_DISK", durable_files.Disk())
    lab = twins.lab(tmp_path)
    where = tree.Tree(lab.controller)
    for folder in ("archive/0/5", "archive/3/30001", "damaged/7"):
        (where.queue / folder).mkdir(parents=True)
    found, _ = twins.assemble(lab, monkeypatch)
    history.keep(where.config, found.configuration.current.serial_no)
    unsynced.note(where, errors.StateUnknown("the disk failed"))
    return found


def test_the_kept_versions_and_the_names_of_archived_jobs_are_made_durable_too(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, synced, real = running.where, set[str](), os.fsync
    older = history.folder(where.config) / "0000000000.data"
    older.write_bytes(where.config.read_bytes())
    os.utime(older, (1000.0, 1000.0))
    kept = {version.path: version.path.stat().st_ino for version in history.versions(where.config)}
    assert len(kept) == 2

    def watch(descriptor: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    asyncio.run(rewriting.write_again(where, configuration=running.configuration, desk=running.desk))
    assert not unsynced.pending(where)
    for folder in ("archive", "archive/0", "archive/3", "damaged"):
        assert str(where.queue / folder) in synced
    assert str(history.folder(where.config)) in synced
    for path, inode in kept.items():
        assert path.stat().st_ino != inode, f"{path} is a new file"
    assert older.stat().st_mtime == 1000.0
    assert not list(where.root.rglob(rewriting.PROOF))


def test_systemd_waits_while_the_state_is_written_again(
    running: service.Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

    class Seen(Exception):
        pass

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)

        async def write_again(*_place: Any, **_parts: Any) -> NoReturn:
            async with asyncio.timeout(twins.LIMIT):
                assert (await asyncio.get_running_loop().sock_recv(listener, 100)).startswith(b"EXTEND_TIMEOUT_USEC=")
            raise Seen

        monkeypatch.setattr(rewriting, "write_again", write_again)
        with pytest.raises(Seen):
            asyncio.run(app.serve(running, bind="127.0.0.1", port=0, ready=None))


def _read_only(running: service.Service) -> abnormal_ends.ReadOnly:
    for _ in range(abnormal_ends.MOST):
        abnormal_ends.AbnormalEnds(running.where.abnormal_ends).record("the disk failed")
    return abnormal_ends.ReadOnly(abnormal_ends.AbnormalEnds(running.where.abnormal_ends))


def _start(running: service.Service, read_only: abnormal_ends.ReadOnly) -> None:
    asyncio.run(
        rewriting.at_start(running.where, configuration=running.configuration, desk=running.desk, read_only=read_only)
    )


async def _answers(read_only: abnormal_ends.ReadOnly, method: str, path: str) -> bool:
    """Whether a request comes to a resource."""
    came: list[str] = []

    async def resource(scope: dict[str, Any], _receive: object, _send: object) -> None:
        came.append(scope["path"])

    async def send(_message: object) -> None:
        pass

    guard: Any = guards.Guard(resource, read_only=read_only)
    await guard({"type": "http", "method": method, "path": path}, None, send)
    return bool(came)


ASKS = [("GET", "/2/jobs/1"), ("GET", "/1/jobs"), ("GET", "/2/config"), ("PUT", "/2/queue/drained")]


def test_a_daemon_that_is_read_only_writes_its_state_again_before_it_answers(running: service.Service) -> None:
    read_only = _read_only(running)
    inode = running.where.config.stat().st_ino
    _start(running, read_only)
    assert unsynced.pending(running.where) == ""
    assert running.where.config.stat().st_ino != inode
    assert "ended 3 times" in read_only.reason, "it is read-only all the same"
    assert [asyncio.run(_answers(read_only, *ask)) for ask in ASKS] == [True, True, True, False]


@pytest.mark.parametrize("is_read_only", [True, False])
def test_while_the_state_cannot_be_written_again_nothing_is_answered_from_it(
    running: service.Service, monkeypatch: pytest.MonkeyPatch, *, is_read_only: bool
) -> None:
    read_only = _read_only(running) if is_read_only else running.read_only
    code = errno.EIO if is_read_only else errno.ENOSPC

    def fail(_descriptor: int) -> NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    _start(running, read_only)
    assert unsynced.pending(running.where)
    assert os.strerror(code) in read_only.reason
    assert "disk" in read_only.reason
    assert "roundsman resume" in read_only.remedy
    assert not any(asyncio.run(_answers(read_only, *ask)) for ask in ASKS)
    for method, path in (("GET", "/1/health"), ("PUT", "/2/pause"), ("POST", "/2/record")):
        assert asyncio.run(_answers(read_only, method, path))
    assert not list(running.where.lib.glob("tmp*")), "what was tried is no file"


def _unreadable(monkeypatch: pytest.MonkeyPatch, bad: Path) -> None:
    """Have a file lie on a bad sector: reading it fails, and the error does not name it."""
    real = durable_files.write_again

    def write_again(path: Path, *, is_of_folder: bool = False) -> None:
        if path == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(path, is_of_folder=is_of_folder)

    bad.parent.mkdir(parents=True, exist_ok=True)
    bad.write_text("{}")
    monkeypatch.setattr(durable_files, "write_again", write_again)


@pytest.mark.parametrize("name", ["reports/node3.json", "queue/drain", "rounds/0.json"])
def test_a_file_that_cannot_be_read_is_named(
    running: service.Service, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bad = running.where.lib / name
    _unreadable(monkeypatch, bad)
    _start(running, running.read_only)
    assert f"{bad} cannot be read (Input/output error)" in running.read_only.reason
    assert unsynced.pending(running.where)


@pytest.mark.parametrize("name", ["rounds/7.json", "config.history/0000000000.data"])
def test_a_file_of_the_history_that_cannot_be_read_is_passed_over(
    running: service.Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    bad = running.where.lib / name
    assert running.configuration.current.maintenance.round == 0
    assert bad.parent in {running.where.rounds, history.folder(running.where.config)}
    _unreadable(monkeypatch, bad)
    _start(running, running.read_only)
    assert (running.read_only.reason, unsynced.pending(running.where)) == ("", "")
    assert f"{bad} cannot be read (Input/output error): it is not written again" in caplog.text
