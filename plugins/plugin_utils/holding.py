"""Holding locks and recording changes from inside a play, in the three cases of the design.

Under the daemon a run was granted its locks before it started; by hand with the daemon running they are asked from
its lock table; by hand without it, the right to write the configuration is held until the play ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.values import errors, tree
from . import durable_files, libraries, livelocks, run_group, run_records, sealed_json
from .cluster import changes, locks, recording

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from types import ModuleType

    from .cluster import cluster as clusters
    from .cluster.locks import Mode

PATIENCE = 60.0
LONGER = 100.0
"""How much longer than the time limit the daemon may take: after a takeover it waits a minute for nodes."""
BOOTS_SECONDS, BOOTS_PAUSE = 15.0, 0.5
"""How long the agents of nodes that have just booted get to answer, and how often they are asked."""
RANDOM = 16
"""Hexadecimal digits in the name of each file of a play by hand, so that nobody takes the name before the play."""


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
    def opcode(self) -> str:
        """The opcode (`JOB/INDEX`) whose play it is; '' for a play by hand."""
        return "" if self.run is None else f"{self.run.parent.name}/{self.run.name}"

    @property
    def livelock(self) -> Path:
        return self._beside("")

    @property
    def state(self) -> Path:
        """Where the play keeps what it holds."""
        return self._beside(".hold") if self.run is None else self.run / "held"

    @property
    def turns(self) -> Path:
        """The lock of those actions of the play that read and write its state."""
        return self._beside(".hold.lock") if self.run is None else self.run / "held.lock"

    @property
    def processes(self) -> Path:
        """The folder in which the keeper of a play by hand notes the processes of the play."""
        return self._beside(".run")

    def _beside(self, suffix: str) -> Path:
        """A file among the livelocks; each name has a part of its own that only the play's user can know before."""
        digest = hashlib.sha256(f"{_addresses(self.pid)} {suffix}".encode()).hexdigest()
        return self.where.livelocks / f"{self.name}-{digest[:RANDOM]}{suffix}"


def find_play(root: str, *, pid: int) -> Play:
    """The play whose ansible-playbook has this pid, on the controller with this root."""
    run = os.environ.get(run_group.RUN_VARIABLE)
    return Play(tree.Tree(Path(root)), pid, Path(run) if run else None)


def current(task_vars: Mapping[str, Any] | None) -> Play:
    """The play whose action runs in this process, a worker of its ansible-playbook; `roundsman_root` names its tree."""
    return find_play(str((task_vars or {}).get("roundsman_root", "/")), pid=os.getppid())


def hold(play: Play, wants: Mapping[str, Mode], *, time_limit: float, is_emergency: bool = False) -> None:
    """Hold locks until the play ends.

    By hand no instance is held on which steps of another controller may still be at work, save in an emergency.

    Raises:
        Refused, LockRefused: they are; the locks were not granted to this run, or not within `time_limit` seconds.
        StoreFailed: without a daemon, somebody else has the right to write the configuration.
    """
    if play.run is not None:
        _check_granted(_modes(json.loads((play.run / "granted.json").read_bytes())), wants)
    play.state.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    with _turn(play) as state:
        known = _read(play, state)
        if play.run is None:
            _hold_by_hand(play, state, known, wants, time_limit=time_limit, is_emergency=is_emergency)
        else:
            held = _added((known or {"locks": {}})["locks"], wants)
            _write(play, state, {"locks": held})


def _hold_by_hand(
    play: Play,
    state: Path,
    known: dict[str, Any] | None,
    wants: Mapping[str, Mode],
    *,
    time_limit: float,
    is_emergency: bool,
) -> None:
    if known is None:
        known = {"alone": not _client().answers(play.where.socket), "locks": {}}
        _start_keeper(play, alone=bool(known["alone"]))
        # Before anything can be refused: the keeper stays, and the next attempt finds it.
        _write(play, state, known)
    if known["alone"]:
        _refuse_without_keeper(play, "hold")
        _refuse_unsettled(play)
        if not is_emergency:
            _refuse_unanswered(play, wants)
            _learn_boots(play, wants)
        held = _added(known["locks"], wants)
    else:
        wanted = {lock: mode.value for lock, mode in wants.items()}
        named = {"owner": play.name, "livelock": play.livelock.name, "wants": wanted, "time_limit": time_limit}
        body = {**named, **({"is_emergency": True} if is_emergency else {})}
        held = _client().post(play.where.socket, "/2/hold", body, seconds=time_limit + LONGER)
    _write(play, state, {**known, "locks": held})


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
            _refuse_without_keeper(play, "record")
            before = store.read(play.where.config)
            after = store.commit(play.where, list(stated), now=now)
            _tell_audit(play, before, after)
    else:
        body = {"owner": play.name, "livelock": play.livelock.name, "changes": encoded}
        # What became true stays true while the daemon restarts, and our locks outlive it.
        _client().post_until_answered(play.where.socket, "/2/record", body, patience=PATIENCE)


def confirm_boots(play: Play, cluster: clusters.Cluster, nodes: Collection[str]) -> None:
    """Have the steps of a play by hand name the boots in which these nodes (UUIDs) are, once their agents say them.

    The daemon asks all nodes every minute; a play that has just powered nodes on does not wait for that. Where agents
    do not answer, or the daemon does not, the boots of before are named, and nodes that have booted since refuse the
    steps with a text.

    Raises:
        Refused: nothing is held any more. StoreFailed, StateUnknown: what steps name cannot be read or written.
    """
    known, left = _state(play), set(nodes)
    end = time.monotonic() + BOOTS_SECONDS
    while known is not None and left and time.monotonic() < end:
        if known["alone"]:
            with _turn(play):
                _refuse_without_keeper(play, "confirm boots")
                left = _boots_unconfirmed(play, cluster, left)
        else:
            named = {"owner": play.name, "livelock": play.livelock.name, "nodes": sorted(left)}
            # It may be restarted meanwhile, or be one of before that is to be restarted.
            with contextlib.suppress(errors.StoreFailed, errors.LockRefused):
                told = _client().post(play.where.socket, "/2/confirm-boots", named, seconds=BOOTS_SECONDS)
                left = set(told["unconfirmed"])
        if left:
            time.sleep(BOOTS_PAUSE)


def _learn_boots(play: Play, wants: Mapping[str, Mode]) -> None:
    """Ask nodes that have booted while no daemon asked them; one that is silent is waited for by no play."""
    if not play.where.epoch.exists():
        return
    libraries.require()
    from .config import store  # noqa: PLC0415 - reading the document's types costs a run a fifth of a second

    cluster = store.read(play.where.config)
    held = locks.objects(wants, "instance", known=cluster.instances) & cluster.instances.keys()
    its = [uuid for name in held for uuid in (*cluster.instances[name].nodes, *cluster.instances[name].places)]
    _boots_unconfirmed(play, cluster, {*its, *locks.objects(wants, "node", known=cluster.nodes)})


def _boots_unconfirmed(play: Play, cluster: clusters.Cluster, nodes: Collection[str]) -> set[str]:
    from . import confirmed_boots  # noqa: PLC0415 - only a play without a daemon needs it

    return asyncio.run(confirmed_boots.confirm(play.where, cluster, nodes))


def _tell_audit(play: Play, before: clusters.Cluster, after: clusters.Cluster) -> None:
    """Without a daemon the play itself logs what it recorded of power."""
    from . import log_output  # noqa: PLC0415 - only a play without a daemon needs it
    from .rounds import audit_lines  # noqa: PLC0415 - as above

    lines = [f"record {log_output.account()} play={play.name}: {line}" for line in audit_lines.lines(before, after)]
    log_output.append_audit(play.where, lines)


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
    if not play.state.parent.exists():
        return None
    with _opened_folder(play) as folder:
        return _read(play, folder / play.state.name)


def _read(play: Play, state: Path) -> dict[str, Any] | None:
    """What a play holds by its file; only one that a play of this user wrote, and this very play, is believed."""
    try:
        with _named(play), os.fdopen(livelocks.open_own(state, os.O_RDONLY), "rb") as file:
            found: dict[str, Any] = json.loads(file.read())
    except FileNotFoundError:
        return None
    if play.run is None and found.get("play") != play.name:
        raise errors.Refused(f"{play.state} is not of {play.name}: remove it, then retry")
    return found


def _write(play: Play, state: Path, held: Mapping[str, Any]) -> None:
    durable_files.replace(state, json.dumps({"play": play.name, **held}).encode())


def _start_keeper(play: Play, *, alone: bool) -> None:
    play.where.lib.mkdir(parents=True, exist_ok=True)
    files = [play.livelock, play.processes, *([play.where.config_lock] if alone else [])]
    keeper = subprocess.Popen(
        [sys.executable, "-S", str(Path(__file__).with_name("keeper.py")), str(play.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    said = ""
    if keeper.stdin is not None and keeper.stdout is not None:
        with contextlib.suppress(BrokenPipeError), keeper.stdin:
            keeper.stdin.write(b"\0".join(map(os.fsencode, files)))
        said = keeper.stdout.readline().decode().strip()
    if said != "ready":
        raise errors.StoreFailed(said or "the keeper of this play's locks could not start")


@contextlib.contextmanager
def _turn(play: Play) -> Iterator[Path]:
    """Actions of one play run at the same time, one per host: one after the other they read and write its state.

    The path to the state leads to the same folder whatever takes its place: others write beside it.
    """
    with _opened_folder(play) as folder:
        with _named(play):
            descriptor = livelocks.open_own(folder / play.turns.name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield folder / play.state.name
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _opened_folder(play: Play) -> Iterator[Path]:
    try:
        with durable_files.opened_folder(play.state.parent) as folder:
            yield folder
    except NotADirectoryError as error:
        raise errors.Refused(f"{play.state.parent} must be a folder, not a link") from error


@contextlib.contextmanager
def _named(play: Play) -> Iterator[None]:
    """Have a refusal of a file beside the state name the folder too, which was opened before."""
    try:
        yield
    except errors.Refused as error:
        raise errors.Refused(f"{play.state.parent}/{error}") from error


def _refuse_without_keeper(play: Play, action: str) -> None:
    if not livelocks.is_alive(play.livelock, owner=os.geteuid()):
        raise errors.Refused(
            f"{action}: the keeper of this play's locks has ended, and nothing is held any more: run the play again"
        )


def _refuse_unanswered(play: Play, wants: Mapping[str, Mode]) -> None:
    if not any(locks.level(lock) == "instance" for lock in wants) or not play.where.epoch.exists():
        return
    libraries.require()
    from . import controller_epoch  # noqa: PLC0415 - reading the document's types costs a run a fifth of a second
    from .config import store  # noqa: PLC0415 - as above

    controller_epoch.require_clear(play.where, store.read(play.where.config), wants)


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
    # The name is the daemon's word; which folder it is in is not, for root opens the file.
    named = [(row["owner"], play.where.livelocks / Path(row["livelock"]).name) for row in rows if row["livelock"]]
    plays = [owner for owner, livelock in named if livelocks.is_alive(livelock)]
    if plays:
        raise errors.LockRefused(f"{', '.join(plays)} still runs with locks of the stopped daemon: let it end first")


def _client() -> ModuleType:
    libraries.require()
    from . import daemon_client  # noqa: PLC0415 - an HTTP library costs a run under the daemon a tenth of a second

    return daemon_client


def _start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _addresses(pid: int) -> str:
    """Where the kernel put the programs of a process: random, the same in its forks, and shown to its user only."""
    return Path(f"/proc/{pid}/auxv").read_bytes().hex()
