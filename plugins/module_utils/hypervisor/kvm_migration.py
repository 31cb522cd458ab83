"""Live migration through libvirt, and what is to be done about one that was interrupted.

libvirt itself moves a domain from node to node (`--p2p`), so that it goes on when its client is killed. A note below
the node's root says where to, for whoever comes after. It is gone when the instance is here after all, or when whoever
records where it runs was told: until then it is neither started here, nor taken for stopped.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import time
from enum import Enum
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from ..domain.values import errors
from ..domain.values import hvparams as parameters
from . import libvirt_host, virsh
from .virsh_output import State

if TYPE_CHECKING:
    import pathlib

    from .virsh_output import Domain, Job

NOTES = "run/roundsman/migrations"
LOOK = 1.0
"""How often libvirt is asked how far a migration is, in seconds."""
PAUSE = 0.25
"""How often the source asks meanwhile whether the target has all writes, in seconds."""
END_LIMIT = 180.0
"""How long libvirt may take to end a migration that is aborted, in seconds: it cannot be while it tries to connect."""

_Note = Dict[str, Any]
TargetLacks = Callable[[], str]
"""Says on the source why the target may lack writes of the instance, '' while it has all."""
_MAY_HAVE_RUN = (
    "it is paused in migration here, and not on the target ({uri}): it may have run there and written its disks before "
    "the target was booted. Read /var/log/libvirt/qemu/{name}.log on the target: if the guest never ran there, run "
    "`virsh resume {name}` here; if it did, run `virsh destroy {name}` here and start the instance again"
)


class Where(Enum):
    """Where an instance is after a migration ended, however it did."""

    THERE = "it runs on the target"
    NOT_THERE = "it is not on the target"
    UNSURE = "not known for sure"
    UNANSWERED = "it is not here, and the target does not answer"


def may_start(where: Where, *, runs_nowhere: bool) -> bool:
    """Whether an instance may be started on the source of a migration that was interrupted.

    `runs_nowhere` is what the caller knows of all other nodes.
    """
    return where is Where.NOT_THERE or (where is Where.UNANSWERED and runs_nowhere)


def uri(target: str, transport: str) -> str:
    """Where libvirt of the node with this address is reached.

    Raises:
        InvalidInput: ssh, which libvirt starts, could take the address for an option.
    """
    if target.startswith("-"):
        raise errors.InvalidInput(f"the target's address {target!r} begins with '-': ssh would take it for an option")
    host = f"[{target}]" if ":" in target else target
    if transport == "ssh":
        return f"qemu+ssh://root@{host}/system?no_tty=1"
    return f"qemu+{transport}://{host}/system"


def options(target: str, given: parameters.Kvm) -> List[str]:
    """The options of `virsh migrate` but for the domain: how it reaches the node with this address, and how fast.

    With ssh memory goes through the connection of libvirt, with tls it is encrypted on its own way, with tcp it is not.
    """
    made = ["--live", "--p2p", "--abort-on-error", "--desturi", uri(target, given.migration_transport)]
    if given.migration_unsafe:
        made.append("--unsafe")
    if given.migration_bandwidth:
        made += ["--bandwidth", str(given.migration_bandwidth)]
    if given.migration_transport == "ssh":
        return [*made, "--tunnelled"]
    host = f"[{target}]" if ":" in target else target
    port = f":{given.migration_port}" if given.migration_port else ""
    made += ["--migrateuri", f"tcp://{host}{port}"]
    if _is_address(target):
        made += ["--listen-address", target]
    return [*made, "--tls"] if given.migration_transport == "tls" else made


def _is_address(target: str) -> bool:
    try:
        ipaddress.ip_address(target)
    except ValueError:
        return False
    return True


class _Watched:
    """A migration that this process began: how long its target had been up then, and when that was."""

    def __init__(self, far: libvirt_host.Host) -> None:
        self._far = far
        self._up, self._began = _seconds_up(far), time.monotonic()

    def has_stayed_up(self) -> bool:
        """Whether the target has surely not been booted since; the time that a host steals from it does not count.

        One that had been up for less time than has passed could be up for as long again.
        """
        now, passed = _seconds_up(self._far), time.monotonic() - self._began
        if self._up is None or now is None:
            return False
        return self._up >= passed and now >= self._up + passed / 2


def _seconds_up(far: libvirt_host.Host) -> Optional[float]:
    try:
        return far.seconds_up()
    except errors.Failed:
        return None


class Watch:
    """When a migration is aborted: so many seconds from now, or once its target lacks writes; `why` says which."""

    def __init__(self, limit: float, target_lacks: Optional[TargetLacks]) -> None:
        self.why = ""
        self._limit = limit
        self._target_lacks = target_lacks
        self._ends = time.monotonic() + limit

    def is_to_end(self, *, left: str = "") -> bool:
        """Whether it is to be aborted, for the first time or again; `left` is how far it is."""
        if not self.why:
            told, now = self._target_lacks() if self._target_lacks is not None else "", time.monotonic()
            if told:
                self.why = f"the target would lack its last writes: {told}"
            elif now >= self._ends:
                self.why = f"it did not end within {self._limit:g} s{left}"
            if self.why:
                self._ends = now + END_LIMIT
        return bool(self.why)

    def is_over(self) -> bool:
        """Whether libvirt has had all the time that it may take to abort it."""
        return bool(self.why) and time.monotonic() >= self._ends


class Migrations:
    """The migrations from this node to others."""

    def __init__(
        self, here: libvirt_host.Host, root: pathlib.Path, *, opcode: str, connect: Callable[..., virsh.Virsh]
    ) -> None:
        self._here = here
        self._root = root
        self._opcode = opcode
        self._connect = connect
        self._looked = 0.0
        self.progress: Dict[str, float] = {}

    def migrate(self, name: str, target: str, *, given: parameters.Kvm, target_lacks: TargetLacks) -> bool:
        """Hand a running instance over; returns whether it was here.

        It is aborted once the target lacks writes: there the guest would go on without them.

        Raises:
            Failed: it was not moved; the text says why, and where it runs.
        """
        far = libvirt_host.Host(self._connect(uri(target, given.migration_transport)))
        if not self._may_leave(name, far):
            self.forget(name)
            return False
        kept = f"{name}@{re.sub('[^0-9A-Za-z.]', '_', target)}.xml"
        far.release(name, keep=self._root / libvirt_host.DEFINITIONS / kept)
        if given.migration_downtime:
            self._here.order("migrate-setmaxdowntime", name, str(given.migration_downtime))
        watched = _Watched(far)
        self._write(name, {"uri": far.client.uri, "limit": given.migration_limit, "opcode": self._opcode})
        why = self._run(name, options(target, given), limit=given.migration_limit, target_lacks=target_lacks)
        where, text = self._settled(name, far, watched=watched)
        if where is Where.THERE:
            self.forget(name)
            return True
        raise errors.Failed(f"{name} was not migrated: {why or 'libvirt says that it was'}; {text}")

    def recover(
        self, name: str, *, patience: Optional[float] = None, target_lacks: Optional[TargetLacks] = None
    ) -> Optional[Tuple[Where, str]]:
        """Await the migration that a killed step left at work, abort it at its limit; None if there was none.

        It is aborted, too, once its target lacks writes, if the caller can tell.

        With `patience` it is awaited for no more than so many seconds. What is doubtful is said, and left as it is.

        Raises:
            Failed: libvirt of this node does not answer.
        """
        note, found = self._read(name), self._here.domain(name)
        if note is not None:
            self._await(name, Watch(self._rest(name, note["limit"], patience), target_lacks))
            return self._settled(name, libvirt_host.Host(self._connect(note["uri"])))
        if found is None or not self._here.job(name).moves:
            return None
        self._await(name, Watch(self._rest(name, parameters.Kvm().migration_limit, patience), target_lacks))
        found = self._here.domain(name)
        return Where.UNSURE, f"it is {'not' if found is None else found.text} here, after a migration"

    def forget(self, name: str) -> None:
        """Let go what is noted of a migration: where the instance runs is decided by others."""
        self.path(name).unlink(missing_ok=True)

    def path(self, name: str) -> pathlib.Path:
        """Where it is noted that a migration of an instance from here has no known end."""
        return self._root / NOTES / f"{name}.json"

    def _may_leave(self, name: str, far: libvirt_host.Host) -> bool:
        try:
            there = far.domain(name)
        except errors.Failed as error:
            raise errors.Failed(f"{name} was not migrated: the target does not answer: {error}") from error
        here = self._here.domain(name)
        if here is None and there is not None and there.state is State.RUNNING:
            return False
        if here is None:
            raise errors.Failed(f"{name} does not run here, nor on the target")
        if here.state is not State.RUNNING:
            raise errors.Failed(f"{name} is {here.text} here: only what runs is migrated live")
        if there is not None:
            raise errors.Failed(f"{name} is {_twice(name, here, there)}, then retry")
        return True

    def _run(self, name: str, chosen: List[str], *, limit: float, target_lacks: TargetLacks) -> str:
        """Have libvirt migrate, and abort that when it is to end; returns why it did not, "" if it says that it did."""
        watch = Watch(limit, target_lacks)
        with self._here.client.started("migrate", *chosen, self._here.uuid(name)) as process:
            while True:
                _printed, complaint = virsh.ended(process, time_limit=PAUSE)
                if process.returncode is not None:
                    break
                self._look(name)
                if watch.is_over():
                    return f"{watch.why}, and cannot be ended"
                if watch.is_to_end(left=self._left()):
                    self._abort(name)
        if process.returncode == 0:
            return ""
        if not watch.why:
            # The client may be gone, and libvirt still at work.
            self._await(name, watch)
        return watch.why or virsh.one_line(complaint, code=process.returncode)

    def _await(self, name: str, watch: Watch) -> None:
        """Wait until no migration is at work on an instance, and abort it when it is to end."""
        while (job := self._here.job(name)).moves or job.is_busy:
            if watch.is_over():
                return
            if watch.is_to_end():
                self._abort(name)
            time.sleep(PAUSE)

    def _rest(self, name: str, limit: float, patience: Optional[float]) -> float:
        """How many seconds a migration at work still has; none if libvirt cannot say how long it has been."""
        job = self._here.job(name)
        left = 0.0 if job.is_busy else max(0.0, limit - job.seconds)
        return left if patience is None else min(left, patience)

    def _settled(self, name: str, far: libvirt_host.Host, *, watched: Optional[_Watched] = None) -> Tuple[Where, str]:
        """Put in order what an ended migration left; nothing that may be the only copy at work is ended."""
        here, there, unanswered = self._here.domain(name), None, ""
        try:
            there = far.domain(name)
        except errors.Failed as error:
            unanswered = f"the target does not answer ({error})"
        where, text = self._found(name, here, there, unanswered=unanswered, far=far, watched=watched)
        if where is Where.NOT_THERE:
            self.forget(name)
        return where, text

    def _found(
        self,
        name: str,
        here: Optional[Domain],
        there: Optional[Domain],
        *,
        unanswered: str,
        far: libvirt_host.Host,
        watched: Optional[_Watched],
    ) -> Tuple[Where, str]:
        if here is None:
            return _gone(name, there, unanswered=unanswered, uri=far.client.uri)
        job = self._here.job(name)
        if job.moves or job.is_busy:
            return Where.UNSURE, f"its migration to {far.client.uri} still goes on"
        if here.state is State.MOVING:
            return self._half_way(name, there, unanswered=unanswered, far=far, watched=watched)
        if there is not None and there.state is not State.MOVING:
            return Where.UNSURE, f"it is {_twice(name, here, there)}"
        if there is not None and here.state is State.RUNNING:
            # It surely runs here: what the migration half made there is nobody's.
            with contextlib.suppress(errors.Failed):
                far.order("destroy", name)
        return Where.NOT_THERE, f"it is {here.text} here"

    def _half_way(
        self,
        name: str,
        there: Optional[Domain],
        *,
        unanswered: str,
        far: libvirt_host.Host,
        watched: Optional[_Watched],
    ) -> Tuple[Where, str]:
        """Here it is paused for the last step of a migration, and nobody does that step any more.

        The target may have run it, and have been booted since: what is in memory here is older than the disks then.
        Only the process that saw the migration fail resumes it, and only if the target has surely stayed up.
        """
        if unanswered:
            return Where.UNSURE, (
                f"it is paused in migration here, and {unanswered}: it may run there. Restore the network link of the "
                "target, or start its libvirt, then retry. If the target is off and will stay off, run "
                f"`{virsh.by_hand('destroy', name)}` here, then retry"
            )
        if there is None and watched is not None and watched.has_stayed_up():
            self._here.order("resume", name)
            return Where.NOT_THERE, "it is running here again"
        if there is None:
            return Where.UNSURE, _MAY_HAVE_RUN.format(name=name, uri=far.client.uri)
        if there.state is State.RUNNING:
            self._here.order("destroy", name)
            return Where.THERE, f"it runs on the target ({far.client.uri})"
        return Where.UNSURE, (
            f"it is paused in migration here, and {there.text} on the target ({far.client.uri}): run "
            f"`{virsh.by_hand('destroy', name)}` on both nodes, then start the instance again"
        )

    def _look(self, name: str) -> None:
        """Write down now and then how far a migration is, for whoever asks meanwhile."""
        if time.monotonic() < self._looked + LOOK:
            return
        self._looked = time.monotonic()
        with contextlib.suppress(errors.Failed):
            self._tell(name, self._here.job(name))

    def _tell(self, name: str, job: Job) -> None:
        note = self._read(name)
        if job.leaves and note is not None:
            self.progress = {
                "seconds": round(job.seconds, 1),
                "memory_total": round(job.total, 1),
                "memory_remaining": round(job.remaining, 1),
                "iteration": job.iteration,
            }
            self._write(name, {**note, "progress": self.progress})

    def _left(self) -> str:
        if not self.progress:
            return ""
        return " ({memory_remaining:g} of {memory_total:g} MiB left in pass {iteration})".format(**self.progress)

    def _abort(self, name: str) -> None:
        # It may have ended just now: what became of it is looked at next.
        with contextlib.suppress(errors.Failed):
            self._here.order("domjobabort", name)

    def _read(self, name: str) -> Optional[_Note]:
        try:
            made: _Note = json.loads(self.path(name).read_text())
        except (OSError, ValueError):
            # It is replaced as a whole, so one that cannot be read is none of ours.
            return None
        return made

    def _write(self, name: str, note: _Note) -> None:
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}")
            new.write_text(json.dumps(note))
            new.replace(path)
        except OSError as error:
            raise errors.StoreFailed(f"{path}: {error.strerror}") from error


def _gone(name: str, there: Optional[Domain], *, unanswered: str, uri: str) -> Tuple[Where, str]:
    """It is not on this node any more."""
    if unanswered:
        return Where.UNANSWERED, f"it is not here, and {unanswered}: it may run there"
    if there is None:
        return Where.NOT_THERE, f"it is neither here nor on the target ({uri})"
    text = f"it is {there.text} on the target ({uri}), and not here"
    if there.state is State.RUNNING:
        return Where.THERE, text
    return Where.UNSURE, f"{text}: run `{virsh.by_hand('destroy', name)}` on the target, then retry"


def _twice(name: str, here: Domain, there: Domain) -> str:
    """How it is on both nodes, with the command that ends one of the two guests, and where a person runs that."""
    halted = [node for node, one in (("this node", here), ("the target", there)) if one.state is not State.RUNNING]
    where = halted[0] if len(halted) == 1 else "the node whose guest has the older data"
    end = virsh.by_hand("destroy", name)
    return f"{here.text} here and {there.text} on the target: run `{end}` on {where}"


def notes(root: pathlib.Path) -> Dict[str, _Note]:
    """The migrations that were begun from this node and have no known end, by instance: `uri`, `opcode`, `progress`."""
    found: Dict[str, _Note] = {}
    folder = root / NOTES
    for path in sorted(folder.glob("[!.]*.json")) if folder.is_dir() else []:
        with contextlib.suppress(OSError, ValueError):
            found[path.stem] = json.loads(path.read_text())
    return found
