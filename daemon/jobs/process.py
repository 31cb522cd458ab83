"""Starting the process of an opcode, finding out how it stands, ending what is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils import trusted_paths
from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import (
    ansible_runs,
    durable_files,
    installed_version,
    livelocks,
    report_originals,
    run_group,
    run_records,
)
from ...plugins.plugin_utils.config import hosts
from .. import faults
from ..locks import desk
from . import opcode_process, recovery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ...plugins.plugin_utils.cluster.locks import Mode
    from ...plugins.plugin_utils.opcodes import contract

RUN_VARIABLE = run_group.RUN_VARIABLE
LOG = logging.getLogger(__name__)
STEP = "step"
"""The playbook of all opcodes that are the tasks of a role."""
MARGIN = 60.0
"""Seconds after its own time limit at which the daemon ends a run: what limits it from within may hang with it."""
SHORTEST_WAIT = 5.0
"""Seconds that an adopted run has at least, to be seen as ended if it has ended."""
REAP_SECONDS = 5.0
_OVERDUE = "overdue"
INHERITED = frozenset(
    {
        *("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "TZ", "USER"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV"),
    }
)
"""What a run has of the daemon's environment, beside the locale's and Ansible's settings: no other secret enters."""
SECRETS = ("_TOKEN", "_PASSWORD", "_PASS", "_SECRET", "_KEY")


@dataclass(frozen=True)
class Spec:
    """What a run needs: its play's path, variables and environment, its inventory, the locks that were granted.

    `kind` is that of its opcode. `files` are texts that come from nodes: Ansible takes every extra variable for a
    template, so they never are one.
    """

    kind: str
    playbook: Path
    variables: Mapping[str, Any]
    environment: Mapping[str, str]
    inventory: bytes
    granted: Mapping[str, str]
    time_limit: int
    files: Mapping[str, str] = field(default_factory=dict)


def run_spec(
    cluster: clusters.Cluster,
    made: contract.PlayOpcode,
    *,
    granted: Mapping[str, Mode],
    environment: Mapping[str, str],
) -> Spec:
    """The run of an opcode's play with the locks that were granted.

    Raises:
        Refused: the opcode does not fit the cluster as it is now, a large report that it needs is lost, or others than
            root could have changed its playbook since it was submitted.
    """
    root = environment["ROUNDSMAN_ROOT"]
    if playbook := made.included_playbook():
        trusted_paths.check(Path(playbook), root=Path(root))
    return Spec(
        kind=made.kind,
        playbook=ansible_runs.PLAYBOOKS / "opcodes" / f"{STEP if made.role else made.kind}.yml",
        variables={
            "step": made.variables(cluster),
            **({"roundsman_role": made.role, "roundsman_kind": made.kind} if made.role else {}),
        },
        environment={**environment, **_wide(cluster, made)},
        inventory=hosts.run_inventory(cluster, dict.fromkeys(made.hosts(cluster)), root=root),
        granted={lock: mode.value for lock, mode in granted.items()},
        time_limit=made.time_limit(cluster),
        files={**made.files(), **_whole_reports(made, root=root)},
    )


def _wide(cluster: clusters.Cluster, made: contract.PlayOpcode) -> dict[str, str]:
    forks = made.forks(cluster)
    return {"ANSIBLE_FORKS": str(forks)} if forks else {}


def _whole_reports(made: contract.PlayOpcode, *, root: str) -> dict[str, str]:
    folder = tree.Tree(Path(root)).report_originals
    return {name: report_originals.read(folder, digest) for name, digest in made.whole_reports().items()}


@dataclass
class Processes:
    """The opcode processes of this daemon; `oom_kills` is how many the kernel had killed when it started."""

    children: dict[Path, subprocess.Popen[bytes]] = field(default_factory=dict)
    oom_kills: int = 0

    def start(self, run: Path, spec: Spec) -> None:
        """Start the process of a run; it holds the run's livelock from its first moment."""
        run.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._write(run, spec)
        faults.point("before-opcode-start")
        version = installed_version.hold()
        kept = () if version is None else (version,)
        livelock = os.open(run / "livelock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(livelock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(run / "output", "ab", opener=_private) as output:
                self.children[run] = subprocess.Popen(
                    [sys.executable, "-m", opcode_process.__name__, str(run), str(livelock)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(livelock, *kept),
                    start_new_session=True,
                    cwd=run,
                    env={**inherited(), **spec.environment, RUN_VARIABLE: str(run)},
                )
        finally:
            os.close(livelock)

    async def ended(self, run: Path) -> None:
        """Wait until the process of a run has ended, be it ours or adopted; one that is overdue is killed.

        A process that cannot be killed is waited for no longer: it runs no further instruction of its program.
        """
        try:
            async with asyncio.timeout(_seconds_left(run)):
                await desk.ended(run / "livelock")
        except TimeoutError:
            await _end_overdue(run)
        child = self.children.pop(run, None)
        if child is not None and child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await _in_own_thread(lambda: child.wait(REAP_SECONDS))
        self.log_oom_kills(run_group.oom_kills())

    def log_oom_kills(self, count: int) -> None:
        """Log it when the kernel has killed processes of the daemon's control group since the last call."""
        if count > self.oom_kills:
            LOG.error(
                "out of memory: the kernel killed %d processes of roundsmand and its jobs; "
                "raise MemoryMax of roundsmand.service, or lower max_running_jobs",
                count - self.oom_kills,
            )
        self.oom_kills = count

    @staticmethod
    def _write(run: Path, spec: Spec) -> None:
        environment = {**spec.environment, RUN_VARIABLE: str(run)}
        opcode = {
            "playbook": str(spec.playbook),
            "variables": {**spec.variables, **_own_variables(run, spec)},
            "environment": environment,
            "time_limit": spec.time_limit,
            "started": time.monotonic(),
        }
        # Results of modules are nobody else's business.
        (run / "runner").mkdir(mode=0o700, exist_ok=True)
        written = {
            **{name: text.encode() for name, text in spec.files.items()},
            "inventory.json": spec.inventory,
            "granted.json": json.dumps(dict(spec.granted)).encode(),
            "opcode.json": json.dumps(opcode).encode(),
        }
        # Only the processes of the run read them, which a loss of power ends, too: a run that has not begun is written
        # again, and of one that has begun only `began` and what it left count.
        for name, data in written.items():
            durable_files.replace(run / name, data, for_this_boot=True)


def _own_variables(run: Path, spec: Spec) -> dict[str, str]:
    """What every run is told as extra variables, which no variable of a host and no fact replaces."""
    opcode = f"{run.parent.name}/{run.name}"
    return {"roundsman_opcode": opcode, "roundsman_root": spec.environment["ROUNDSMAN_ROOT"]}


def inherited() -> dict[str, str]:
    """The part of the daemon's environment that every run has."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or (name.startswith(("LC_", "ANSIBLE_", "COVERAGE_")) and not name.endswith(SECRETS))
    }


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def traces(run: Path) -> recovery.Traces:
    """What a run has left in its folder: its livelock before its result, which a run that ends meanwhile has left."""
    is_alive = livelocks.is_alive(run / "livelock")
    return recovery.Traces(is_alive, (run / "began").exists(), _left_result(run))


def _left_result(run: Path) -> recovery.Result:
    try:
        run_records.result(run)
    except FileNotFoundError:
        return recovery.Result.MISSING
    except errors.InvalidInput:
        return recovery.Result.DAMAGED
    return recovery.Result.READABLE


def overdue(run: Path) -> str:
    """Why the daemon killed a run, or ''."""
    try:
        return (run / _OVERDUE).read_text()
    except FileNotFoundError:
        return ""


def _seconds_left(run: Path) -> float | None:
    """How long a run may still take; None for one of which no limit is known.

    The monotonic clock is that of the whole machine, so it also serves the daemon that adopts a run.
    """
    try:
        opcode = json.loads((run / "opcode.json").read_bytes())
        limit = float(opcode["time_limit"]) + MARGIN
        spent = time.monotonic() - float(opcode.get("started", time.monotonic()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return max(SHORTEST_WAIT, limit - max(0.0, spent))


async def _end_overdue(run: Path) -> None:
    text = "its process did not end at its time limit (it hung or was stopped), and was killed"
    LOG.error("%s: %s", run, text)
    await end_run(run)
    with contextlib.suppress(errors.StoreFailed):
        await asyncio.to_thread(durable_files.replace, run / _OVERDUE, text.encode())


async def end_run(run: Path) -> None:
    """As `end_all_of`, without holding the event loop while the kernel ends the processes."""
    await _in_own_thread(lambda: end_all_of(run))


async def _in_own_thread(act: Callable[[], object]) -> None:
    """Call what may block for seconds on a process that cannot be killed.

    The threads of `asyncio.to_thread` are few: a handful of such processes would hold all that is written meanwhile.
    """
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def tell(error: Exception | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    def call() -> None:
        error = None
        try:
            act()
        except Exception as caught:  # noqa: BLE001 - it is raised where the call is awaited
            error = caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, error)

    threading.Thread(target=call, name="end of processes", daemon=True).start()
    await done


def end_all_of(run: Path) -> int:
    """Kill every process that belongs to a run, its modules' children included; returns how many there were.

    It blocks for up to ten seconds where a process cannot be killed: the event loop calls `end_run`.
    """
    ended = run_group.end(run)
    opcode_process.remove_sockets(run)
    if ended.left:
        LOG.error(
            "%s: processes %s cannot be killed (stuck in the kernel?)", run, ", ".join(map(str, sorted(ended.left)))
        )
    return ended.count
