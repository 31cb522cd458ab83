"""The end of a program that took too long: killed, waited for a few seconds, and named if it cannot be killed.

A process in uninterruptible sleep, as on a disk that is dead, ends only when its system call returns. A caller that
waits for it without a limit hangs with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any

REAP_SECONDS = 5.0


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a program's session, and wait for its end for `REAP_SECONDS` at most; its pipes are closed, and not read."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(REAP_SECONDS)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError, ValueError):
                pipe.close()


def stuck(process: subprocess.Popen[Any]) -> str:
    """The end of a sentence about a program that was killed: '' if that worked, or that it cannot be killed."""
    if process.poll() is not None:
        return ""
    return (
        "; process {} cannot be killed: it is stuck in the kernel (state {}), as on a disk that does not answer".format(
            process.pid, _state(process.pid)
        )
    )


def _state(pid: int) -> str:
    try:
        with open("/proc/{}/stat".format(pid), errors="replace") as stat:  # noqa: PTH123 -- one line of a pseudo file
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "unknown"
