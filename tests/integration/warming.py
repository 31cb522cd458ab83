"""A warm server, and the same command with it and without it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ansible_collections.roundsman.cluster.daemon.warm import keeping
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

LIMIT = 60.0
HEAD = """
- hosts: all
  gather_facts: false
  vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}", ansible_connection: local}
  tasks:
"""
WAITING = f"{HEAD}    - ansible.builtin.command: sh -c 'echo $$ > {{{{ pid_file }}}}; exec sleep 600'\n"
NOTHING = f"{HEAD}    - ansible.builtin.debug: {{msg: nothing}}\n"


class Warm:
    """A warm server; its first run decides which settings it is for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.where = tree.Tree(folder / "root")
        self.python = folder / "python"
        self.python.mkdir()
        (self.python / "sitecustomize.py").write_text("")
        keeping.install_shim(self.where)
        self.keeper = keeping.Keeper(self.where, environment=self._environment())
        self.runs = 0
        self.start()

    def start(self) -> None:
        """Start a server, and wait for its socket."""
        self.server = self.keeper._server = self.keeper._start()
        socket = keeping.shim_folder(self.where).parent / "warm.sock"
        wait_until(socket.exists)

    def succeed(self, **more: Any) -> None:
        """Run a play that does nothing; it is warm and ends well."""
        done = self.playbook(NOTHING, **more)
        assert (done.returncode, done.stderr) == (0, "")

    @property
    def run(self) -> Path:
        """The folder of the last run."""
        return self.folder / f"run{self.runs}"

    def _environment(self) -> dict[str, str]:
        python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
        paths = [str(self.python), *filter(None, [python.get("PYTHONPATH")])]
        return {
            **python,
            "PYTHONPATH": ":".join(paths),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
        }

    def environment(self, *, warm: bool = True, **more: str) -> dict[str, str]:
        """The environment of a new run."""
        self.runs += 1
        self.run.mkdir()
        own = self._environment()
        path = f"{keeping.shim_folder(self.where)}:{own['PATH']}" if warm else own["PATH"]
        return {**own, "PATH": path, "ANSIBLE_FORKS": "1", run_group.RUN_VARIABLE: str(self.run), **more}

    def command(self, text: str, *arguments: str, inventory: str = "h1,") -> list[str]:
        """The command of a play on h1."""
        play = self.folder / "play.yml"
        play.write_text(text)
        return ["ansible-playbook", *(["-i", inventory] if inventory else []), str(play), *arguments]

    def playbook(
        self, text: str, *arguments: str, warm: bool = True, inventory: str = "h1,", **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a play."""
        return self.ended(self.command(text, *arguments, inventory=inventory), self.environment(warm=warm, **more))

    def ended(
        self, command: list[str], environment: dict[str, str], **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a session of its own, that is without a terminal."""
        return subprocess.run(
            command,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            **{"cwd": self.folder, "start_new_session": True, **options},
        )

    def waiting(self, *, warm: bool = True, **more: str) -> tuple[subprocess.Popen[bytes], int]:
        """Start a play whose module waits: the command, and the module's process."""
        environment = self.environment(warm=warm, **more)
        pid_file = self.run / "module.pid"
        started = subprocess.Popen(
            self.command(WAITING, "-e", f"pid_file={pid_file}"),
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: pid_file.exists() and bool(pid_file.read_text().strip()))
        return started, int(pid_file.read_text())

    def ancestors(self, pid: int) -> list[int]:
        """The processes between the server and a process of a warm run: first the guard, then the run."""
        found: list[int] = []
        while pid != self.server.pid:
            found.insert(0, pid)
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return found


def wait_until(condition: Any) -> None:
    """Look until something is so that tells nobody."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Wait for the end of a process that is not ours."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ready, _, _ = select.select([handle], [], [], LIMIT)
    os.close(handle)
    return bool(ready)
