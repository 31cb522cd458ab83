"""Real runs of ansible-runner, of plays without nodes."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import opcode_process, process, settling, task_log
from ansible_collections.roundsman.cluster.plugins.plugin_utils import (
    ansible_runs,
    durable_files,
    run_group,
    run_records,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, recording

if TYPE_CHECKING:
    from collections.abc import Mapping


SECRET = "e7c2-secret-of-the-daemon"
PYTHON = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def ran(folder: Path, tasks: list[dict[str, Any]], *, time_limit: float = 60, **variables: str) -> Path:
    """The folder of a run of these tasks, which has ended."""
    play = [{"name": "Try", "hosts": "localhost", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(json.dumps(play))
    environment: Mapping[str, str] = {
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "ANSIBLE_COLLECTIONS_PATH": str(ansible_runs.COLLECTIONS),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ROUNDSMAN_ROOT": str(folder),
    }
    spec = process.Spec(
        kind="test",
        playbook=folder / "play.yml",
        variables=variables,
        environment=environment,
        inventory=json.dumps({"all": {"hosts": {"localhost": PYTHON}}}).encode(),
        granted={},
        time_limit=time_limit,  # type: ignore[arg-type]  # shorter than any real one
    )
    run, processes = folder / "1/0", process.Processes()

    async def scenario() -> None:
        processes.start(run, spec)
        await processes.ended(run)

    asyncio.run(scenario())
    return run


@pytest.mark.slow
def test_a_run_that_hangs_is_ended_at_its_time_limit_with_all_its_processes(tmp_path: Path) -> None:
    script = "import os, subprocess; subprocess.Popen(['sleep', '600'], env={}, start_new_session=True)"
    hang = f'{sys.executable} -S -c "{script}"; {sys.executable} -S -c "import time; time.sleep(600)"'
    off = recording.encode(changes.NodePowered("n3", powered=False))
    run = tmp_path / "1/0"
    run.mkdir(parents=True)
    run_records.append(run, off)
    ran(tmp_path, [{"name": "Hang", "ansible.builtin.shell": hang}], time_limit=6)
    found = asyncio.run(settling.settle(run))
    assert (found.succeeded, found.text) == (False, "time limit of 6 s reached: all of its processes were ended")
    assert found.recorded == [changes.NodePowered("n3", powered=False)]
    assert [entry[2:] for entry in task_log.entries(run, first=1)] == [["started", "Hang"]]
    assert run_group.members(run) == frozenset()


def test_a_run_has_begun_when_the_name_of_its_folder_is_durable_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable_files, "sync_folder", synced.append)
    run = tmp_path / "7/0"
    run.mkdir(parents=True)
    opcode_process._begin(run)
    assert synced == [run, run.parent]


def test_nothing_of_the_daemons_environment_and_of_hidden_results_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BMC_PASSWORD", "HTTPS_PROXY", "ANSIBLE_GALAXY_SERVER_X_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    hidden = SECRET[::-1]
    (tmp_path / "hidden").write_text(hidden)
    tasks: list[dict[str, Any]] = [
        {"name": "Read", "ansible.builtin.command": f"cat {tmp_path}/hidden", "no_log": True, "changed_when": False},
        {"name": "Tell", "ansible.builtin.fail": {"msg": "no more"}, "ignore_errors": True},
        {"name": "Pass", "ansible.builtin.debug": {"msg": "x"}, "when": "false"},
    ]
    run = ran(tmp_path, tasks)
    assert asyncio.run(settling.settle(run)).succeeded
    told = [entry[2:] for entry in task_log.entries(run, first=1)]
    assert [kind for kind, _ in told] == ["started", "ok", "started", "ignored", "started", "skipped"]
    assert told[3][1].endswith("no more")
    files = [path for path in run.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert [path for path in files if {SECRET, hidden} & set(_words(path))] == []
    assert set(json.loads((run / "runner/artifacts/run/command").read_bytes())) == {"command", "cwd"}
    assert stat.S_IMODE((run / "runner").stat().st_mode) == 0o700
    assert stat.S_IMODE((run / "output").stat().st_mode) == 0o600


def _words(path: Path) -> list[str]:
    text = path.read_text(errors="replace")
    return [one for one in (SECRET, SECRET[::-1]) if one in text]


def test_a_play_that_fails_says_where_and_why(tmp_path: Path) -> None:
    run = ran(tmp_path, [{"name": "Try it", "ansible.builtin.command": "false"}])
    assert asyncio.run(settling.settle(run)).text.startswith("Try it: non-zero return code")
    assert [entry[2] for entry in task_log.entries(run, first=1)] == ["started", "failed"]


def test_what_is_told_of_a_failure_has_no_secret(tmp_path: Path) -> None:
    said = f"Command 'drbdsetup-84 connect r0 --shared-secret={SECRET} --protocol=C' did not terminate"
    run = ran(tmp_path, [{"name": "Adjust", "ansible.builtin.fail": {"msg": said}}])
    text = "Command 'drbdsetup-84 connect r0 --shared-secret=hidden --protocol=C' did not terminate"
    assert asyncio.run(settling.settle(run)).text == text
    assert [entry[3] for entry in task_log.entries(run, first=1)][-1].endswith(text)
    assert SECRET not in "".join(path.read_text() for path in run.glob("*.json*"))


def test_a_loop_that_fails_says_why_its_items_did(tmp_path: Path) -> None:
    fail = {"name": "Check", "ansible.builtin.command": "{{ item }}", "loop": ["true", "false"], "ignore_errors": True}
    reach = {"name": "Reach", "ansible.builtin.ping": {}, "delegate_to": "{{ item }}", "loop": ["nowhere.invalid"]}
    run = ran(tmp_path, [fail, {**reach, "vars": {"ansible_connection": "ssh"}}])
    text = asyncio.run(settling.settle(run)).text
    assert text.startswith("Reach: ")
    assert "nowhere.invalid" in text
    assert "items" not in text.lower()
    told = [entry[3] for entry in task_log.entries(run, first=1)]
    assert any("Check: ignored" in line and "non-zero return code" in line for line in told)
    assert not any("tems" in line for line in told)


FULL = """
import os, pathlib, resource
pid = os.getpid()
while b"ansible-playbook" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
    pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
while b"ansible-playbook" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))
    pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
"""


@pytest.mark.slow
def test_a_play_that_cannot_write_its_events_any_more_is_ended_long_before_its_time_limit(tmp_path: Path) -> None:
    (tmp_path / "full.py").write_text(FULL)
    # The event of an item comes from a worker, and the play waits for the one that follows it.
    fill = {"name": "Fill", "ansible.builtin.command": f"{sys.executable} -S {tmp_path}/full.py", "loop": [1, 2]}
    run = ran(tmp_path, [fill], time_limit=600)
    found = asyncio.run(settling.settle(run))
    assert not found.succeeded
    assert found.text.startswith("its play could not write down what happened, as on a full disk")
    assert run_group.members(run) == frozenset()


def test_variables_may_be_longer_than_an_argument_of_a_program(tmp_path: Path) -> None:
    say = {"name": "Say", "ansible.builtin.set_stats": {"data": {"roundsman_text": "{{ long | length }}"}}}
    found = run_records.result(ran(tmp_path, [say], long="x" * 300_000))
    assert (found["status"], found["text"]) == ("success", "300000")


def test_a_play_leaves_a_value_even_if_it_fails(tmp_path: Path) -> None:
    say = {"name": "Say", "ansible.builtin.set_stats": {"data": {"roundsman_value": [{"name": "{{ who }}", "n": 1}]}}}
    fail = {"name": "Fail", "ansible.builtin.fail": {"msg": "not all is done"}}
    found = run_records.result(ran(tmp_path, [say, fail], who="node3"))
    assert (found["status"], found["text"], found["value"]) == ("error", "not all is done", [{"name": "node3", "n": 1}])
