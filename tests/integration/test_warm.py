"""Ansible kept warm does what the plain command does, and nothing of a run is left when it is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ansible_runner
import pytest
from ansible_collections.roundsman.cluster.daemon.warm import keeping
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LIMIT = 60.0
PLAY = """
- hosts: all
  gather_facts: false
  vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}", ansible_connection: local}
  tasks:
    - name: A module
      ansible.builtin.command: printf '%s' "{{ lookup('env', 'WORD') }} {{ word | default('') }}"
      register: said
      changed_when: false
    - name: What it said
      ansible.builtin.debug: {msg: "{{ said.stdout }} in {{ lookup('pipe', 'pwd') }}"}
    - name: A failure that is looked over
      ansible.builtin.fail: {msg: no}
      ignore_errors: true
    - name: A tag
      ansible.builtin.debug: {msg: tagged}
      tags: [never, extra]
"""
WAITING = """
- hosts: localhost
  gather_facts: false
  vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}", ansible_connection: local}
  tasks:
    - ansible.builtin.command: sh -c 'echo $$ > {{ pid_file }}; exec sleep 600'
"""


class Warm:
    """A warm server, and runs with it and without it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.where = tree.Tree(folder / "root")
        keeping.install_shim(self.where)
        self.keeper = keeping.Keeper(self.where)
        self.runs = 0
        self.start()

    def start(self) -> None:
        self.server = self.keeper._server = self.keeper._start()
        socket = keeping.shim_folder(self.where).parent / "warm.sock"
        end = time.monotonic() + LIMIT
        while not socket.exists():
            assert time.monotonic() < end
            time.sleep(0.01)

    def environment(self, *, warm: bool, **more: str) -> dict[str, str]:
        self.runs += 1
        run = self.folder / f"run{self.runs}"
        run.mkdir()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {
            "PATH": f"{keeping.shim_folder(self.where)}:{path}" if warm else path,
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "WORD": "one",
            "ANSIBLE_FORKS": "1",
            run_group.RUN_VARIABLE: str(run),
            **more,
        }

    def playbook(self, text: str, *arguments: str, warm: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "play.yml").write_text(text)
        return subprocess.run(
            ["ansible-playbook", "-i", "h1,h2", str(self.folder / "play.yml"), *arguments],
            env=self.environment(warm=warm, **more),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    made = Warm(tmp_path)
    yield made
    made.keeper.stop()


def is_warm(one: subprocess.CompletedProcess[str]) -> bool:
    return "not warm" not in one.stderr


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ((), {}),
        (("-e", "word=two", "--tags", "all,extra"), {"WORD": "three"}),
        (("--limit", "h2", "--check", "--diff"), {"ANSIBLE_FORKS": "2"}),
        (("--start-at-task", "What it said"), {}),
        (("--syntax-check",), {}),
        (("--list-tasks",), {}),
        (("--nonsense",), {}),
        (("--vault-password-file", "/does/not/exist"), {}),
    ],
)
def test_a_warm_run_says_and_ends_as_a_plain_one(warm: Warm, arguments: tuple[str, ...], more: dict[str, str]) -> None:
    warm.playbook(PLAY, "-e", "word=before", "--limit", "h1")
    found, plain = (warm.playbook(PLAY, *arguments, warm=is_so, **more) for is_so in (True, False))
    assert (found.stdout, found.returncode) == (plain.stdout, plain.returncode)
    assert sorted(found.stderr.splitlines()) == sorted(plain.stderr.splitlines())


@pytest.mark.parametrize(
    "more",
    [
        {"ANSIBLE_NOCOLOR": "0", "ANSIBLE_FORCE_COLOR": "1"},
        {"ANSIBLE_STDOUT_CALLBACK": "minimal"},
        {"ANSIBLE_GATHERING": "implicit"},
        {"ANSIBLE_HOME": "/tmp/roundsman-other-home"},
        {"LC_ALL": "C.UTF-8"},
    ],
)
def test_a_setting_that_cannot_be_honoured_is_said_aloud_and_the_plain_command_honours_it(
    warm: Warm, more: dict[str, str]
) -> None:
    warm.playbook(PLAY)
    found, plain = (warm.playbook(PLAY, warm=is_so, **more) for is_so in (True, False))
    assert next(iter(more)) in found.stderr
    assert not is_warm(found)
    assert (found.stdout, found.returncode) == (plain.stdout, plain.returncode)


def test_a_configuration_file_of_its_own_is_said_aloud_and_honoured(warm: Warm) -> None:
    warm.playbook(PLAY)
    (warm.folder / "ansible.cfg").write_text("[defaults]\nstdout_callback = minimal\n")
    found = warm.playbook(PLAY)
    assert "its configuration file is" in found.stderr
    assert "PLAY RECAP" not in found.stdout


def test_without_a_server_the_plain_command_runs_in_silence(warm: Warm) -> None:
    warm.keeper.stop()
    found = warm.playbook(PLAY)
    assert found.returncode == 0, found.stderr
    assert "PLAY RECAP" in found.stdout
    assert is_warm(found)


def test_a_changed_file_ends_the_server_and_the_run_is_plain(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    warm.playbook(PLAY)
    changed = Path(ansible_runner.__file__).with_name("__init__.py").parents[1] / "yaml/__init__.py"
    before = changed.stat()
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    try:
        found = warm.playbook(PLAY)
    finally:
        os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert f"{changed} has changed" in found.stderr
    assert found.returncode == 0
    assert warm.server.wait(LIMIT) == 0


def _play(warm: Warm, name: str, *, is_warm: bool, **more: Any) -> tuple[Any, list[dict[str, Any]]]:
    folder = warm.folder / name
    (folder / "project").mkdir(parents=True)
    (folder / "project/play.yml").write_text(PLAY)
    events: list[dict[str, Any]] = []

    def listen(event: dict[str, Any]) -> bool:
        events.append(event)
        return True

    runner = ansible_runner.run(
        private_data_dir=str(folder),
        ident="run",
        playbook="play.yml",
        inventory="h1\nh2\n",
        envvars=warm.environment(warm=is_warm),
        settings={"suppress_env_files": True, "pexpect_timeout": 1},
        event_handler=listen,
        quiet=True,
        **more,
    )
    return runner, events


def _shape(value: Any) -> Any:
    """An event without what differs between any two runs."""
    loose = {"uuid", "parent_uuid", "play_uuid", "task_uuid", "playbook_uuid", "created", "start", "end", "delta"}
    loose |= {"duration", "pid", "playbook", "task_path", "runner_ident", "stdout", "play_pattern"}
    if isinstance(value, dict):
        return {key: _shape(one) for key, one in value.items() if key not in loose}
    if isinstance(value, list):
        return [_shape(one) for one in value]
    return value.replace("/cold", "").replace("/warm", "") if isinstance(value, str) else value


def test_ansible_runner_has_the_same_events_artifacts_and_status(warm: Warm) -> None:
    (first, warm_events), (second, cold_events) = _play(warm, "warm", is_warm=True), _play(warm, "cold", is_warm=False)
    assert (first.status, first.rc, first.stats) == (second.status, second.rc, second.stats)
    by_name = [
        sorted(json.dumps(_shape(one), sort_keys=True) for one in events) for events in (warm_events, cold_events)
    ]
    assert [json.loads(one)["event"] for one in by_name[0]] == [json.loads(one)["event"] for one in by_name[1]]
    assert len(warm_events) == len(cold_events) > 10
    artifacts = [{path.name for path in (warm.folder / name / "artifacts/run").iterdir()} for name in ("warm", "cold")]
    assert artifacts[0] == artifacts[1]


def _waiting(warm: Warm, start: Callable[[Mapping[str, str], Path], Any]) -> tuple[Any, int]:
    """Start a play whose module waits; returns what `start` returns, and the module's process."""
    pid_file = warm.folder / "module.pid"
    play = warm.folder / "waiting.yml"
    play.write_text(WAITING)
    started = start(warm.environment(warm=True), pid_file)
    end = time.monotonic() + LIMIT
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return started, int(pid_file.read_text())


def _shim(warm: Warm) -> Callable[[Mapping[str, str], Path], subprocess.Popen[bytes]]:
    def start(environment: Mapping[str, str], pid_file: Path) -> subprocess.Popen[bytes]:
        command = ["ansible-playbook", str(warm.folder / "waiting.yml"), "-e", f"pid_file={pid_file}"]
        return subprocess.Popen(command, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return start


def _gone(pid: int) -> bool:
    """Wait for the end of a process that is not ours."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    import select  # noqa: PLC0415 - of this line only

    ready, _, _ = select.select([handle], [], [], LIMIT)
    os.close(handle)
    return bool(ready)


def test_when_the_command_is_killed_its_module_ends_too(warm: Warm) -> None:
    shim, module = _waiting(warm, _shim(warm))
    shim.kill()
    shim.wait()
    assert _gone(module)


def test_a_signal_to_the_command_reaches_the_run_and_is_how_it_ends(warm: Warm) -> None:
    shim, module = _waiting(warm, _shim(warm))
    shim.send_signal(signal.SIGTERM)
    assert shim.wait(LIMIT) != 0
    assert run_group.members(warm.folder / f"run{warm.runs}") or _gone(module)


def test_a_run_goes_on_without_the_server_and_its_end_is_known(warm: Warm) -> None:
    shim, module = _waiting(warm, _shim(warm))
    warm.server.kill()
    warm.server.wait()
    os.kill(module, signal.SIGTERM)
    assert shim.wait(LIMIT) == 2


def test_every_process_of_a_warm_run_belongs_to_the_run(warm: Warm) -> None:
    shim, module = _waiting(warm, _shim(warm))
    run = warm.folder / f"run{warm.runs}"
    assert module in run_group.members(run)
    run_group.end(run)
    assert run_group.members(run) == frozenset()
    shim.wait()
    assert _gone(module)
    assert warm.server.poll() is None
