"""Keeps locks for a play by hand: a process that holds files locked for as long as ansible-playbook lives.

Started as `python keeper.py PID LIVELOCK FILE...`: locks every file, says `ready` (or why not), waits for the end of
PID, then takes the livelock and what lies beside it away.
It uses the standard library only, and nothing of the collection, so that it starts at once.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from pathlib import Path


def main() -> int:
    """Hold the files until the process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = os.pidfd_open(int(sys.argv[1]))
    for name in sys.argv[2:]:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            print(f"{name} is held by {holder}", flush=True)
            return 1
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"ansible-playbook, pid {sys.argv[1]}\n".encode(), 0)
    print("ready", flush=True)
    os.close(1)
    select.select([process], [], [])
    livelock = Path(sys.argv[2])
    for path in livelock.parent.glob(f"{livelock.name}*"):
        path.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
