"""The processes of one run: who belongs to it, and the end of all of them.

A process belongs to a run when it is in the run's control group, when it joined, when its environment names the run,
or when it descends from one that does. Where no control group can be made, whoever joins adopts its orphans, so that
descent still finds a process that left its session, its parent and its environment.
It uses the standard library only, and nothing of the collection: the keeper of a play by hand starts without either
(docs/decisions/processes.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RUN_VARIABLE = "ROUNDSMAN_RUN"
PATIENCE = 10.0
"""Seconds that the kernel gets to end what was killed; a process stuck in the kernel takes longer."""
_JOINED, _GROUP = "processes", "cgroup"
_ADOPT_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER of Linux' prctl.h."""


@dataclass(frozen=True)
class Ended:
    """How many processes were ended, and the pids of those that are still there."""

    count: int
    left: frozenset[int]


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    started: str


def join(run: Path) -> None:
    """Make the calling process, and all that it starts from now on, part of a run whose folder is there."""
    adopt_orphans()
    gather(run, [os.getpid()])


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)


def gather(run: Path, pids: Iterable[int]) -> None:
    """Make processes, and all that they start from now on, part of a run; one that has ended is passed over."""
    group = _made_group(run)
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            process = _process(pid)
            _append(run / _JOINED, f"{process.pid} {process.started}\n")
            if group is not None:
                (group / "cgroup.procs").write_text(str(pid))


def members(run: Path) -> frozenset[int]:
    """The pids of the processes of a run that are alive, the calling one left out."""
    return frozenset(_members(run))


def descendants(pid: int) -> frozenset[int]:
    """The pids of all that descend from a process and are alive."""
    return frozenset(_grown({pid}, list(_alive()))) - {pid}


def end(run: Path, *, also: Iterable[int] = (), patience: float = PATIENCE) -> Ended:
    """End every process of a run, and `also` these with all that descends from them, but never the calling one.

    All are stopped before the first is killed, so that none can start another meanwhile. Only a control group catches
    one that does nothing but start its successor and end.
    """
    ended: set[_Process] = set()
    until = time.monotonic() + patience
    while (found := _stopped(run, also, until)) or _in_group(run) - {os.getpid()}:
        ended |= found
        _kill_group(run)
        with contextlib.ExitStack() as open_:
            handles = [open_.enter_context(_handle(process)) for process in found]
            for handle in handles:
                _signal(handle, signal.SIGKILL)
            _await(handles, until)
        if time.monotonic() >= until:
            return Ended(len(ended), members(run))
    _remove_group(run, until)
    return Ended(len(ended), frozenset())


def _stopped(run: Path, also: Iterable[int], until: float) -> set[_Process]:
    stopped: set[_Process] = set()
    # Each look finds what was started during the one before; a group needs no second one.
    while new := set(_members(run, also).values()) - stopped:
        for process in new:
            with _handle(process) as handle:
                _signal(handle, signal.SIGSTOP)
        stopped |= new
        if time.monotonic() >= until or _group(run) is not None:
            break
    return stopped


def _kill_group(run: Path) -> None:
    """Have the kernel end all of a run's control group at once; whoever asks for it steps out before."""
    group = _group(run)
    if group is None:
        return
    is_inside = os.getpid() in _in_group(run)
    # Before Linux 5.14 there is no such file: each process is then killed by itself.
    with contextlib.suppress(OSError):
        if is_inside:
            (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        (group / "cgroup.kill").write_text("1")
    with contextlib.suppress(OSError):
        if is_inside:
            (group / "cgroup.procs").write_text(str(os.getpid()))


def _members(run: Path, also: Iterable[int] = ()) -> dict[int, _Process]:
    alive = {process.pid: process for process in _alive()}
    marker = f"{RUN_VARIABLE}={run}".encode()
    joined = _joined(run)
    roots = {pid for pid in {*_in_group(run), *also} if pid in alive}
    for process in alive.values():
        if f"{process.pid} {process.started}" in joined or _names(process.pid, marker):
            roots.add(process.pid)
    found = _grown(roots, alive.values()) - {os.getpid()}
    return {pid: alive[pid] for pid in found}


def _grown(roots: set[int], alive: Iterable[_Process]) -> set[int]:
    found, all_ = set(roots), list(alive)
    while new := {process.pid for process in all_ if process.parent in found} - found:
        found |= new
    return found


def _alive() -> Iterator[_Process]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                yield _process(int(entry.name))


def _process(pid: int) -> _Process:
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    if fields[0] in "ZX":
        raise ProcessLookupError(pid)
    return _Process(pid, int(fields[1]), fields[19])


def _names(pid: int, marker: bytes) -> bool:
    # Another user's environment cannot be read, but its ancestry can.
    try:
        return marker in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _joined(run: Path) -> set[str]:
    try:
        return set((run / _JOINED).read_text().splitlines())
    except FileNotFoundError:
        return set()


@contextlib.contextmanager
def _handle(process: _Process) -> Iterator[int | None]:
    """A descriptor of this very process; None when it has ended, be its number in use again or not."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor if _is(process) else None
    finally:
        os.close(descriptor)


def _is(process: _Process) -> bool:
    try:
        return _process(process.pid).started == process.started
    except (OSError, IndexError):
        return False


def _signal(handle: int | None, number: signal.Signals) -> None:
    if handle is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(handle, number)


def _await(handles: Iterable[int | None], until: float) -> None:
    for handle in handles:
        if handle is not None:
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            waiting.poll(max(0.0, until - time.monotonic()) * 1000)


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _made_group(run: Path) -> Path | None:
    """The control group of a run, made below our own one; None where that is not allowed."""
    if (known := _group(run)) is not None:
        return known
    own = _own_group()
    if own is None:
        return None
    # The keeper of a play by hand knows the folder by a descriptor, whose number is nobody's name.
    group = own / f"roundsman-{hashlib.sha256(os.fsencode(run.resolve())).hexdigest()[:16]}"
    try:
        group.mkdir(exist_ok=True)
        (run / _GROUP).write_text(str(group))
    except OSError:
        return None
    return group


def _group(run: Path) -> Path | None:
    try:
        group = Path((run / _GROUP).read_text())
    except FileNotFoundError:
        return None
    return group if group.name.startswith("roundsman-") and (group / "cgroup.procs").exists() else None


def _own_group() -> Path | None:
    try:
        path = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::/"))
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        top = next(Path(fields[1]) for fields in mounts if fields[2] == "cgroup2")
    except (OSError, StopIteration):
        return None
    own = top / path.lstrip("/")
    # A run that is started from within another one stands beside it, not in it.
    return own.parent if own.name.startswith("roundsman-") else own


def oom_kills(group: Path | None = None) -> int:
    """How many processes the kernel has killed in this process's control group, and below it, for lack of memory."""
    group = group or _own_group()
    try:
        lines = (group / "memory.events").read_text().splitlines() if group is not None else []
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _in_group(run: Path) -> set[int]:
    group = _group(run)
    if group is None:
        return set()
    try:
        return {int(line) for line in (group / "cgroup.procs").read_text().split()}
    except OSError:
        return set()


def _remove_group(run: Path, until: float) -> None:
    group = _group(run)
    if group is None or os.getpid() in _in_group(run):
        return
    # What was killed is no process any more a moment before its group is empty.
    with contextlib.suppress(OSError), (group / "cgroup.events").open("rb", buffering=0) as events:
        changed = select.poll()
        changed.register(events, select.POLLPRI)
        while b"populated 1" in os.pread(events.fileno(), 4096, 0) and (left := until - time.monotonic()) > 0:
            changed.poll(left * 1000)
        group.rmdir()
