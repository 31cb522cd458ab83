"""One child process per item, a few side by side, each ended at its deadline.

For libraries that cannot be given a deadline and whose connections threads must not share.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, NoReturn, Optional, Sequence

WIDTH = 8
CHUNK = 65536
LONGEST_LINE = 64 * 2**20
"""Bytes of a line; a child that writes a longer one is ended."""
# The child ends itself this much after its deadline, should the parent be gone by then.
GRACE = 1.0
REAP_SECONDS = 5.0

Report = Callable[[str], None]
Task = Callable[[Report], None]


@dataclass(frozen=True)
class Ended:
    """How a child ended: the last whole line it reported, and whether it had to be killed."""

    line: Optional[str]
    killed: bool
    seconds: float


@dataclass
class _Child:
    index: int
    pid: int
    pipe: int
    started: float
    received: bytearray = field(default_factory=bytearray)
    line: Optional[bytes] = None


def run(tasks: Sequence[Task], *, deadline: float, width: int = WIDTH) -> List[Ended]:
    """Run each task in a child process of its own and give their ends in the tasks' order.

    At most `width` run at once; `deadline` is in seconds from each child's start, so that the whole
    takes at most `deadline` times the number of rounds.
    """
    ended: Dict[int, Ended] = {}
    running: Dict[int, _Child] = {}
    waiting = list(enumerate(tasks))[::-1]
    try:
        while waiting or running:
            while waiting and len(running) < width:
                child = _start(*waiting.pop(), deadline=deadline)
                running[child.pipe] = child
            for child in _wait(running, deadline=deadline):
                del running[child.pipe]
                ended[child.index] = _end(child, deadline=deadline)
    finally:
        for child in running.values():
            _end(child, deadline=0.0)
    return [ended[index] for index in range(len(tasks))]


def _start(index: int, task: Task, *, deadline: float) -> _Child:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_child(task, writer, alarm=deadline + GRACE)
    os.close(writer)
    return _Child(index=index, pid=pid, pipe=reader, started=time.monotonic())


def _be_child(task: Task, writer: int, *, alarm: float) -> NoReturn:
    """Run the task and leave at once: a child must neither return into the parent's code nor print."""
    status = 1
    try:
        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, alarm)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        sys.stdout = sys.stderr = os.fdopen(nowhere, "w")
        task(lambda line: _write(writer, line))
        status = 0
    finally:
        os._exit(status)


def _write(writer: int, line: str) -> None:
    left = (line + "\n").encode()
    while left:
        left = left[os.write(writer, left) :]


def _wait(running: Dict[int, _Child], *, deadline: float) -> List[_Child]:
    """Read until a child is at its end or its deadline; give all such children."""
    while True:
        now = time.monotonic()
        late = [child for child in running.values() if child.started + deadline <= now]
        if late:
            return late
        poller = select.poll()
        for pipe in running:
            poller.register(pipe, select.POLLIN)
        nearest = min(child.started for child in running.values()) + deadline
        over = [running[pipe] for pipe, _ in poller.poll((nearest - now) * 1000) if not _receive(running[pipe])]
        if over:
            return over


def _receive(child: _Child) -> bool:
    data = os.read(child.pipe, CHUNK)
    child.received += data
    if b"\n" in data:
        *whole, rest = bytes(child.received).split(b"\n")
        child.line, child.received = whole[-1], bytearray(rest)
    if len(child.received) > LONGEST_LINE:
        os.kill(child.pid, signal.SIGKILL)
        child.received.clear()
        return False
    return bool(data)


def _reap(pid: int) -> None:
    """Wait for the end of a child, for a few seconds: one that is stuck in the kernel cannot be killed."""
    until = time.monotonic() + REAP_SECONDS
    while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < until:
        time.sleep(0.01)


def _end(child: _Child, *, deadline: float) -> Ended:
    seconds = time.monotonic() - child.started
    killed = seconds >= deadline
    if killed:
        os.kill(child.pid, signal.SIGKILL)
        os.set_blocking(child.pipe, False)
        with contextlib.suppress(BlockingIOError):
            while _receive(child):
                pass
    os.close(child.pipe)
    _reap(child.pid)
    return Ended(line=None if child.line is None else child.line.decode(), killed=killed, seconds=seconds)
