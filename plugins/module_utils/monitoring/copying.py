"""Keeps the copy of the configuration that a controller sends to this node, in `/var/lib/roundsman/configuration.copy`.

Only whole copies take the place of the one before, and never one of an earlier configuration.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Optional

from .. import durable_names, leader_record, node_settings
from ..domain.agent import copies, epochs
from ..domain.values import errors

if TYPE_CHECKING:
    import pathlib

FILE = copies.FILE
_FIRST = 1024
"""Bytes that hold the stamp of a copy."""


@dataclass
class _Coming:
    """The copy of which parts have come, up to `offset`."""

    digest: str
    offset: int


class Keeper:
    """The copy of one node."""

    def __init__(self, node: node_settings.Settings) -> None:
        self._node = node
        self._path = node.root / FILE
        self._coming: Optional[_Coming] = None

    def answer(self, data: bytes) -> bytes:
        """The sealed answer to a sealed part.

        Raises: errors.ReportRejected, errors.InvalidInput: the part is not the controller's.
        """
        key = node_settings.key(self._node)
        part, refusal, wanted = copies.part(data, key=key, node=self._node.node), "", 0
        try:
            wanted = self._take(part) if part.size else 0
        except (errors.RoundsmanError, OSError) as error:
            self._coming, refusal = None, str(error)
            with contextlib.suppress(OSError):
                self._new.unlink()
        lacks = tuple(name for name in copies.NEEDED if not (self._node.root / name).exists())
        given = copies.Received(part.node, part.nonce, self._kept(), wanted, refusal, lacks)
        return copies.sealed_received(given, key=key, now=int(time.time()))

    def _take(self, part: copies.Part) -> int:
        """Take a part, if it is the one that is wanted; returns the offset of the next.

        Raises: errors.RoundsmanError, OSError: this node takes no copy of it, or cannot keep it.
        """
        self._require_later(part)
        if part.offset == 0 and self._has(part):
            return part.size
        if part.offset == 0:
            self._write(part.data, is_first=True)
            self._coming = _Coming(part.digest, len(part.data))
        elif self._coming == _Coming(part.digest, part.offset):
            self._write(part.data, is_first=False)
            self._coming.offset += len(part.data)
        wanted = self._coming.offset if self._coming is not None and self._coming.digest == part.digest else 0
        if wanted == part.size:
            self._coming = None
            self._keep(part)
        return wanted

    def _require_later(self, part: copies.Part) -> None:
        followed, kept = leader_record.load(self._node.root), self._kept()
        if followed is not None and (part.epoch is None or not epochs.may_order(followed, part.epoch)):
            raise errors.NotFollowed("this node follows {}: it keeps no copy of another one".format(followed.epoch))
        if kept is not None and part.stamp.version < kept.version:
            raise errors.Refused(
                "this node has a later copy: version {} of epoch {}; remove {} if it is lost on purpose".format(
                    kept.serial, kept.epoch, self._path
                )
            )

    def _has(self, part: copies.Part) -> bool:
        try:
            with self._opened() as file:
                return copies.digest(file.read(copies.MOST)) == part.digest
        except FileNotFoundError:
            return False

    def _kept(self) -> Optional[copies.Stamp]:
        """What the copy is of that this node keeps; None where it keeps none that can be read."""
        try:
            with self._opened() as file:
                return copies.stamp_of(file.read(_FIRST))
        except (OSError, errors.InvalidInput):
            return None

    def _opened(self) -> BinaryIO:
        """The copy that is kept; where the folder is another account's, a pipe or a link in its place is none."""
        descriptor = os.open(str(self._path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        file = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise FileNotFoundError(str(self._path))
        return file

    @property
    def _new(self) -> pathlib.Path:
        return self._path.with_name(".{}.new".format(self._path.name))

    def _write(self, data: bytes, *, is_first: bool) -> None:
        self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        if is_first:
            with contextlib.suppress(FileNotFoundError):
                self._new.unlink()
        # What another account puts in its place is not written to, and a pipe is not waited for.
        how = os.O_CREAT | os.O_EXCL if is_first else os.O_APPEND | os.O_NONBLOCK
        descriptor = os.open(str(self._new), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)

    def _keep(self, part: copies.Part) -> None:
        """Have what came take the place of the copy before, durably.

        Raises: errors.InvalidInput: it is not what the parts said.
        """
        content = self._new.read_bytes()
        if copies.digest(content) != part.digest or copies.stamp_of(content[:_FIRST]) != part.stamp:
            raise errors.InvalidInput("the parts do not make the copy that they are of")
        with self._new.open("rb") as file:
            os.fsync(file.fileno())
        durable_names.replace(self._new, self._path)
