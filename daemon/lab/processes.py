"""The processes of a lab (daemon, agents of its nodes, BMCs), started detached and ended by their own ids."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import errors, tree
from ..jobs import process
from .simulator import simulated_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from . import world

PORTS, TRIES = range(20_000, 32_768), 100
"""Below those that the system gives to clients: such a port is taken by nobody before its lab binds it."""
PACKAGE = __package__.rpartition(".")[0] if __package__ else ""


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port that nobody has now, on any address.

    Raises:
        Failed: among those that were tried none is free.
    """
    for port in random.SystemRandom().sample(PORTS, TRIES):
        with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    raise errors.Failed(f"of {TRIES} ports from {PORTS.start} to {PORTS.stop - 1} none is free")


def start_bmcs(lab: world.Lab) -> None:
    """Start the BMC simulators, unless they run."""
    if not is_running(lab, "bmcs"):
        start(lab, "bmcs", f"{PACKAGE}.lab.bmcs", [str(lab.folder)], environment={})


def start_agents(lab: world.Lab) -> None:
    """Start the agents of a lab's nodes, unless they run or it has none; returns when all of them answer."""
    if lab.agent_port and not is_running(lab, "agents"):
        start(lab, "agents", f"{PACKAGE}.lab.agents", [str(lab.folder)], environment={})


def start_daemon(lab: world.Lab, *, environment: Mapping[str, str] | None = None) -> None:
    """Start the daemon, unless it runs; returns when it serves.

    Raises:
        Failed: it ended before it served; the text is its last line.
    """
    if not is_running(lab, "daemon"):
        start(
            lab,
            "daemon",
            PACKAGE,
            ["--root", str(lab.controller), "--ready-fd"],
            environment=environment or {},
        )
        lab.note_controller("stopped", is_deaf=False)


def start(lab: world.Lab, name: str, module: str, arguments: list[str], *, environment: Mapping[str, str]) -> None:
    """Start a module as a process of the lab; its last argument is a descriptor to say `ready` on.

    Raises:
        Failed: it ended before it said so; the text is its last line.
    """
    ready, tell = os.pipe()
    log = tree.Tree(lab.controller).log / f"{name}.log"
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments, str(tell)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(tell,),
            start_new_session=True,
            cwd="/",
            env={**os.environ, **environment},
        )
    os.close(tell)
    remember(lab, name, child.pid)
    with os.fdopen(ready, "rb") as stream:
        if stream.readline() != b"ready\n":
            # Its end of the pipe closes a moment before it is gone.
            child.wait()
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise errors.Failed(f"{name} did not start: {' '.join(last) or 'it printed nothing'} (log: {log})")


def stop(lab: world.Lab, name: str, *, number: int = signal.SIGTERM) -> None:
    """End a process of the lab, and wait until it is gone."""
    found = find_pid(lab, name)
    if found is None:
        return
    if name == "daemon":
        lab.note_controller("stopped", is_deaf=True)
    try:
        descriptor = os.pidfd_open(found)
        os.kill(found, number)
    except ProcessLookupError:
        return
    if not select.select([descriptor], [], [], 15)[0]:
        os.kill(found, signal.SIGKILL)
        select.select([descriptor], [], [])
    os.close(descriptor)
    _reap(found)


def down(lab: world.Lab) -> None:
    """End the daemon, what runs of its opcodes, the agents and the BMC simulators."""
    stop(lab, "daemon")
    where = tree.Tree(lab.controller)
    for run in [*where.queue.glob("*/*"), where.lib / "poll"]:
        if run.is_dir():
            process.end_all_of(run)
    stop(lab, "agents")
    for node in lab.nodes() if lab.agent_port else ():
        simulated_node.end_agent(node.root)
    stop(lab, "bmcs")


def is_running(lab: world.Lab, name: str) -> bool:
    """Whether a process of the lab lives."""
    return find_pid(lab, name) is not None


def _file(lab: world.Lab, name: str) -> Path:
    return lab.folder / f"{name}.pid"


def remember(lab: world.Lab, name: str, pid: int) -> None:
    """Know a process of the lab from now on by this name."""
    _file(lab, name).write_text(json.dumps({"pid": pid, "started": _started(pid)}))


def find_pid(lab: world.Lab, name: str) -> int | None:
    """The pid of a process of the lab, while it lives."""
    try:
        found: dict[str, Any] = json.loads(_file(lab, name).read_text())
    except FileNotFoundError:
        return None
    return int(found["pid"]) if _started(found["pid"]) == found["started"] else None


def _started(pid: int) -> str:
    """When a process started, in clock ticks; '' when it is gone, or dead and only not reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
