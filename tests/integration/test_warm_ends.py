"""However a warm run, its command or its server ends: the command says so, nothing runs twice, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pexpect  # type: ignore[import-untyped]  # it has no types
import pytest
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.warm import client, keeping
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

from tests import child_signals

from . import warming

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
PAUSE = f"{warming.HEAD}    - {{ansible.builtin.pause: {{prompt: Go on}}}}\n"


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[warming.Warm]:
    made = warming.Warm(tmp_path_factory.mktemp("warm"))
    made.succeed()
    yield made
    made.keeper.stop()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[warming.Warm]:
    """A server that a test may end."""
    made = warming.Warm(tmp_path)
    made.succeed()
    yield made
    made.keeper.stop()


def test_when_the_command_is_killed_its_module_ends_too(warm: warming.Warm) -> None:
    command, module = warm.waiting()
    command.kill()
    command.wait()
    assert warming.is_gone(module)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_command_ends_it_as_it_ends_the_plain_one(warm: warming.Warm, number: signal.Signals) -> None:
    ends = []
    for is_warm in (True, False):
        command, _ = warm.waiting(warm=is_warm)
        command.send_signal(number)
        ends.append(command.wait(warming.LIMIT))
        run_group.end(warm.run)
    assert ends[0] == ends[1] != 0


def test_a_run_that_is_killed_is_how_the_command_ends(warm: warming.Warm) -> None:
    command, module = warm.waiting()
    _, run, *_ = warm.ancestors(module)
    os.kill(run, signal.SIGKILL)
    assert command.wait(warming.LIMIT) == -signal.SIGKILL
    run_group.end(warm.run)
    assert warming.is_gone(module)


def test_a_command_that_is_ended_before_it_was_accepted_runs_nothing(warm: warming.Warm) -> None:
    started = warm.folder / "started"
    text = f"{warming.HEAD}    - ansible.builtin.file: {{path: {started}, state: touch}}\n"
    os.kill(warm.server.pid, signal.SIGSTOP)
    try:
        command = subprocess.Popen(warm.command(text), env=warm.environment(), start_new_session=True)
        warming.wait_until(lambda: b"client.py" in Path(f"/proc/{command.pid}/cmdline").read_bytes())
        warming.wait_until(lambda: ") S " in Path(f"/proc/{command.pid}/stat").read_text())
        command.send_signal(signal.SIGTERM)
        assert command.wait(warming.LIMIT) == -signal.SIGTERM
    finally:
        os.kill(warm.server.pid, signal.SIGCONT)
    warm.succeed()
    assert not started.exists()


def test_every_process_of_a_warm_run_belongs_to_the_run(warm: warming.Warm) -> None:
    command, module = warm.waiting()
    assert {module, *warm.ancestors(module)} <= run_group.members(warm.run)
    run_group.end(warm.run)
    assert run_group.members(warm.run) == frozenset()
    command.wait()
    assert warming.is_gone(module)
    assert warm.server.poll() is None


def test_what_a_run_leaves_behind_belongs_to_it_without_a_control_group_too(warm: warming.Warm) -> None:
    environment = warm.environment()
    (warm.run / "cgroup").symlink_to(warm.folder / "no/such/folder")
    left = "env -i setsid sh -c 'echo $$ > {{ playbook_dir }}/left; exec sleep 600' > /dev/null 2>&1 &"
    text = f"{warming.HEAD}    - ansible.builtin.shell: {json.dumps(left)}\n"
    assert warm.ended(warm.command(text), environment).returncode == 0
    warming.wait_until(lambda: bool((warm.folder / "left").read_text().strip()))
    pid = int((warm.folder / "left").read_text())
    assert pid in run_group.members(warm.run)
    run_group.end(warm.run)
    assert warming.is_gone(pid)


def test_a_run_goes_on_without_its_server_and_the_next_server_does_not_wait_for_it(own: warming.Warm) -> None:
    command, module = own.waiting()
    own.server.kill()
    own.server.wait()
    (keeping.shim_folder(own.where).parent / "warm.sock").unlink()
    own.start()
    own.succeed()
    os.kill(module, signal.SIGTERM)
    assert command.wait(warming.LIMIT) == 2


def test_without_a_server_the_plain_command_runs_in_silence(own: warming.Warm) -> None:
    own.keeper.stop()
    own.succeed()


def test_a_changed_file_ends_the_server_and_the_run_is_plain(own: warming.Warm) -> None:
    changed = own.python / "sitecustomize.py"
    changed.write_text("# changed\n")
    done = own.playbook(warming.NOTHING)
    assert f"{changed} has changed" in done.stderr
    assert done.returncode == 0
    assert own.server.wait(warming.LIMIT) == 0


def test_a_configuration_file_of_one_run_is_said_aloud_and_honoured(own: warming.Warm) -> None:
    (own.folder / "ansible.cfg").write_text("[defaults]\nstdout_callback = minimal\n")
    done = own.playbook(warming.NOTHING)
    assert "its configuration file is" in done.stderr
    assert "PLAY RECAP" not in done.stdout


def test_a_configuration_file_that_appears_for_all_runs_ends_the_server(own: warming.Warm) -> None:
    (own.folder / ".ansible.cfg").write_text("[defaults]\nstdout_callback = minimal\n")
    done = own.playbook(warming.NOTHING)
    assert ".ansible.cfg has changed" in done.stderr
    assert "PLAY RECAP" not in done.stdout
    assert own.server.wait(warming.LIMIT) == 0


def test_runs_that_all_have_other_settings_get_a_server_of_theirs_and_each_is_warned(own: warming.Warm) -> None:
    old: dict[str, Any] = {"ANSIBLE_LIBVIRT_LXC_NOSECLABEL": "1"}
    for _ in range(3):
        assert "it differs in ANSIBLE_LIBVIRT_LXC_NOSECLABEL" in own.playbook(warming.NOTHING, **old).stderr
    assert own.server.wait(warming.LIMIT) == 0
    own.start()
    found, second, plain = (own.playbook(warming.NOTHING, warm=is_so, **old).stderr for is_so in (True, True, False))
    assert found == second == plain
    assert "DEFAULT_LIBVIRT_LXC_NOSECLABEL" in plain


def test_a_working_directory_that_is_gone_is_for_the_plain_command_to_complain_of(warm: warming.Warm) -> None:
    folder = warm.folder / "gone"

    def leave() -> None:
        folder.mkdir()
        os.chdir(folder)
        folder.rmdir()

    found, plain = (
        warm.ended(warm.command(warming.NOTHING), warm.environment(warm=is_so), preexec_fn=leave)
        for is_so in (True, False)
    )
    assert found.returncode == plain.returncode != 0
    assert "not warm: the warm server did not accept it: [Errno 2]" in found.stderr
    warm.succeed()


def _on_terminal(warm: warming.Warm, command: list[str], *, is_warm: bool = True, **options: Any) -> Any:
    program, *words = child_signals.reset(command, "INT,QUIT" if options.get("ignore_sighup") else "HUP,INT,QUIT")
    environment = warm.environment(warm=is_warm)
    return pexpect.spawn(program, words, env=environment, encoding="utf-8", timeout=warming.LIMIT, **options)


def _end(child: Any) -> tuple[str, int | None, int | None]:
    child.expect(pexpect.EOF)
    child.close()
    return child.before, child.exitstatus, child.signalstatus


@pytest.mark.parametrize("key", ["c", "\\"])
def test_a_key_that_interrupts_does_so_as_it_does_the_plain_command(warm: warming.Warm, key: str) -> None:
    ends = []
    for is_warm in (True, False):
        pid_file = warm.folder / f"interrupted{key == 'c'}{is_warm}.pid"
        child = _on_terminal(warm, warm.command(warming.WAITING, "-e", f"pid_file={pid_file}"), is_warm=is_warm)
        warming.wait_until(lambda path=pid_file: path.exists() and bool(path.read_text().strip()))
        child.sendcontrol(key)
        ends.append(_end(child))
        run_group.end(warm.run)
    assert ends[0] == ends[1]
    assert "not warm" not in ends[0][0]


@pytest.mark.parametrize("is_ignored", [True, False])
def test_a_terminal_that_hangs_up_ends_the_run_unless_that_is_ignored(warm: warming.Warm, *, is_ignored: bool) -> None:
    pid_file = warm.folder / f"module{is_ignored}.pid"
    command = warm.command(warming.WAITING, "-e", f"pid_file={pid_file}")
    child = _on_terminal(warm, command, ignore_sighup=is_ignored)
    warming.wait_until(lambda: pid_file.exists() and bool(pid_file.read_text().strip()))
    os.close(child.child_fd)
    if is_ignored:
        os.kill(int(pid_file.read_text()), signal.SIGTERM)
    _, status = os.waitpid(child.pid, 0)
    child.terminated = child.closed = child.ptyproc.closed = True
    assert (os.waitstatus_to_exitcode(status) == -signal.SIGHUP) is not is_ignored
    run_group.end(warm.run)
    assert run_group.members(warm.run) == frozenset()


def test_on_the_terminal_of_a_shell_the_plain_command_runs_and_says_so(warm: warming.Warm) -> None:
    child = _on_terminal(warm, ["/bin/sh", "-c", '"$@"; exit $?', "sh", *warm.command(PAUSE)])
    child.expect("Go on")
    assert "not warm: the warm server did not accept it: its terminal is that of another process too" in child.before
    child.sendline("")
    assert _end(child)[1:] == (0, None)


def test_a_server_that_hangs_is_replaced_and_runs_go_on_without_it_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(keeping, "HUNG_SECONDS", 5.0)
    monkeypatch.setattr(client, "HELLO_SECONDS", 1.0)
    own = warming.Warm(tmp_path)
    own.keeper.stop()
    failing: list[str] = []
    known = failures.Failures(on_change=lambda: failing.extend(one["part"] for one in known.listed()))
    keeper = keeping.Keeper(own.where, environment=own._environment(), failures=known)
    socket = keeping.shim_folder(own.where).parent / "warm.sock"

    async def scenario() -> None:
        work = asyncio.create_task(keeper.run())
        await asyncio.to_thread(warming.wait_until, socket.exists)
        first = keeper._server
        assert first is not None
        os.kill(first.pid, signal.SIGSTOP)
        cold = await asyncio.to_thread(own.playbook, warming.NOTHING)
        assert cold.returncode == 0
        await asyncio.to_thread(warming.wait_until, lambda: keeper._server is not first and socket.exists())
        # Looked at from outside: the one that hung is gone.
        assert warming.is_gone(first.pid)
        assert failing == [keeping.PART]
        await asyncio.to_thread(warming.wait_until, lambda: not known.listed())
        await asyncio.to_thread(own.succeed)
        work.cancel()
        await asyncio.wait([work])

    try:
        asyncio.run(scenario())
    finally:
        keeper.stop()
