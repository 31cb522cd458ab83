from __future__ import annotations

import json
import os
import pwd
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis, reports, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import node_boot
from ansible_collections.roundsman.cluster.plugins.modules import diagnose

if TYPE_CHECKING:
    import pathlib

CLUSTER_KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NODE = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"
ME = pwd.getpwuid(os.geteuid())
LARGE = r"""printf '{"status":"Ok","details":"'
/usr/bin/yes '\\' | /usr/bin/tr -d '\n' | /usr/bin/head -c 900000
echo '"}'"""
SAID = '{"status": "evacuate", "details": {"psu": 2, "volts": 11.70}}'


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    commands = tmp_path / "etc/roundsman/node-diagnose-commands"
    commands.mkdir(parents=True)
    commands.chmod(0o755)
    write_settings(tmp_path)
    key = tmp_path / "var/lib/roundsman/node.key"
    key.parent.mkdir(parents=True)
    key.write_bytes(signing.node_key(CLUSTER_KEY, NODE))
    key.chmod(0o400)
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path))
    return tmp_path


def write_settings(root: pathlib.Path, *, time_limit: float = 30) -> None:
    path = root / "etc/roundsman/node.json"
    fields = {"node": NODE, "name": "n1", "command_owner": ME.pw_name, "diagnose_time_limit": time_limit}
    path.write_text(json.dumps(fields))
    path.chmod(0o644)


def put(root: pathlib.Path, body: str) -> pathlib.Path:
    path = root / "etc/roundsman/node-diagnose-commands/probe"
    path.write_text("#!/bin/sh\n" + body + "\n")
    os.chown(path, ME.pw_uid, ME.pw_gid)
    path.chmod(0o755)
    return path


def run(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        diagnose.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def delivered(result: dict[str, Any]) -> reports.Report:
    return reports.accept(
        result["envelope"].encode(),
        now=int(time.time()),
        cluster_key=CLUSTER_KEY,
        nodes=[NODE],
        floor=lambda _node: 0,
    )


def test_a_report_holds_the_boot_and_the_replicas_of_its_node(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, 'echo \'{"status": "Ok"}\'')
    boot = root / node_boot.BOOT_ID
    boot.parent.mkdir(parents=True)
    boot.write_text("0f2a4b6c-1111-2222-3333-444455556666\n")
    assert delivered(run(capsys, command="probe")).facts == replicas.NodeFacts(boot.read_text().strip(), ())


def problem(capsys: pytest.CaptureFixture[str]) -> reports.Problem:
    result = run(capsys, command="probe")
    report = delivered(result)
    assert report.problem is not None
    assert report.diagnosis is None
    assert result["problem"] == vars(report.problem)
    assert "status" not in result
    assert "failed" not in result
    return report.problem


def test_without_a_command_nothing_is_known_of_the_node_s_health(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(capsys)
    assert (result["problem"]["reason"], result["changed"]) == ("not_configured", False)
    assert delivered(result).diagnosis is None


@pytest.mark.parametrize("asked", ["", "other"])
def test_the_module_runs_what_the_node_s_agent_runs(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    put(root, "echo '{}'".format(SAID))
    other = put(root, """echo '{"status": "Ok"}'""")
    other.rename(other.with_name("other"))
    put(root, "echo '{}'".format(SAID))
    write_agent(root, '{"diagnose_command": "probe"}')
    result = run(capsys, command=asked)
    assert (result["status"], result["command"]) == ("evacuate", "probe")
    assert delivered(result).command == "probe"


def test_without_a_command_of_the_agent_the_given_one_runs(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, "echo '{}'".format(SAID))
    write_agent(root, "{}")
    assert run(capsys, command="probe")["status"] == "evacuate"


def test_settings_of_the_agent_that_cannot_be_read_are_a_problem(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, """echo '{"status": "Ok"}'""")
    write_agent(root, "{")
    assert problem(capsys).reason == "settings"


def write_agent(root: pathlib.Path, text: str) -> None:
    path = root / "etc/roundsman/agent.json"
    path.write_text(text)
    path.chmod(0o644)


def test_the_command_s_diagnosis_is_signed_exactly(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, "echo '{}'".format(SAID))
    result = run(capsys, command="probe")
    assert result["status"] == "evacuate"
    assert delivered(result).diagnosis == diagnosis.parse(SAID)


def test_check_mode_says_the_same(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, "echo '{}'".format(SAID))
    assert delivered(run(capsys, command="probe", _ansible_check_mode=True)).diagnosis == diagnosis.parse(SAID)


def test_a_missing_command_is_a_problem(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert problem(capsys).reason == "missing"


def test_a_world_writable_command_is_a_problem(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, "echo '{}'".format(SAID)).chmod(0o757)
    assert problem(capsys).reason == "mode"


def test_a_world_writable_folder_is_a_problem(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, "echo '{}'".format(SAID)).parent.chmod(0o777)
    assert problem(capsys).reason == "mode"


def test_a_blank_name_is_a_problem_and_not_the_built_in_ok(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, command=" ")["problem"]["reason"] == "name"


def test_a_command_that_hangs_is_a_problem(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_settings(root, time_limit=0.3)
    put(root, "echo '{}'; exec /bin/sleep 600".format(SAID))
    assert problem(capsys).reason == "timeout"


def test_a_command_that_fails_is_a_problem_whatever_it_printed(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, "echo '{}'; echo no sensors >&2; exit 3".format(SAID))
    assert problem(capsys) == reports.Problem("exit", "exit code 3: no sensors")


def test_a_command_that_is_killed_is_a_problem(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, "echo '{}'; kill -TERM $$".format(SAID))
    assert problem(capsys).reason == "killed"


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("echo fine", "not_json"),
        ("true", "not_json"),
        ("echo '{\"status\": NaN}'", "not_json"),
        ('echo \'{"status": "ok"}\'', "unknown_status"),
        ("echo '[]'", "unknown_status"),
        ('echo \'{"status": "live-repair", "command": 5}\'', "bad_command"),
        ('echo \'{"status": "live-repair", "command": ["x"]}\'', "bad_command"),
        ('echo \'{"status": "live-repair", "command": ""}\'', "bad_command"),
        ("exec /bin/cat /dev/zero", "oversized"),
        (LARGE, "oversized"),
    ],
)
def test_a_command_that_prints_no_usable_diagnosis_is_a_problem(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], printed: str, reason: str
) -> None:
    put(root, printed)
    assert problem(capsys).reason == reason


@pytest.mark.parametrize("file", ["etc/roundsman/node.json", "var/lib/roundsman/node.key"])
def test_without_settings_or_key_the_module_fails_and_signs_nothing(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    (root / file).unlink()
    result = run(capsys)
    assert result["failed"] is True
    assert file in result["msg"]
    assert "envelope" not in result
