"""Who can be killed or stopped in a lab: each kind of process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import process
from ansible_collections.roundsman.cluster.daemon.warm import keeping, server

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping

    from tests.integration import labs

    Finder = Callable[[], list[int]]


DYING = 10.0
"""Seconds within which what is killed has ended."""


class Victim(Enum):
    """Kinds of processes; the value is how they are counted."""

    DAEMON = "daemon"
    OPCODE = "opcode processes"
    SERVER = "warm server"
    GUARD = "warm guards"
    BMCS = "BMC simulators"
    AGENT = "agents"
    POLL = "polls"
    RAPI = "remote API"
    HAND = "commands and plays by hand"


class Pauses:
    """Processes that are stopped for a while; a thread lets them go on, for this one may wait for what they hold."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int]] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def add(self, handle: int, *, seconds: float) -> None:
        """Let the process of this handle go on after so many seconds, and close the handle."""
        with self._changed:
            self._due.append((time.monotonic() + seconds, handle))
            self._changed.notify()

    def end(self) -> None:
        """Let all go on now, and end the thread."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while self._due or not self._is_over:
                now = time.monotonic()
                over = [entry for entry in self._due if self._is_over or entry[0] <= now]
                self._due = [entry for entry in self._due if entry not in over]
                for _, handle in over:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, signal.SIGCONT)
                    os.close(handle)
                if not self._is_over:
                    self._changed.wait(max(0.01, min((due for due, _ in self._due), default=now + 60) - now))


class Victims:
    """The processes of a lab; `others` find those that are known to whoever started them."""

    def __init__(
        self, lab: labs.Running, *, chance: random.Random, others: Mapping[Victim, Finder] | None = None
    ) -> None:
        self._lab, self._chance, self._others = lab, chance, others or {}

    def kill(self, kind: Victim) -> int:
        """Kill one of a kind with SIGKILL; returns its pid, 0 when there was none."""
        with self._chosen(kind) as (pid, handle):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            return pid

    def pause(self, kind: Victim, pauses: Pauses, *, seconds: float) -> int:
        """Stop one of a kind for so many seconds; returns its pid, 0 when there was none."""
        with self._chosen(kind) as (pid, handle):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGSTOP)
                    pauses.add(os.dup(handle), seconds=seconds)
            return pid

    def opcodes(self) -> dict[int, str]:
        """The opcode (`JOB/INDEX`) of each process of an opcode's run."""
        return {pid: "/".join(run.parts[-2:]) for pid, run in self._runs().items()}

    def end_runs(self) -> list[Path]:
        """Kill all processes of opcodes and of the warm server in one moment; returns the folders of their runs."""
        runs = sorted({*self._runs().values()})
        kinds = (Victim.SERVER, Victim.GUARD, Victim.OPCODE)
        end = time.monotonic() + DYING
        while (left := {pid for kind in kinds for pid in self.alive(kind)}) and time.monotonic() < end:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        return runs

    def _runs(self) -> dict[int, Path]:
        marker = f"{process.RUN_VARIABLE}={self._lab.where.queue}/".encode()
        prefix = len(f"{process.RUN_VARIABLE}=")
        return {
            pid: Path(os.fsdecode(word[prefix:]))
            for pid in _pids()
            for word in words(pid, "environ")
            if word.startswith(marker)
        }

    def alive(self, kind: Victim) -> list[int]:
        """The pids of a kind, as they are now; of an opcode all that its run has started with its environment."""
        if kind in self._others:
            return self._others[kind]()
        if kind is Victim.DAEMON:
            return [pid for pid in (_daemon(self._lab),) if pid and _parent(pid) >= 0]
        if kind in {Victim.OPCODE, Victim.POLL}:
            runs = f"{self._lab.where.queue}/" if kind is Victim.OPCODE else f"{self._lab.where.lib / 'poll'}"
            marker = f"{process.RUN_VARIABLE}={runs}".encode()
            return [pid for pid in _pids() if any(one.startswith(marker) for one in words(pid, "environ"))]
        warm = _warm(self._lab)
        servers = {pid for pid in warm if _parent(pid) == _daemon(self._lab)}
        if kind is Victim.SERVER:
            return sorted(servers)
        # The forks of a server look like it; a guard descends from it, or is an orphan when that was killed.
        return [pid for pid in warm if pid not in servers and _parent(pid) not in set(warm) - servers]

    @contextlib.contextmanager
    def _chosen(self, kind: Victim) -> Iterator[tuple[int, int]]:
        """One of a kind and a handle of it; 0 when there is none."""
        found = self.alive(kind)
        chosen = self._chance.choice(found) if found else 0
        try:
            handle = os.pidfd_open(chosen) if chosen else -1
        except ProcessLookupError:
            handle = -1
        try:
            # The number may have gone to somebody else since it was found.
            yield (chosen, handle) if handle >= 0 and chosen in self.alive(kind) else (0, -1)
        finally:
            if handle >= 0:
                os.close(handle)


def descendants(pids: list[int]) -> list[int]:
    """These processes, and all that descend from them."""
    found, parents = set(pids), {pid: _parent(pid) for pid in _pids()}
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return sorted(found)


def naming(folder: Path) -> list[int]:
    """The processes that have a folder in their command lines or their environments, but for this one."""
    name = os.fsencode(str(folder))
    found = [
        pid for pid in _pids() if any(name in word for kind in ("cmdline", "environ") for word in words(pid, kind))
    ]
    return [pid for pid in found if pid != os.getpid()]


def _warm(lab: labs.Running) -> list[int]:
    module, folder = server.__name__.encode(), str(keeping.shim_folder(lab.where).parent).encode()
    return [pid for pid in _pids() if {module, folder} <= set(words(pid, "cmdline"))]


def _daemon(lab: labs.Running) -> int:
    try:
        return int(lab.where.pid_file.read_text())
    except (FileNotFoundError, ValueError):
        return 0


def _pids() -> list[int]:
    return sorted(int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def words(pid: int, name: str) -> list[bytes]:
    """The words of a file of a process in /proc (`cmdline`, `environ`)."""
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
