from __future__ import annotations

import dataclasses
import errno
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from ansible_collections.roundsman.cluster.daemon import __main__ as daemon
from ansible_collections.roundsman.cluster.daemon import app, service
from ansible_collections.roundsman.cluster.daemon.cli import client
from ansible_collections.roundsman.cluster.daemon.maintenance import leadership, master_failover, newer_copies
from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Step
from ansible_collections.roundsman.cluster.daemon.serving import not_leading
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import log_output
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import job_filters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import other_users, others_folders, small_cluster
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable


def controller(root: Path) -> tree.Tree:
    """What a daemon needs to start: its key and a configuration."""
    where = tree.Tree(root)
    where.lib.mkdir(parents=True)
    where.hmac_key.write_bytes(b"k" * 32)
    where.hmac_key.chmod(0o600)
    store.write(where.config, small_cluster.make())
    return where


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
    where = controller(tmp_path)
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
    where = controller(tmp_path)

    async def begin(_: object, statement: leadership.Statement, **__: object) -> NoReturn:
        assert statement == leadership.Statement(no_voting=True, is_restored=True)
        raise errors.NotLeading("node1 follows epoch 5 (theirs)")

    monkeypatch.setattr(leadership.Leadership, "begin", begin)
    monkeypatch.setattr(sys, "argv", ["roundsmand", "--root", str(tmp_path), *STATED])
    with pytest.raises(SystemExit) as ended:
        daemon.main()

    assert ended.value.code == 11
    assert "roundsmand ends: node1 follows epoch 5 (theirs)" in caplog.text
    assert not_leading.reason(where) == "node1 follows epoch 5 (theirs)"
    for name in ("roundsmand", "roundsman-rapi"):
        unit = (Path(__file__).parents[3] / f"roles/controller/templates/{name}.service.j2").read_text()
        assert "RestartPreventExitStatus=11\n" in unit
    assert not where.abnormal_ends.exists()


def test_a_daemon_that_starts_takes_back_that_another_controller_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = controller(tmp_path)
    not_leading.note(where, "another one")

    async def begin(*_: object, **__: object) -> NoReturn:
        assert not_leading.reason(where) == ""
        raise errors.Failed("enough of it")

    monkeypatch.setattr(leadership.Leadership, "begin", begin)
    monkeypatch.setattr(sys, "argv", ["roundsmand", "--root", str(tmp_path)])
    with pytest.raises(SystemExit, match="enough of it"):
        daemon.main()


def test_while_a_daemon_waits_for_votes_commands_and_plays_by_hand_are_told_so_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = controller(tmp_path)
    told: list[str] = []

    async def begin(*_: object, on_wait: Callable[[str], None]) -> None:
        on_wait("node1 and node2 did not answer")
        with pytest.raises(errors.StoreFailed) as refused:
            store.open_lock(where)
        with pytest.raises(client.NoDaemon) as absent:
            client.Daemon(tmp_path).__enter__()
        told.extend((str(refused.value), str(absent.value)))

    async def serve(*_: object, **__: object) -> None:
        assert where.config_lock.read_text() == f"roundsmand, pid {os.getpid()}\n"

    monkeypatch.setattr(leadership.Leadership, "begin", begin)
    monkeypatch.setattr(app, "serve", serve)
    monkeypatch.setattr(sys, "argv", ["roundsmand", "--root", str(tmp_path)])
    daemon.main()

    for text in told:
        assert f"roundsmand, pid {os.getpid()}, which waits for the votes of nodes" in text
        assert "stop it, run `roundsman cluster epo --on --all`, and start it again" in text
    assert not store.waiting(where)


def test_the_note_that_another_controller_leads_is_read_by_its_group_and_follows_no_link(tmp_path: Path) -> None:
    where, elsewhere = tree.Tree(tmp_path), tmp_path / "elsewhere"
    where.not_leading.parent.mkdir(parents=True)
    elsewhere.write_text("mine")
    where.not_leading.with_name(".not-leading.new").symlink_to(elsewhere)
    not_leading.note(where, "theirs")
    assert (not_leading.reason(where), elsewhere.read_text()) == ("", "mine")

    where.not_leading.with_name(".not-leading.new").unlink()
    before = os.umask(0o077)
    try:
        not_leading.note(where, "theirs")
    finally:
        os.umask(before)
    assert not_leading.reason(where) == "theirs"
    assert where.not_leading.stat().st_mode & 0o777 == 0o640


STATED = ("--no-voting", "--yes-do-it", "--restored")


@pytest.mark.parametrize(("step", "status"), [(Step.BEGIN, 0), (Step.GO_ON, 0), (Step.WAIT, 1), (Step.END, 11)])
def test_a_dry_run_prints_what_a_start_would_do_and_leaves_everything_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    step: Step,
    status: int,
) -> None:
    where = controller(tmp_path)
    not_leading.note(where, "another one")

    async def preview(_: object, statement: leadership.Statement) -> tuple[Step, list[str]]:
        assert statement == leadership.Statement(is_restored=True)
        return step, ["it would do this", "and\nthat"]

    monkeypatch.setattr(leadership.Leadership, "preview", preview)
    monkeypatch.setattr(sys, "argv", ["roundsmand", "--root", str(tmp_path), "--restored", "--dry-run"])
    with pytest.raises(SystemExit) as ended:
        daemon.main()

    assert ended.value.code == status
    assert capsys.readouterr().out == "roundsmand: it would do this\nroundsmand: and\\nthat\n"
    assert not where.pid_file.exists()
    assert not_leading.reason(where) == "another one"


@pytest.fixture
def candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tree.Tree:
    """A controller that was restored: node2 keeps a newer copy, node3 is silent, and a start would lead."""
    where = controller(tmp_path)
    where.daemon_settings.parent.mkdir(parents=True, exist_ok=True)
    where.daemon_settings.write_text('{"configuration_copies": ["node2", "node3"]}')

    async def look(_: object, _cluster: object, names: object) -> newer_copies.Found:
        assert names == ["node2", "node3"]
        return newer_copies.Found({"node2": 500}, ("node3",))

    async def preview(*_: object) -> tuple[Step, list[str]]:
        return Step.BEGIN, ["it would lead"]

    async def begin(*_: object, **__: object) -> NoReturn:
        raise errors.Failed("enough of it")

    monkeypatch.setattr(newer_copies, "look", look)
    monkeypatch.setattr(leadership.Leadership, "preview", preview)
    monkeypatch.setattr(leadership.Leadership, "begin", begin)
    return where


def ended(where: tree.Tree, monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """How a start with these words ends."""
    monkeypatch.setattr(sys, "argv", ["roundsmand", "--root", str(where.root), *words])
    with pytest.raises(SystemExit) as end:
        daemon.main()
    return end.value.code


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_restored_start_ends_where_a_node_keeps_a_newer_copy(
    candidates: tree.Tree,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    *,
    dry: tuple[str, ...],
) -> None:
    here = store.read(candidates.config).serial_no

    assert ended(candidates, monkeypatch, "--restored", *dry) == 11

    kept = f"node2 keeps a copy of version 500, newer than the configuration here (version {here}): "
    said = capsys.readouterr().out if dry else caplog.text
    assert kept in said
    assert "node3 did not say whether it keeps a newer copy of the configuration" in said


def test_a_newer_copy_that_a_person_discards_is_in_the_audit_log(
    candidates: tree.Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    assert ended(candidates, monkeypatch, "--restored", "--discard-copies") == "roundsmand: enough of it"

    (line,) = (record.getMessage() for record in caplog.records if record.name == log_output.AUDIT)
    assert line.endswith("started with --discard-copies: the copy of version 500 on node2 counts as lost")
    assert "node3 did not say whether it keeps a newer copy" in caplog.text


def test_a_newer_copy_that_would_be_discarded_is_previewed(
    candidates: tree.Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(candidates, monkeypatch, "--restored", "--discard-copies", "--dry-run") == 0

    assert capsys.readouterr().out.splitlines() == [
        "roundsmand: it would lead",
        "roundsmand: the copy of version 500 on node2 counts as lost",
        "roundsmand: node3 did not say whether it keeps a newer copy of the configuration",
    ]


def test_a_move_of_the_master_role_by_a_backup_asks_for_newer_copies_too(
    candidates: tree.Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*_: object, **__: object) -> tuple[Step, list[str]]:
        return Step.BEGIN, ["node2 is the master now"]

    monkeypatch.setattr(master_failover, "run", run)
    monkeypatch.setattr(log_output, "install", lambda **_: None)

    def moved(*words: str) -> tuple[int, str]:
        status = daemon._master_failover(candidates, daemon._options(["--master-failover", "node2", *words]))
        return status, capsys.readouterr().out

    silent = "roundsmand: node3 did not say whether it keeps a newer copy of the configuration\n"
    done, lost = "roundsmand: node2 is the master now\n", "the copy of version 500 on node2 counts as lost"
    assert moved() == (0, done)
    for dry in ((), ("--dry-run",)):
        status, text = moved("--restored", *dry)
        assert status == 11
        assert text.startswith("roundsmand: node2 keeps a copy of version 500, newer than the configuration here")
        assert text.endswith(silent)
    assert moved("--restored", "--discard-copies") == (0, f"roundsmand: {lost}\n{silent}{done}")

    *_, line = candidates.audit_log.read_text().splitlines()
    assert "cluster master-failover node2 --restored --discard-copies: node2 is the master now; " + lost in line


def test_a_start_that_is_none_of_a_backup_asks_for_no_copies(
    candidates: tree.Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(candidates, monkeypatch) == "roundsmand: enough of it"


def test_copies_are_discarded_of_a_restored_configuration_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        daemon._options(["--root", "/nowhere", "--discard-copies"])

    assert ended.value.code == 2
    assert "--discard-copies is for --restored" in capsys.readouterr().err


@other_users.only_root
def test_a_dry_run_by_root_leaves_nothing_that_the_daemon_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    with other_users.open_folder() as folder:
        where = tree.Tree(twins.lab(folder, nodes=2, instances=1).controller)
        others_folders.give(where.root)
        before = others_folders.look(where.root)
        monkeypatch.setattr(sys, "argv", ["roundsmand", "--root", str(where.root), "--dry-run"])
        child = os.fork()
        if not child:
            status: object = 9
            try:
                daemon.main()
            except SystemExit as ended:
                status = ended.code
            finally:
                os._exit(status if isinstance(status, int) else 8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        after = others_folders.look(where.root)
        made = {name: after[name] for name in after.keys() - before.keys()}
        assert {owner for owner, *_ in made.values()} <= {others_folders.LESSER}, made
        assert not where.audit_log.exists()


@other_users.only_root
def test_a_move_of_the_master_role_by_root_gives_up_roots_rights_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts the helper programs that the configuration names, which the account of the daemon can write."""
    with other_users.open_folder() as root:
        where = controller(root)
        others_folders.give(root)
        told, tell = os.pipe()

        async def run(*_: object, **__: object) -> tuple[Step, list[str]]:
            os.write(tell, repr((os.getresuid(), os.getresgid(), os.getgroups())).encode())
            return Step.WAIT, []

        monkeypatch.setattr(master_failover, "run", run)
        child = os.fork()
        if not child:
            try:
                os._exit(daemon._master_failover(where, daemon._options(["--master-failover", "node2"])))
            finally:
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        mine = others_folders.LESSER
        assert os.read(told, 1000).decode() == repr(((mine,) * 3, (mine,) * 3, [mine]))
        os.close(told)
        os.close(tell)


def test_a_move_of_the_master_role_is_in_the_audit_log_with_the_user_who_ran_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = controller(tmp_path)
    steps = [Step.WAIT, Step.BEGIN, Step.BEGIN]

    async def run(*_: object, **__: object) -> tuple[Step, list[str]]:
        return steps.pop(0), ["node1 is off: stated now", "node2 is the master now"]

    monkeypatch.setattr(master_failover, "run", run)
    monkeypatch.setattr(log_output, "install", lambda **_: None)
    words = ["--master-failover", "node2", "--confirm-off"]
    assert daemon._master_failover(where, daemon._options(words)) == 1
    assert daemon._master_failover(where, daemon._options([*words, "--dry-run"])) == 0
    assert not where.audit_log.exists()

    assert daemon._master_failover(where, daemon._options(words)) == 0

    *_, line = where.audit_log.read_text().splitlines()
    assert f"command {log_output.account()} door=command-line" in line
    assert "cluster master-failover node2 --confirm-off: node2 is the master now; node1 is off: stated now" in line
    assert "roundsmand: node2 is the master now" in capsys.readouterr().out
