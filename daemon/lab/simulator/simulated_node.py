"""A lab node around its simulated hypervisor: its power, its boots, its management link and the faults it has.

Everything is a file below the node's root, most of them in `lab`. A root without that folder belongs to no lab: it
always has power, and nothing is wrong with it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, FrozenSet, Iterator, List

from ....plugins.module_utils.domain.values import errors
from . import node_journal

LAB = "lab"
ON_NODES = Path(__file__).with_name("on_nodes")
"""The folder by which the modules on a node find the simulated drivers."""
OFF, CUT, REBOOTS, HANGS = "lab/off", "lab/cut", "lab/reboots", "lab/hangs"
PANIC, RETURN_AT = "lab/panic", "lab/return-at"
UNHEARD = "lab/unheard"
"""How the node does not answer as it should; without the file it does."""
BOOT_ID = "proc/sys/kernel/random/boot_id"
FAULTS = "lab/faults"
SILENT, GARBAGE, LATE, MIGRATION = "silent", "garbage", "late", "migration"
AGENT, SSH = "agent", "ssh"
"""The faults of a node of which only the agent, or only SSH, is not reached."""
LOSS, LIES, CLOCK = "loss", "lies", "clock"
"""Percent of the packets to its agent that are lost; its agent claims to be in sync now; seconds its clock is ahead."""
REPLICATION, FULL, RETURNS = "replication", "full", "returns"
"""No replication link; no room in its volume groups; seconds after which a node that is off powers on by itself."""
FROM_AGENT = "ROUNDSMAN_LAB_AGENT"
"""In the environment of a node's agent, and of nothing else on the node."""
GUESTS, AUTOSTART = "guests", "autostart"
LINKS, DISKS = "links", "disks"
"""The faults of a node about its links to peers, and about the disks below instances."""
ANSWERS = "answers"
"""The event of a node that answers from now on `well`, `badly` (it hangs, is late or answers garbage) or `not`."""
NEVER = "never"
"""What stands in the place of the seconds for a guest that ignores a soft stop."""
_AGENT_MODULE = b"monitoring.agent"
"""The end of the name of the module that is a node's agent."""
POWER_CUT = "power cut"
"""What `lab/off` says where the power was lost by a fault; elsewhere it names who took it."""
_LOCK = "lab/power.lock"
_LOCK_LIMIT, _PAUSE = 10.0, 0.02
_GONE = "the node lost power or rebooted while this step was at work"


@dataclass(frozen=True)
class NodeFacts:
    """What the files of a node say of its power, its links and its disks; one that is not there is off."""

    boot: str
    is_on: bool
    is_cut: bool
    links_cut: FrozenSet[str]
    failed: FrozenSet[str]


def environment(root: Path) -> Dict[str, str]:
    """What a process that runs on the node has in its environment, beside what this process has."""
    others = os.environ.get("PYTHONPATH", "")
    return {"ROUNDSMAN_ROOT": str(root), "PYTHONPATH": os.pathsep.join(filter(None, (str(ON_NODES), others)))}


def boot_id(root: Path) -> str:
    """The identifier of the node's current boot, or of its last one; '' where there is none."""
    try:
        return (root / BOOT_ID).read_text().strip()
    except FileNotFoundError:
        return ""


def new_boot(root: Path) -> None:
    """Give the node the identifier of another boot."""
    _write(root / BOOT_ID, f"{uuid.uuid4()}\n")


def is_on(root: Path) -> bool:
    """Whether the node has power, has not panicked, and is not busy rebooting."""
    return not (root / OFF).exists() and not (root / PANIC).exists() and not is_rebooting(root)


def is_reached(root: Path) -> bool:
    """Whether the node is on and its management link is not cut."""
    return is_on(root) and not (root / CUT).exists() and not fault(root, SILENT)


def is_rebooting(root: Path) -> bool:
    """Whether a reboot has begun and its time is not over."""
    try:
        return time.monotonic() < float((root / REBOOTS).read_text())
    except (FileNotFoundError, ValueError):
        return False


def is_due_back(root: Path) -> bool:
    """Whether a node without power powers on by itself now."""
    try:
        return time.monotonic() >= float((root / RETURN_AT).read_text())
    except (FileNotFoundError, ValueError):
        return False


def plan_return(root: Path) -> None:
    """Note when a node that has just lost its power powers on by itself, if it does."""
    seconds = fault(root, RETURNS)
    if seconds:
        _write(root / RETURN_AT, f"{time.monotonic() + float(seconds)}")


def begin_reboot(root: Path, *, seconds: float) -> None:
    """Note that the node is away for so many seconds."""
    _write(root / REBOOTS, f"{time.monotonic() + seconds}")


def rewire(root: Path) -> None:
    """Make `wire`, the node's management link, and its agent as power, cuts and faults want them."""
    wire, reached = root / "wire", is_reached(root)
    if not reached or fault(root, SSH):
        wire.unlink(missing_ok=True)
    else:
        with contextlib.suppress(FileExistsError):
            wire.symlink_to(".")
    _freeze_agent(root, is_frozen=(root / HANGS).exists())
    _note_answers(root, is_gone=not reached)


def _note_answers(root: Path, *, is_gone: bool) -> None:
    """Write into the node's journal how it answers from now on, if that has changed."""
    is_bad = (root / HANGS).exists() or any(
        fault(root, name) for name in (GARBAGE, LATE, AGENT, SSH, LOSS, LIES, CLOCK)
    )
    before = (root / UNHEARD).read_text() if (root / UNHEARD).exists() else "well"
    how = "not" if is_gone else "badly" if is_bad else "well"
    if how == before:
        return
    if how == "well":
        (root / UNHEARD).unlink(missing_ok=True)
    else:
        _write(root / UNHEARD, how)
    node_journal.append(root, {"event": ANSWERS, "opcode": "", "how": how})


@contextlib.contextmanager
def alive(root: Path, *, boot: str) -> Iterator[None]:
    """Keep the node's power for one act of a process that began in the boot with this identifier.

    Raises:
        Failed: the node has no power, or has booted since; a real process would be gone.
    """
    with power_held(root):
        if not is_on(root) or boot_id(root) != boot:
            raise errors.Failed(_GONE)
        yield


@contextlib.contextmanager
def power_held(root: Path, *, is_changing: bool = False) -> Iterator[None]:
    """Hold the lock of the node's power: many acts at a time, or one change of it, which waits for them.

    A change waits for 10 s at most: the process of an act may be stopped.
    """
    if not (root / LAB).is_dir():
        yield
        return
    descriptor = os.open(str(root / _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        if is_changing:
            _lock_in_time(descriptor)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _lock_in_time(descriptor: int) -> None:
    deadline = time.monotonic() + _LOCK_LIMIT
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        else:
            return


def fault(root: Path, name: str) -> str:
    """What is noted of one of the node's faults, '' where it does not stand; `name` may be `guests/web1`."""
    try:
        return (root / FAULTS / name).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def set_fault(root: Path, name: str, text: str) -> None:
    """Note a fault of the node; an empty text ends it."""
    if text:
        _write(root / FAULTS / name, text)
    else:
        (root / FAULTS / name).unlink(missing_ok=True)


def faults(root: Path, kind: str) -> Dict[str, str]:
    """The faults of one kind that concern something with a name (an instance, a peer), by that name."""
    folder = root / FAULTS / kind
    names = sorted(path.name for path in folder.iterdir() if path.suffix != ".new") if folder.is_dir() else []
    found = {name: fault(root, f"{kind}/{name}") for name in names}
    return {name: text for name, text in found.items() if text}


def stop_fault(root: Path, instance: str) -> str:
    """How the guest of an instance stops softly: in so many seconds, `never`, or '' where nothing is wrong with it.

    A guest takes this with it to other nodes of its lab, so all of them are asked.
    """
    if not (root / LAB).is_dir():
        return ""
    nodes = [root, *sorted(root.parent.glob("*"))]
    return next((text for text in (fault(node, f"{GUESTS}/{instance}") for node in nodes) if text), "")


def end_processes(root: Path) -> None:
    """Kill what runs on the node: every process that was started with this root."""
    for process in processes(root):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def processes(root: Path) -> List[int]:
    """The processes of this machine that run on the node, but for this one."""
    mark = b"ROUNDSMAN_ROOT=" + os.fsencode(str(root))
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def end_agent(root: Path) -> None:
    """Kill the node's agent; what keeps it at work starts it again."""
    for process in agent(root):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)


def _freeze_agent(root: Path, *, is_frozen: bool) -> None:
    """Stop what answers for the node's agent, or let it go on: its port stays open, and nothing comes of it."""
    for process in agent(root, part=b"--front"):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGSTOP if is_frozen else signal.SIGCONT)


def agent(root: Path, *, part: bytes = b"") -> List[int]:
    """The processes of the node's agent, or those with a certain word in their command line."""
    if not (root / "etc/roundsman/agent.json").exists():
        return []
    found = []
    for process in processes(root):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            if part in words if part else b"--front" in words or any(word.endswith(_AGENT_MODULE) for word in words):
                found.append(process)
    return found


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole.

    Raises:
        Failed: it cannot be written.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text)
        new.replace(path)
    except OSError as error:
        raise errors.Failed(f"{path}: {errno.errorcode.get(error.errno or 0, '')} {error.strerror}") from error


def facts(root: Path) -> NodeFacts:
    """What the files of a node say."""
    if not root.is_dir():
        return NodeFacts("", is_on=False, is_cut=True, links_cut=frozenset(), failed=frozenset())
    return NodeFacts(
        boot=boot_id(root),
        is_on=is_on(root),
        is_cut=(root / CUT).exists() or bool(fault(root, REPLICATION)),
        links_cut=frozenset(faults(root, LINKS)),
        failed=frozenset(faults(root, DISKS)),
    )
