"""Under ansible-runner, which runs the command on a terminal, a warm run is a plain one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import ansible_runner
import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import opcode_process
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

from . import warming

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.slow
ASYNC = """
    - name: In the background
      ansible.builtin.command: "true"
      async: 60
      poll: 0
      run_once: true
      register: job
    - name: Its end
      ansible.builtin.async_status: {jid: "{{ job.ansible_job_id }}"}
      run_once: true
      register: ended
      until: ended is finished
      delay: 1
      retries: 60
"""
EVERYTHING = f"""
- hosts: all
  gather_facts: false
  tasks: [{{ansible.builtin.raw: "true"}}]
- hosts: h1:h2
  gather_facts: false
  handlers: [{{name: A handler, ansible.builtin.debug: {{msg: handled}}}}]
  tasks:
    - block: [{{name: Fails, ansible.builtin.fail: {{msg: "no"}}}}]
      rescue: [{{ansible.builtin.debug: {{msg: "{{{{ ansible_failed_task.name }}}}"}}}}]
      always: [{{ansible.builtin.debug: {{msg: always}}}}]
    - {{name: Notifies, ansible.builtin.debug: {{msg: x}}, changed_when: true, notify: A handler}}
    - {{name: Loop, ansible.builtin.debug: {{msg: "{{{{ item }}}}"}}, loop: [1, 2]}}
    - {{ansible.builtin.include_role: {{name: part}}}}
    - {{name: Hidden, ansible.builtin.debug: {{msg: secret}}, no_log: true}}
    - {{name: Elsewhere, ansible.builtin.command: echo there, delegate_to: h2, run_once: true}}
    - {{name: Skipped, ansible.builtin.debug: {{msg: x}}, when: false}}
    - {{ansible.builtin.set_stats: {{data: {{a: 1}}}}}}
    - {{name: On one, ansible.builtin.fail: {{msg: "no"}}, when: inventory_hostname == 'h2'}}
{ASYNC}
"""
HOSTS = """
h[1:2] ansible_connection=local ansible_async_dir={folder}/async
h3 ansible_connection=ssh ansible_ssh_executable={folder}/ssh
[all:vars]
ansible_python_interpreter="{{{{ ansible_playbook_python }}}}"
"""
ASKING = """
- hosts: h1
  gather_facts: false
  vars_prompt: [{name: word, prompt: A word, private: false}]
  tasks:
    - {ansible.builtin.pause: {prompt: Go on}, register: said}
    - ansible.builtin.pause: {seconds: 1}
    - ansible.builtin.debug: {msg: "{{ word }} and {{ said.user_input }}"}
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[warming.Warm]:
    made = warming.Warm(tmp_path_factory.mktemp("warm"))
    ssh = made.folder / "ssh"
    ssh.write_text("#!/bin/sh\necho no route >&2\nexit 255\n")
    ssh.chmod(0o755)
    _play(made, warming.NOTHING, is_warm=True)
    yield made
    made.keeper.stop()


def _play(warm: warming.Warm, text: str, *, is_warm: bool, **more: Any) -> tuple[Any, list[Any], Mapping[str, int]]:
    """A run by ansible-runner, its events by host, and the files of its artifacts with their modes."""
    folder = warm.folder / f"{'warm' if is_warm else 'cold'}{warm.runs}"
    role = folder / "project/roles/part/tasks"
    role.mkdir(parents=True)
    (role / "main.yml").write_text("- ansible.builtin.debug: {msg: in the role}\n")
    (folder / "project/play.yml").write_text(text)
    events: list[Any] = []
    statuses: list[str] = []

    def listen(event: Any) -> bool:
        events.append(event)
        return True

    runner = ansible_runner.run(
        private_data_dir=str(folder),
        ident="run",
        playbook="play.yml",
        inventory=HOSTS.format(folder=warm.folder),
        envvars=warm.environment(warm=is_warm),
        settings={"suppress_env_files": True, "pexpect_timeout": 1},
        event_handler=listen,
        status_handler=lambda status, **_: statuses.append(status["status"]),
        quiet=True,
        **more,
    )
    kept = [_shape(event) for event in events if event["event"] != "runner_retry"]
    hosts = sorted(kept, key=lambda event: str(event.get("event_data", {}).get("host", "")))
    files = {
        re.sub(r"\d+-[0-9a-f-]{36}", "event", str(path.relative_to(folder))): path.stat().st_mode
        for path in (folder / "artifacts").rglob("*")
    }
    return (runner.status, runner.rc, runner.stats, statuses), hosts, files


def _shape(value: Any) -> Any:
    """An event without what differs between any two runs."""
    loose = {"uuid", "parent_uuid", "play_uuid", "task_uuid", "playbook_uuid", "created", "start", "end", "delta"}
    loose |= {"duration", "pid", "runner_ident", "ansible_job_id", "results_file", "attempts", "counter"}
    if isinstance(value, dict):
        return {key: _shape(one) for key, one in value.items() if key not in loose | {"start_line", "end_line"}}
    if isinstance(value, list):
        return [_shape(one) for one in value]
    if isinstance(value, str):
        without = re.sub(r"/(warm|cold)\d+", "", value)
        return re.sub(r"\d+[-:.][\d:. -]+|j\d+\.\d+|\"attempts\": \d+", "", without)
    return value


def test_ansible_runner_has_the_same_events_artifacts_and_status(warm: warming.Warm) -> None:
    found, plain = (_play(warm, EVERYTHING, is_warm=is_so) for is_so in (True, False))
    assert found == plain
    assert found[0][2]["dark"] == {"h3": 1}
    assert len(found[1]) > 60


def test_a_play_that_asks_is_answered(warm: warming.Warm) -> None:
    answers = {"A word": "yes", "Go on:": "indeed"}
    found, plain = (_play(warm, ASKING, is_warm=is_so, passwords=answers) for is_so in (True, False))
    assert found == plain
    assert "yes and indeed" in str(found[1])


def test_a_play_that_nobody_answers_ends_at_its_time_limit_with_all_of_its_processes(warm: warming.Warm) -> None:
    (status, rc, _, _), events, _ = _play(warm, ASKING, is_warm=True, passwords={"A word": "yes"}, timeout=10)
    assert (status, rc) == ("timeout", 254)
    assert "Go on" in str(events)
    warming.wait_until(lambda: not run_group.members(warm.run))


def test_when_the_guard_is_killed_the_opcode_ends_in_error_and_nothing_of_it_goes_on(warm: warming.Warm) -> None:
    environment = warm.environment(ROUNDSMAN_ROOT=str(warm.where.root))
    run, pid_file = warm.run, warm.run / "module.pid"
    warm.command(warming.WAITING)
    opcode = {
        "playbook": str(warm.folder / "play.yml"),
        "variables": {"pid_file": str(pid_file)},
        "environment": environment,
        "time_limit": warming.LIMIT,
    }
    (run / "runner").mkdir()
    (run / "opcode.json").write_text(json.dumps(opcode))
    (run / "inventory.json").write_text(json.dumps({"all": {"hosts": {"h1": {}}}}))
    with (run / "livelock").open("w") as livelock:
        number = livelock.fileno()
        command = [sys.executable, "-m", opcode_process.__name__, str(run), str(number)]
        process = subprocess.Popen(command, env={**os.environ, **environment}, pass_fds=(number,), cwd=run)
    warming.wait_until(lambda: pid_file.exists() and bool(pid_file.read_text().strip()))
    guard, *others = warm.ancestors(int(pid_file.read_text()))
    os.kill(guard, signal.SIGKILL)
    process.wait(warming.LIMIT)
    result = json.loads((run / "result.json").read_bytes())
    assert (result["status"], result["rc"]) == ("error", 250)
    assert "nobody knows how it ended" in result["text"]
    assert all(warming.is_gone(pid) for pid in others)
    assert run_group.members(run) == frozenset()
