"""Keeps locks for a play by hand: a process that holds files locked for as long as anything of the play lives.

Started as `python keeper.py PID LIVELOCK FILE...`: locks every file, says `ready` (or why not), waits for the end of
PID, ends what is left of its play, then takes the livelock and what lies beside it away. A process that cannot be ended
may still act: the locks are held for as long as it lives.
It uses the standard library only, and nothing else of the collection, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import select
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

INHERITED = 3
"""Descriptors below this one are a play's input and output, which it shares with others."""


def main() -> int:
    """Hold the files until the play has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    pid, livelock = int(sys.argv[1]), Path(sys.argv[2])
    process = os.pidfd_open(pid)
    for name in sys.argv[2:]:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            print(f"{name} is held by {holder}", flush=True)
            return 1
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"ansible-playbook, pid {sys.argv[1]}\n".encode(), 0)
    groups = _run_group()
    play = livelock.with_name(f"{livelock.name}.run")
    play.mkdir(mode=0o750)
    groups.gather(play, {pid, *groups.descendants(pid)} - {os.getpid()})
    pipes = _private_pipes({pid, *groups.descendants(pid)})
    print("ready", flush=True)
    os.close(1)
    select.select([process], [], [])
    while groups.end(play, also=_holders(pipes)).left:
        pass
    shutil.rmtree(play, ignore_errors=True)
    for path in livelock.parent.glob(f"{livelock.name}*"):
        path.unlink(missing_ok=True)
    return 0


def _run_group() -> Any:
    # Found by its folder: there is no package where this program starts.
    sys.path.insert(0, str(Path(__file__).parent))
    return importlib.import_module("run_group")


def _private_pipes(play: set[int]) -> set[str]:
    """The pipes that only processes of the play have: by them its workers are known when their parent is gone."""
    own = {pipe for pid in play for pipe in _pipes(pid)}
    return own.difference(*(_pipes(pid) for pid in _pids() - play - {os.getpid()}))


def _holders(pipes: set[str]) -> set[int]:
    return {pid for pid in _pids() - {os.getpid()} if pipes & _pipes(pid)}


def _pipes(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if int(entry.name) >= INHERITED:
                with contextlib.suppress(OSError):
                    found.add(os.readlink(entry.path))  # noqa: PTH115 - what it reads is no path
    return {link for link in found if link.startswith("pipe:")}


def _pids() -> set[int]:
    return {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()}


if __name__ == "__main__":
    sys.exit(main())
