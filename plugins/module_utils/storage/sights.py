"""When this node last saw each of its replicas in sync with its peer: by its own clock, of this boot only.

The agent looks every few seconds; a module on the node and the agent's report say how long ago it was. What counts is
written in docs/decisions/node-agent.md, "What a survivor has seen". All times are seconds of CLOCK_BOOTTIME.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Iterable, Iterator, NamedTuple, Optional, Tuple

from ..domain.disks import replicas
from ..domain.disks.drbd import PING_INTERVAL, Connection, Disk
from ..domain.values import errors
from . import node_boot, programs
from .drbd_node import PROC, DrbdNode

if TYPE_CHECKING:
    import pathlib

    from ..domain.disks.drbd import Net, Side, Volume

    Seen = Dict["_Key", float]

States = FrozenSet[Tuple[str, str, str, int, str, str]]
FOLDER = "run/roundsman"
FILE = "sights.json"
MADE = "replicas-made"
"""A folder in it, with a file for each replica that was made in this boot: what was seen before is not of that one."""
SECONDS = 10.0
"""How long all programs of one look may take together."""
MOST = 8 * replicas.MOST
_LIMIT = 4 * 1024 * 1024
_OPEN_TO_OTHERS = 0o022
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _SAFE


class _Key(NamedTuple):
    resource: str
    volume: int
    address: str


def uptime() -> float:
    """Seconds since this machine was started; those in which it was suspended count."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def look(root: pathlib.Path, *, hypervisor: str, now: Optional[float] = None) -> States:
    """Ask DRBD once, and keep what is in sync by protocol C; without a resource nothing is asked or written.

    Returns how each volume stands, without amounts: another value means that something has changed.

    A resource counts only if it had the same connection before and after its status was read: the address of a peer
    is no part of the status of version 8.4.

    Raises:
        Failed, InvalidInput: DRBD did not answer, or not as expected. StoreFailed: it could not be written.
    """
    runner = programs.Hurried(programs.runner_for(root, hypervisor=hypervisor), seconds=SECONDS)
    node = DrbdNode(runner, proc=root / PROC)
    boot, at = node_boot.boot_id(root), uptime() if now is None else now
    if not boot or node.has_none_up():
        return frozenset()
    before = node.nets()
    sides = node.resources().sides if before else []
    after = node.nets() if sides else {}
    seen = {
        key: at
        for side in sides
        if side.resource in before and before[side.resource] == after.get(side.resource)
        for key in _in_sync(side, before[side.resource])
    }
    if seen:
        # The newest are kept, if there are ever too many.
        kept = sorted({**_load(root, boot), **seen}.items(), key=lambda sight: -sight[1])[:MOST]
        _write(root, FILE, json.dumps({"boot_id": boot, "seen": [[*key, moment] for key, moment in kept]}))
    return frozenset(
        (
            side.resource,
            side.role.value,
            side.connection.value,
            volume.number,
            volume.disk.value,
            volume.peer_disk.value,
        )
        for side in sides
        for volume in side.volumes
    )


def _in_sync(side: Side, net: Net) -> Iterator[_Key]:
    # Of a peer that is asked less often it is noticed too late that it has gone.
    if net.protocol != "C" or not 0 < net.ping_interval <= PING_INTERVAL:
        return
    for volume in side.volumes:
        if _has_all_data(side.connection, volume):
            for address in side.addresses or net.addresses:
                yield _Key(side.resource, volume.number, address)


def _has_all_data(connection: Connection, volume: Volume) -> bool:
    """Whether this node's replica has all that its peer has; a peer that lost its disk writes to this one only."""
    if replicas.is_in_sync(connection, volume.disk, volume.peer_disk):
        return True
    return connection is Connection.CONNECTED and volume.disk is Disk.UP_TO_DATE and volume.peer_disk.is_gone


def ages(root: pathlib.Path, *, now: Optional[float] = None) -> Dict[str, Dict[int, Dict[str, float]]]:
    """How many seconds ago each volume of a resource was last seen in sync with a peer, by the peer's address.

    Nothing where that is unknown: never looked, another boot, a file that cannot be trusted or read; an age that is
    negative or more than this machine's uptime is left out.
    """
    moment = uptime() if now is None else now
    found: Dict[str, Dict[int, Dict[str, float]]] = {}
    sights = _load(root, node_boot.boot_id(root))
    made = _made_at(root, {key.resource for key in sights})
    for key, at in sights.items():
        if made[key.resource] < at <= moment:
            known = found.setdefault(key.resource, {}).setdefault(key.volume, {})
            known[key.address] = round(moment - at, 3)
    return found


def forget(root: pathlib.Path, resource: str, *, now: Optional[float] = None) -> None:
    """Begin a replica without a past: what was seen of this resource until now is not of it.

    Raises:
        StoreFailed: it could not be written.
    """
    _write(root, f"{MADE}/{resource}", repr(uptime() if now is None else now))


def _made_at(root: pathlib.Path, resources: Iterable[str]) -> Dict[str, float]:
    """When each replica was made in this boot; 0 if it is older, and inf where that cannot be read: it has no past."""
    found: Dict[str, float] = {}
    for resource in resources:
        try:
            text = None if "/" in resource else _read(root, f"{MADE}/{resource}")
            found[resource] = 0.0 if text is None else float(text)
        except (ValueError, errors.StoreFailed):
            found[resource] = math.inf
    return found


def _load(root: pathlib.Path, boot: str) -> Seen:
    """The sights of this boot."""
    try:
        found: Any = json.loads(_read(root, FILE) or "{}")
        if not boot or found.get("boot_id") != boot:
            return {}
        return {_Key(str(name), int(number), str(address)): float(at) for name, number, address, at in found["seen"]}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, errors.StoreFailed):
        return {}


def _folder(root: pathlib.Path, name: str, *, may_make: bool = False) -> int:
    """Open the folder of a file, which is no link and is not reached by one below FOLDER."""
    place = root / FOLDER
    if may_make:
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(place, _FOLDER)
    for step in name.split("/")[:-1]:
        try:
            if may_make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, 0o700, dir_fd=descriptor)
            inner = os.open(step, _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _read(root: pathlib.Path, name: str) -> Optional[str]:
    """The text of a file of this user's own; None where there is none.

    Raises:
        StoreFailed: it cannot be read, or another user may have written it.
    """
    try:
        folder = _folder(root, name)
        try:
            descriptor = os.open(name.rpartition("/")[2], os.O_RDONLY | os.O_NONBLOCK | _SAFE, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            is_own = found.st_uid == os.geteuid() and not found.st_mode & _OPEN_TO_OTHERS
            if not stat.S_ISREG(found.st_mode) or not is_own or found.st_size > _LIMIT:
                raise errors.StoreFailed(f"{root / FOLDER / name} is no file that only this user can write")
            return file.read(_LIMIT).decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise errors.StoreFailed(f"{root / FOLDER / name}: {error}") from error


def _write(root: pathlib.Path, name: str, text: str) -> None:
    """Write a file that only this user can read, whole or not at all; like all of /run it is gone after a boot."""
    last = name.rpartition("/")[2]
    try:
        folder = _folder(root, name, may_make=True)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f".{last}.new", dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
            with os.fdopen(os.open(f".{last}.new", flags, 0o600, dir_fd=folder), "w") as file:
                file.write(text)
            os.replace(f".{last}.new", last, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise errors.StoreFailed(f"{root / FOLDER / name}: {error.strerror}") from error
