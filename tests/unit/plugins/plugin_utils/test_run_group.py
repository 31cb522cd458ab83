from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

FOLDER = str(Path(run_group.__file__).parent)
SAY = "import os, sys, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"
# What a module can do to get away: a session of its own, no environment, and a parent that has ended.
GONE = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1]], env={}, start_new_session=True)
"""
ROOT = """
import pathlib, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import run_group
if sys.argv[5] == "no group":
    run_group._own_group = lambda: None
if sys.argv[5] != "nothing":
    run_group.join(pathlib.Path(sys.argv[2]))
subprocess.run([sys.executable, "-S", "-c", sys.argv[3], sys.argv[4]], env={})
subprocess.Popen([sys.executable, "-S", "-c", sys.argv[4]], start_new_session=True)
import os
os.write(1, b"0\\n")
time.sleep(60)
"""
FORKS = """
import os, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import run_group
run_group.join(pathlib.Path(sys.argv[2]))
os.write(1, b"0\\n")
until = time.monotonic() + 60
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


def has_groups() -> bool:
    own = run_group._own_group()
    return own is not None and os.access(own, os.W_OK)


def start(run: Path, how: str) -> tuple[subprocess.Popen[str], set[int]]:
    command = [sys.executable, "-S", "-c", ROOT, FOLDER, str(run), GONE, SAY, how]
    root = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert root.stdout is not None
    return root, {int(root.stdout.readline()) for _ in range(3)} - {0}


def is_gone(pids: set[int]) -> bool:
    return not pids & {one.pid for one in run_group._alive()}


@pytest.mark.parametrize("how", ["group", "no group"])
def test_a_child_without_session_environment_and_parent_is_a_member_and_is_ended(tmp_path: Path, how: str) -> None:
    root, children = start(tmp_path, how)
    with root:
        assert (tmp_path / "cgroup").exists() == (how == "group" and has_groups())
        assert run_group.members(tmp_path) == children | {root.pid}
        assert run_group.end(tmp_path) == run_group.Ended(3, frozenset())
        assert root.wait() == -signal.SIGKILL
    assert is_gone(children)
    assert run_group.members(tmp_path) == frozenset()


@pytest.mark.skipif(not has_groups(), reason="no control group can be made here")
def test_with_a_group_they_are_found_even_when_whoever_joined_is_gone(tmp_path: Path) -> None:
    root, children = start(tmp_path, "group")
    with root:
        root.kill()
    group = Path((tmp_path / "cgroup").read_text())
    assert run_group.members(tmp_path) == children
    assert run_group.end(tmp_path).count == 2
    assert is_gone(children)
    assert not group.exists()


@pytest.mark.skipif(not has_groups(), reason="no control group can be made here")
def test_a_process_that_forks_on_and_on_is_ended_with_its_group(tmp_path: Path) -> None:
    forks = [sys.executable, "-S", "-c", FORKS, FOLDER, str(tmp_path)]
    with subprocess.Popen(forks, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        first.stdout.readline()
        assert run_group.end(tmp_path).left == frozenset()
        # The pipe closes when the last of them is gone.
        assert first.stdout.read() == ""
        assert not Path((tmp_path / "cgroup").read_text()).exists()


def test_only_processes_of_the_run_are_ended(tmp_path: Path) -> None:
    other = {**os.environ, run_group.RUN_VARIABLE: f"{tmp_path}/1"}
    with subprocess.Popen(["sleep", "60"], env=other) as stranger:
        (tmp_path / "processes").write_text(f"{stranger.pid} 1\n{os.getpid()} 1\n")
        assert run_group.end(tmp_path) == run_group.Ended(0, frozenset())
        assert stranger.poll() is None
        assert run_group.end(tmp_path, also=[stranger.pid]).count == 1
        assert stranger.wait() == -signal.SIGKILL


def test_who_ends_a_run_is_never_ended_by_it(tmp_path: Path) -> None:
    script = f"""
import pathlib, subprocess, sys
sys.path.insert(0, {FOLDER!r})
import run_group
run_group.join(pathlib.Path({str(tmp_path)!r}))
child = subprocess.Popen(["sleep", "60"])
print(run_group.end(pathlib.Path({str(tmp_path)!r})).count, child.wait())
"""
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1 -9\n"


def test_processes_are_gathered_with_what_they_start_later(tmp_path: Path) -> None:
    with subprocess.Popen(["sh", "-c", "read _; sleep 60 & read _"], stdin=subprocess.PIPE, text=True) as one:
        run_group.gather(tmp_path, [one.pid, 2**22 + 1])
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
        assert run_group.end(tmp_path).count >= 1
        assert one.wait() == -signal.SIGKILL
    assert run_group.members(tmp_path) == frozenset()


def test_a_forged_group_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("/sys/fs/cgroup")
    assert run_group.members(tmp_path) == frozenset()


def test_the_processes_that_the_kernel_killed_for_lack_of_memory_are_counted(tmp_path: Path) -> None:
    assert run_group.oom_kills(tmp_path) == 0
    (tmp_path / "memory.events").write_text("low 0\nhigh 7\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n")
    assert run_group.oom_kills(tmp_path) == 3
