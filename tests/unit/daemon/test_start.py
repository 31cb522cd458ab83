from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest
from ansible_collections.roundsman.cluster.daemon import __main__ as daemon
from ansible_collections.roundsman.cluster.daemon import service
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import job_filters, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import log_output
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path


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
