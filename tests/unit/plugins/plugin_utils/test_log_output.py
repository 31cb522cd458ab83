from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import log_output

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_line_goes_to_standard_error_and_to_a_file_of_the_daemon_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, root = tmp_path / "roundsmand.log", logging.getLogger()
    log_output.install(level="info", file=file)
    logging.getLogger("one").info("a line")
    assert "INFO one: a line" in capsys.readouterr().err
    with monkeypatch.context() as alone:
        # pytest keeps what is logged, and a process of pytest-xdist cannot send half a character on.
        alone.setattr(root, "handlers", [one for one in root.handlers if type(one).__module__ != "_pytest.logging"])
        logging.getLogger("one").info("half a character: \udc80")
    assert "INFO one: half a character: \\udc80" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_after_a_rotation_the_log_goes_to_the_new_file(tmp_path: Path) -> None:
    file = tmp_path / "roundsmand.log"
    log_output.install(level="info", file=file)
    logging.getLogger("one").info("before")
    file.rename(tmp_path / "roundsmand.log.1")
    logging.getLogger("one").info("after")
    assert "after" in file.read_text()
    assert "after" not in (tmp_path / "roundsmand.log.1").read_text()


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_a_log_that_was_replaced_by_a_link_or_a_pipe_gets_no_line_and_blocks_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    file, victim = tmp_path / "audit.log", tmp_path / "victim"
    log_output.install(level="info", file=None, audit=file)
    audit = logging.getLogger(log_output.AUDIT)
    audit.info("before")
    file.rename(tmp_path / "audit.log.1")
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(victim)
    if kind == "link":
        victim.write_text("as it was")
    for line in ("first", "second"):
        audit.info(line)
        assert f"INFO roundsman.audit: {line}" in capsys.readouterr().err
    assert victim.exists() is (kind == "link")
    assert kind != "link" or victim.read_text() == "as it was"
    file.unlink()
    audit.info("after")
    assert file.read_text().splitlines()[-1].endswith(": after")


def test_a_file_that_cannot_be_written_is_an_error_and_not_silence(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        log_output.install(level="info", file=tmp_path / "nowhere" / "roundsmand.log")


def test_the_audit_has_a_file_of_its_own_whatever_the_level_of_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "audit.log"
    log_output.install(level="error", file=None, audit=file)
    logging.getLogger("one").info("a line")
    logging.getLogger(log_output.AUDIT).info("job 1: node3 is recorded as powered off, was on")
    (line,) = file.read_text().splitlines()
    assert line.endswith("INFO roundsman.audit: job 1: node3 is recorded as powered off, was on")
    assert line in capsys.readouterr().err
    assert file.stat().st_mode & 0o777 == 0o600


FORGED = "text\n2026-11-22 00:00:00,000 CRITICAL forged line"
HOSTILE = FORGED + "\r\x1b]0;title\x07 \x7f\x9b31m \u202eabc \u2028 \u200b"


def _fail() -> None:
    raise ValueError(HOSTILE)


def test_a_text_from_outside_can_neither_forge_a_line_nor_steer_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tree.Tree(tmp_path)
    where.log.mkdir(parents=True)
    file, audit = where.log / "roundsmand.log", where.audit_log
    log_output.install(level="info", file=file, audit=audit)
    logging.getLogger("one").warning("node %s cannot be diagnosed: %s", "node3", HOSTILE)
    logging.getLogger(log_output.AUDIT).info("job 1: %s", HOSTILE)
    log_output.append_audit(where, [HOSTILE])
    for text, count in ((file.read_text(), 2), (audit.read_text(), 2), (capsys.readouterr().err, 2)):
        lines = text.split("\n")[:-1]
        assert len(lines) == count
        assert all(line.isprintable() for line in lines)
        assert r"text\n2026-11-22 00:00:00,000 CRITICAL forged line\r\x1b]0;title\x07 \x7f\x9b31m \u202eabc" in lines[0]


@pytest.fixture(name="where")
def fixture_where() -> Iterator[tree.Tree]:
    """The tree of a controller that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        where = tree.Tree(Path(folder))
        where.lib.mkdir(parents=True)
        yield where


@pytest.mark.parametrize("has_folder", [False, True])
def test_an_audit_log_that_is_missing_is_created_for_the_daemons_user(where: tree.Tree, *, has_folder: bool) -> None:
    if has_folder:
        where.log.mkdir(parents=True)
    owner = (os.getuid(), os.getgid())
    if os.geteuid() == 0:
        owner = (12345, 12346)
        for folder in [where.lib, *([where.log] if has_folder else [])]:
            os.chown(folder, *owner)
    log_output.append_audit(where, ["a line"])
    assert where.audit_log.read_text().endswith(": a line\n")
    for path, mode in ((where.audit_log, 0o600), *([] if has_folder else [(where.log, 0o750)])):
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (*owner, mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")
def test_nobody_but_root_and_the_daemons_user_creates_it(where: tree.Tree) -> None:
    where.log.mkdir(parents=True)
    where.log.chmod(0o777)
    child = os.fork()
    if child == 0:
        os.setresuid(12347, 12347, 12347)
        log_output.append_audit(where, ["a line"])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not where.audit_log.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act for another user")
def test_root_follows_no_link_that_the_daemons_user_has_put_in_its_place(where: tree.Tree) -> None:
    victim = where.root / "victim"
    where.log.mkdir(parents=True)
    for folder in (where.lib, where.log):
        os.chown(folder, 12345, 12345)
    where.audit_log.symlink_to(victim)
    log_output.append_audit(where, ["a line"])
    assert not victim.exists()


def test_a_traceback_stays_readable_and_each_of_its_lines_is_indented(tmp_path: Path) -> None:
    file = tmp_path / "roundsmand.log"
    log_output.install(level="info", file=file)
    try:
        _fail()
    except ValueError:
        logging.getLogger("one").exception("it failed")
    first, *further = file.read_text().split("\n")[:-1]
    assert first.endswith("ERROR one: it failed")
    assert further[0] == "    | Traceback (most recent call last):"
    assert "    | 2026-11-22 00:00:00,000 CRITICAL forged line" in "\n".join(further)
    assert all(line.startswith("    | ") and line.isprintable() for line in further)
