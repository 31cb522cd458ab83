"""What a node knows about itself, from its own files and never from a module's arguments."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import pwd
import stat
from typing import Dict, Mapping

from . import whitelist
from .domain.values import errors, json_values

_SIZE_LIMIT = 65536
WRITABLE_BY_OTHERS = 0o002
_OPEN_TO_OTHERS = 0o027
_Object = Dict[str, json_values.Value]


@dataclasses.dataclass(frozen=True)
class Settings:
    """A node's own settings; `root` is `/` save in a lab, times are in seconds.

    `hypervisor` is `fake` on the nodes of a lab, whose programs are simulated.
    """

    root: pathlib.Path
    node: str
    name: str
    owner: whitelist.Owner
    diagnose_time_limit: float
    hypervisor: str = "kvm"

    @property
    def diagnose_commands(self) -> pathlib.Path:
        """The whitelist of diagnose commands (seed 000, section "Command execution")."""
        return self.root / "etc/roundsman/node-diagnose-commands"

    @property
    def repair_commands(self) -> pathlib.Path:
        """The whitelist of repair commands (seed 000, section "Command execution")."""
        return self.root / "etc/roundsman/node-repair-commands"

    @property
    def diagnose_lock(self) -> pathlib.Path:
        """The lock held while a diagnose command is verified."""
        return self.root / "run/roundsman/node-diagnose-commands.lock"

    @property
    def repair_lock(self) -> pathlib.Path:
        """The lock held while a repair command is verified."""
        return self.root / "run/roundsman/node-repair-commands.lock"


def load(environment: Mapping[str, str]) -> Settings:
    """Read `etc/roundsman/node.json` below the root, which ROUNDSMAN_ROOT in the environment may move.

    Raises: errors.StoreFailed if it cannot be read or anybody could write it, errors.InvalidInput naming file
    and field if it is wrong.
    """
    root = pathlib.Path(environment.get("ROUNDSMAN_ROOT") or "/")
    path = root / "etc/roundsman/node.json"
    try:
        value = json_values.parse(content(path, forbidden=WRITABLE_BY_OTHERS).decode())
    except (UnicodeDecodeError, errors.InvalidInput) as e:
        raise errors.InvalidInput("{}: {}".format(path, e)) from e
    if not isinstance(value, dict):
        raise errors.InvalidInput("{}: not a JSON object".format(path))
    node = _text(value, field="node", default="", path=path)
    return Settings(
        root=root,
        node=node,
        name=_text(value, field="name", default=node, path=path),
        owner=_owner(_text(value, field="command_owner", default="root", path=path), path=path),
        diagnose_time_limit=_seconds(value, field="diagnose_time_limit", default="60", path=path),
        hypervisor=_text(value, field="hypervisor", default="kvm", path=path),
    )


def key(settings: Settings) -> bytes:
    """Read the node's key, all bytes of it, which others may not read and its group may not write.

    Raises: errors.StoreFailed if it is missing, empty or open to others.
    """
    path = settings.root / "var/lib/roundsman/node.key"
    found = content(path, forbidden=_OPEN_TO_OTHERS)
    if not found:
        raise errors.StoreFailed("{}: the key is empty".format(path))
    return found


def content(path: pathlib.Path, *, forbidden: int) -> bytes:
    """Read a small file of settings that has none of the mode bits `forbidden`.

    Raises: errors.StoreFailed if it cannot be read, is no regular file, too large, or has such a bit.
    """
    try:
        # Without blocking: a pipe in the file's place must not hold the node up.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise errors.StoreFailed("{}: not a regular file".format(path))
            mode = stat.S_IMODE(found.st_mode)
            if mode & forbidden:
                raise errors.StoreFailed("{}: mode {:04o} is too permissive".format(path, mode))
            read = file.read(_SIZE_LIMIT + 1)
    except OSError as e:
        raise errors.StoreFailed("{}: {}".format(path, e.strerror)) from e
    if len(read) > _SIZE_LIMIT:
        raise errors.StoreFailed("{}: larger than {} bytes".format(path, _SIZE_LIMIT))
    return read


def _text(settings: _Object, *, field: str, default: str, path: pathlib.Path) -> str:
    value = settings.get(field, default)
    if not isinstance(value, str) or not value:
        raise errors.InvalidInput("{}: {} must be a non-empty string".format(path, field))
    return value


def _seconds(settings: _Object, *, field: str, default: str, path: pathlib.Path) -> float:
    value = settings.get(field, json_values.Number(default))
    seconds = float(value.token) if isinstance(value, json_values.Number) else 0.0
    if not 0 < seconds < math.inf:
        raise errors.InvalidInput("{}: {} must be a positive number of seconds".format(path, field))
    return seconds


def _owner(name: str, *, path: pathlib.Path) -> whitelist.Owner:
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError) as e:
        raise errors.InvalidInput("{}: command_owner is no user here: {}".format(path, ascii(name))) from e
    return whitelist.Owner(uid=entry.pw_uid, gid=entry.pw_gid)
