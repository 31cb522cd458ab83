"""Starting the process of an opcode, finding out how it stands, ending what is left of it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils import durable_files, livelocks
from .. import faults
from ..locks import desk

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
RUN_VARIABLE = "ROUNDSMAN_RUN"


class Standing(Enum):
    """How a run stands after a crash of the daemon."""

    RUNNING = "running"
    ENDED = "ended"
    NEVER_RAN = "never ran"
    LOST = "lost"


@dataclass(frozen=True)
class Spec:
    """What a run needs: its play's path, variables and environment, its inventory, the locks that were granted.

    `files` are texts that come from nodes: Ansible takes every extra variable for a template, so they never are one.
    """

    playbook: Path
    variables: Mapping[str, Any]
    environment: Mapping[str, str]
    inventory: bytes
    granted: Mapping[str, str]
    time_limit: int
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Processes:
    """The opcode processes of this daemon."""

    children: dict[Path, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, run: Path, spec: Spec) -> None:
        """Start the process of a run; it holds the run's livelock from its first moment."""
        run.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._write(run, spec)
        faults.point("before-opcode-start")
        livelock = os.open(run / "livelock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(livelock, fcntl.LOCK_EX)
            with (run / "output").open("ab") as output:
                self.children[run] = subprocess.Popen(
                    [sys.executable, "-m", f"{__package__}.opcode_process", str(run), str(livelock)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(livelock,),
                    start_new_session=True,
                    cwd=run,
                    env={**os.environ, **spec.environment, RUN_VARIABLE: str(run)},
                )
        finally:
            os.close(livelock)

    async def ended(self, run: Path) -> None:
        """Wait until the process of a run has ended, be it ours or adopted."""
        await desk.ended(run / "livelock")
        child = self.children.pop(run, None)
        if child is not None:
            child.wait()

    @staticmethod
    def _write(run: Path, spec: Spec) -> None:
        environment = {**spec.environment, RUN_VARIABLE: str(run)}
        opcode = {
            "playbook": str(spec.playbook),
            "variables": {"roundsman_opcode": f"{run.parent.name}/{run.name}", **spec.variables},
            "environment": environment,
            "time_limit": spec.time_limit,
        }
        (run / "runner").mkdir(mode=0o750, exist_ok=True)
        for name, text in spec.files.items():
            durable_files.replace(run / name, text.encode())
        durable_files.replace(run / "inventory.json", spec.inventory)
        durable_files.replace(run / "granted.json", json.dumps(dict(spec.granted)).encode())
        durable_files.replace(run / "opcode.json", json.dumps(opcode).encode())


def standing(run: Path) -> Standing:
    """How a run stands: its livelock held, its result there, or which of its files is missing."""
    if livelocks.is_alive(run / "livelock"):
        return Standing.RUNNING
    if (run / "result.json").exists():
        return Standing.ENDED
    return Standing.LOST if (run / "began").exists() else Standing.NEVER_RAN


def end_all_of(run: Path) -> int:
    """Kill every process that belongs to a run, its modules' children included; returns how many there were.

    A process belongs to a run when its environment names the run, or when it descends from one that does.
    """
    killed: set[int] = set()
    while found := _members(run) - killed:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        killed |= found
    return len(killed)


def _members(run: Path) -> set[int]:
    wanted = f"{RUN_VARIABLE}={run}".encode()
    parents: dict[int, int] = {}
    members: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            # Another user's environment cannot be read, but its ancestry can.
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                members.add(int(entry.name))
        except (OSError, IndexError):
            continue
    while grown := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= grown
    members.discard(os.getpid())
    return members
