"""Who can be killed in a lab: the processes of opcodes, the warm server, and the guards of warm runs."""

from __future__ import annotations

import contextlib
import os
import signal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import process
from ansible_collections.roundsman.cluster.daemon.warm import keeping, server

if TYPE_CHECKING:
    import random

    from tests.integration import labs


class Victim(Enum):
    """Kinds of processes beside the daemon; the value is how they are counted aloud."""

    OPCODE = "opcode processes"
    SERVER = "warm server"
    GUARD = "warm guards"


def strike(lab: labs.Running, kind: Victim, *, chance: random.Random) -> bool:
    """Kill one of a kind with SIGKILL; returns whether there was one."""
    found = alive(lab, kind)
    if not found:
        return False
    chosen = chance.choice(found)
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(chosen)
        try:
            # The number may have gone to somebody else since it was found.
            if chosen in alive(lab, kind):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def alive(lab: labs.Running, kind: Victim) -> list[int]:
    """The pids of a kind, as they are now; of an opcode all that its run has started with its environment."""
    if kind is Victim.OPCODE:
        marker = f"{process.RUN_VARIABLE}={lab.where.queue}/".encode()
        return [pid for pid in _pids() if any(one.startswith(marker) for one in _words(pid, "environ"))]
    warm = _warm(lab)
    servers = {pid for pid in warm if _parent(pid) == _daemon(lab)}
    if kind is Victim.SERVER:
        return sorted(servers)
    # The forks of a server look like it; a guard descends from it, or is an orphan when that was killed.
    return [pid for pid in warm if pid not in servers and _parent(pid) not in set(warm) - servers]


def _warm(lab: labs.Running) -> list[int]:
    module, folder = server.__name__.encode(), str(keeping.shim_folder(lab.where).parent).encode()
    return [pid for pid in _pids() if {module, folder} <= set(_words(pid, "cmdline"))]


def _daemon(lab: labs.Running) -> int:
    try:
        return int(lab.where.pid_file.read_text())
    except (FileNotFoundError, ValueError):
        return 0


def _pids() -> list[int]:
    return sorted(int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def _words(pid: int, name: str) -> list[bytes]:
    # Whoever ends meanwhile, or belongs to another user, is none of ours.
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return -1
