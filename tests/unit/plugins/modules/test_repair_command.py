from __future__ import annotations

import json
import os
import pwd
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.roundsman.cluster.plugins.modules import repair_command

if TYPE_CHECKING:
    import pathlib

ME = pwd.getpwuid(os.geteuid())
SAID = '{"status": "live-repair",  "command": "fan", "details": {"n": 1.50, "name": "Lüfter"}}'


@pytest.fixture
def commands(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    folder = tmp_path / "etc/roundsman/node-repair-commands"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    settings = tmp_path / "etc/roundsman/node.json"
    settings.write_text(json.dumps({"node": "n", "command_owner": ME.pw_name}))
    settings.chmod(0o644)
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path))
    return folder


def put(commands: pathlib.Path, body: str) -> pathlib.Path:
    path = commands / "fan"
    path.write_text("#!/bin/sh\n" + body + "\n")
    os.chown(path, ME.pw_uid, ME.pw_gid)
    path.chmod(0o755)
    return path


def run(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(dict({"command": "fan"}, **options)), pytest.raises(SystemExit):
        repair_command.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_the_command_gets_the_diagnosis_byte_for_byte(
    commands: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(commands, "/bin/cat >{}/given; echo done; echo warning >&2".format(tmp_path))
    result = run(capsys, input=SAID)
    assert (tmp_path / "given").read_bytes() == SAID.encode()
    assert (result["rc"], result["changed"]) == (0, True)
    assert (result["stdout"], result["stderr"]) == ("done\n", "warning\n")


def test_a_failing_command_fails_the_task_and_says_how(
    commands: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(commands, "/usr/bin/yes | /usr/bin/head -n 9000; echo end; echo broken >&2; exit 3")
    result = run(capsys, input=SAID)
    assert (result["failed"], result["rc"], result["reason"]) == (True, 3, "exit")
    assert result["stdout"].endswith("y\nend\n")
    assert len(result["stdout"]) == repair_command.TAIL
    assert result["stderr"] == "broken\n"


def test_a_killed_command_fails_the_task(commands: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(commands, "kill -KILL $$")
    result = run(capsys)
    assert (result["failed"], result["rc"], result["reason"]) == (True, -9, "killed")


def test_a_command_beyond_its_time_limit_fails_the_task(
    commands: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(commands, "exec /bin/sleep 600")
    result = run(capsys, time_limit=0.3)
    assert (result["failed"], result["reason"]) == (True, "timeout")


@pytest.mark.parametrize("check", [False, True])
def test_a_command_that_is_not_whitelisted_fails_the_task_and_does_not_run(
    commands: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], check: bool
) -> None:
    path = put(commands, "echo >{}/ran".format(tmp_path))
    path.chmod(0o757)
    result = run(capsys, _ansible_check_mode=check)
    assert (result["failed"], result["reason"]) == (True, "mode")
    path.unlink()
    assert run(capsys, _ansible_check_mode=check)["reason"] == "missing"
    assert run(capsys, command="../fan", _ansible_check_mode=check)["reason"] == "name"
    assert not (tmp_path / "ran").exists()


def test_check_mode_says_that_it_would_run_and_runs_nothing(
    commands: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(commands, "echo >{}/ran".format(tmp_path))
    result = run(capsys, _ansible_check_mode=True)
    assert (result["changed"], result["msg"]) == (True, "would run {}".format(path))
    assert not (tmp_path / "ran").exists()


def test_a_dictionary_is_no_input_since_writing_it_out_would_change_it(
    commands: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(commands, "echo >{}/ran".format(tmp_path))
    result = run(capsys, input={"status": "live-repair"})
    assert (result["failed"], result["reason"]) == (True, "input")
    assert not (tmp_path / "ran").exists()


def test_a_node_without_settings_repairs_nothing(commands: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (commands.parent / "node.json").unlink()
    result = run(capsys)
    assert (result["failed"], result["reason"]) == (True, "settings")
