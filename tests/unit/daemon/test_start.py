from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from ansible_collections.roundsman.cluster.daemon import __main__ as daemon
from ansible_collections.roundsman.cluster.daemon import service
from ansible_collections.roundsman.cluster.daemon.maintenance import leadership
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import log_output
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import job_filters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import small_cluster


@pytest.mark.parametrize(("name", "mode"), [("var/lib/roundsman/hmac.key", 0o444), ("etc/roundsman/bmc.json", 0o640)])
def test_the_daemon_refuses_to_start_on_a_secret_that_others_can_read_and_its_log_says_which(
    tmp_path: Path, name: str, mode: int
) -> None:
    where = tree.Tree(tmp_path)
    for folder in (where.lib, where.etc):
        folder.mkdir(parents=True)
    path = tmp_path / name
    path.write_text("{}")
    path.chmod(mode)
    module = "ansible_collections.roundsman.cluster.daemon"
    command = [sys.executable, "-m", module, "--root", str(tmp_path), "--log-file", str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    for told in (done.stderr, (tmp_path / "log").read_text()):
        assert f"{path} has the mode {mode:04o}" in told
    assert not where.pid_file.exists()


def test_a_stored_filter_that_matches_no_job_is_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = tree.Tree(tmp_path)
    where.lib.mkdir(parents=True)
    where.hmac_key.write_bytes(b"k" * 32)
    where.hmac_key.chmod(0o600)
    stored = job_filters.Filter("f1", 0, 0, (("opcode", ["=~", "OP_ID", "(|)" * 60 + "~"]),), job_filters.Action.PAUSE)
    store.write(where.config, dataclasses.replace(small_cluster.make(), filters={"f1": stored}))
    service.assemble(where, limit=1)
    assert "filter f1 matches no job: " in caplog.text
    assert "`roundsman filter delete f1`" in caplog.text


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_cannot_be_written_is_named_with_what_helps(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_anything: object, **_more: object) -> NoReturn:
        raise OSError(code, os.strerror(code), str(tmp_path / "var/log/roundsman"))

    monkeypatch.setattr(sys, "argv", ["roundsmand", "--root", str(tmp_path)])
    monkeypatch.setattr(log_output, "install", fail)
    with pytest.raises(SystemExit) as ended:
        daemon.main()
    told = str(ended.value)
    assert os.strerror(code) in told
    assert told.endswith("writable, with free space, and start again")
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("alone", ["--no-voting", "--yes-do-it"])
def test_a_start_without_votes_is_confirmed(alone: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        daemon._options(["--root", "/nowhere", alone])

    assert ended.value.code == 2
    assert "--no-voting and --yes-do-it are given together" in capsys.readouterr().err


def test_where_another_controller_leads_the_daemon_ends_with_its_own_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    where = tree.Tree(tmp_path)
    where.lib.mkdir(parents=True)
    where.hmac_key.write_bytes(b"k" * 32)
    where.hmac_key.chmod(0o600)
    store.write(where.config, small_cluster.make())

    async def begin(_: object, statement: leadership.Statement, **__: object) -> NoReturn:
        assert statement == leadership.Statement(no_voting=True, is_restored=True)
        raise errors.NotLeading("node1 follows epoch 5 (theirs)")

    monkeypatch.setattr(leadership.Leadership, "begin", begin)
    monkeypatch.setattr(sys, "argv", ["roundsmand", "--root", str(tmp_path), *STATED])
    with pytest.raises(SystemExit) as ended:
        daemon.main()

    assert ended.value.code == 11
    assert "roundsmand ends: node1 follows epoch 5 (theirs)" in caplog.text
    unit = (Path(__file__).parents[3] / "roles/controller/templates/roundsmand.service.j2").read_text()
    assert "RestartPreventExitStatus=11\n" in unit
    assert not where.abnormal_ends.exists()


STATED = ("--no-voting", "--yes-do-it", "--restored")
