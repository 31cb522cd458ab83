"""Holding locks and recording changes from inside a play, in the three cases of the design.

Under the daemon a run was granted its locks before it started; by hand with the daemon running they are asked from
its lock table; by hand without it, the right to write the configuration is held until the play ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..module_utils.domain import changes, errors, locks, recording, tree
from . import durable_files, libraries, livelocks, run_group, run_records, sealed_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from ..module_utils.domain import cluster as clusters
    from ..module_utils.domain.locks import Mode

PATIENCE = 60.0


@dataclass(frozen=True)
class Play:
    """The play at work: its controller's tree, the pid of its ansible-playbook, and its run folder, if it has one."""

    where: tree.Tree
    pid: int
    run: Path | None

    @property
    def name(self) -> str:
        return f"play-{self.pid}-{_start_time(self.pid)}"

    @property
    def livelock(self) -> Path:
        return self.where.livelocks / self.name

    @property
    def state(self) -> Path:
        """Where the play keeps what it holds."""
        return self.where.livelocks / f"{self.name}.hold" if self.run is None else self.run / "held"


def find_play(root: str, *, pid: int) -> Play:
    """The play whose ansible-playbook has this pid, on the controller with this root."""
    run = os.environ.get(run_group.RUN_VARIABLE)
    return Play(tree.Tree(Path(root)), pid, Path(run) if run else None)


def current(task_vars: Mapping[str, Any] | None) -> Play:
    """The play whose action runs in this process, a worker of its ansible-playbook; `roundsman_root` names its tree."""
    return find_play(str((task_vars or {}).get("roundsman_root", "/")), pid=os.getppid())


def hold(play: Play, wants: Mapping[str, Mode], *, time_limit: float) -> None:
    """Hold locks until the play ends.

    Raises:
        LockRefused: they were not granted to this run, or not within `time_limit` seconds.
        StoreFailed: without a daemon, somebody else has the right to write the configuration.
    """
    if play.run is not None:
        _check_granted(_modes(json.loads((play.run / "granted.json").read_bytes())), wants)
    play.state.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    with _turn(play):
        known = _state(play)
        if play.run is None:
            _hold_by_hand(play, known, wants, time_limit=time_limit)
        else:
            held = _added((known or {"locks": {}})["locks"], wants)
            durable_files.replace(play.state, json.dumps({"locks": held}).encode())


def _hold_by_hand(play: Play, known: dict[str, Any] | None, wants: Mapping[str, Mode], *, time_limit: float) -> None:
    if known is None:
        known = {"alone": not _client().answers(play.where.socket), "locks": {}}
        _start_keeper(play, alone=bool(known["alone"]))
        # Before anything can be refused: the keeper stays, and the next attempt finds it.
        durable_files.replace(play.state, json.dumps(known).encode())
    if known["alone"]:
        _refuse_unsettled(play)
        held = _added(known["locks"], wants)
    else:
        wanted = {lock: mode.value for lock, mode in wants.items()}
        body = {"owner": play.name, "livelock": play.name, "wants": wanted, "time_limit": time_limit}
        held = _client().post(play.where.socket, "/2/hold", body, seconds=time_limit + 30)
    durable_files.replace(play.state, json.dumps({**known, "locks": held}).encode())


def record(play: Play, *stated: changes.Change, now: float) -> None:
    """Record what became true, all of it or nothing.

    Raises:
        Refused: the play does not hold what a change is about, or only shares it.
        StoreFailed: it could not be made durable.
    """
    encoded, known = [recording.encode(change) for change in stated], _state(play) or {"locks": {}}
    held = _modes(known["locks"])
    for change in stated:
        recording.refuse_unheld(held, change)
    if play.run is not None:
        run_records.append(play.run, *encoded)
    elif known["alone"]:
        libraries.require()
        from .config import store  # noqa: PLC0415 - reading the document's types costs a run a fifth of a second

        with _turn(play):
            if not livelocks.is_alive(play.livelock):
                raise errors.Refused("record: the keeper of this play's locks has ended, and nothing is held any more")
            before = store.read(play.where.config)
            after = store.commit(play.where, list(stated), now=now)
            _tell_audit(play, before, after)
    else:
        body = {"owner": play.name, "livelock": play.name, "changes": encoded}
        # What became true stays true while the daemon restarts, and our locks outlive it.
        _client().post_until_answered(play.where.socket, "/2/record", body, patience=PATIENCE)


def _tell_audit(play: Play, before: clusters.Cluster, after: clusters.Cluster) -> None:
    """Without a daemon the play itself logs what it recorded of power."""
    from . import log_output  # noqa: PLC0415 - only a play without a daemon needs it
    from .rounds import audit_lines  # noqa: PLC0415 - as above

    lines = [f"record {log_output.account()} play={play.name}: {line}" for line in audit_lines.lines(before, after)]
    log_output.append_audit(play.where.audit_log, lines)


def _check_granted(granted: Mapping[str, Mode], wants: Mapping[str, Mode]) -> None:
    for lock, mode in wants.items():
        if not locks.covers(granted, lock, mode):
            raise errors.LockRefused(f"hold: {lock} ({mode.value}) was not granted to this job")


def _added(held: Mapping[str, str], wants: Mapping[str, Mode]) -> dict[str, str]:
    """What is held after more is: to ask for less than is held already changes nothing."""
    missing = {lock: mode.value for lock, mode in wants.items() if not locks.covers(_modes(held), lock, mode)}
    return {**held, **missing}


def _modes(held: Mapping[str, str]) -> dict[str, Mode]:
    return {lock: locks.Mode(mode) for lock, mode in held.items()}


def _state(play: Play) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(play.state.read_bytes())
    except FileNotFoundError:
        return None
    return found


def _start_keeper(play: Play, *, alone: bool) -> None:
    play.where.lib.mkdir(parents=True, exist_ok=True)
    files = [str(play.livelock), *([str(play.where.config_lock)] if alone else [])]
    keeper = subprocess.Popen(
        [sys.executable, "-S", str(Path(__file__).with_name("keeper.py")), str(play.pid), *files],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    said = keeper.stdout.readline().decode().strip() if keeper.stdout is not None else ""
    if said != "ready":
        raise errors.StoreFailed(said or "the keeper of this play's locks could not start")


@contextlib.contextmanager
def _turn(play: Play) -> Iterator[None]:
    """Actions of one play run at the same time, one per host: one after the other they read and write."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(play.state.with_name(play.state.name + ".lock"), flags, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _refuse_unsettled(play: Play) -> None:
    try:
        rows = json.loads(sealed_json.unseal(play.where.locks.read_bytes()))["held"]
    except FileNotFoundError:
        return
    except (ValueError, errors.InvalidInput) as error:
        raise errors.StoreFailed(f"{play.where.locks} is damaged: {error}; start roundsmand first") from error
    owners = [row["owner"] for row in rows if not row["livelock"]]
    if owners:
        raise errors.LockRefused(f"{', '.join(owners)} of the stopped daemon is not settled: start roundsmand first")
    plays = [row["owner"] for row in rows if row["livelock"] and livelocks.is_alive(Path(row["livelock"]))]
    if plays:
        raise errors.LockRefused(f"{', '.join(plays)} still runs with locks of the stopped daemon: let it end first")


def _client() -> ModuleType:
    libraries.require()
    from . import daemon_client  # noqa: PLC0415 - an HTTP library costs a run under the daemon a tenth of a second

    return daemon_client


def _start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
