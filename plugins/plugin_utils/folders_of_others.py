"""Root works in a folder of another account with the rights of that account.

The owner of a folder may replace everything in it at any time, by links too. So root does not check each path before it
is used: the kernel allows or refuses every step as it would for the owner.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WRITABLE_BY_OTHERS = 0o022
UID_MAP, OVERFLOW_UID = Path("/proc/self/uid_map"), Path("/proc/sys/kernel/overflowuid")
EVERY_UID = ["0", "0", "4294967295"]
"""What `UID_MAP` holds outside of user namespaces."""


@dataclass(frozen=True)
class Account:
    """The ids that decide what a process may do to files."""

    uid: int
    gid: int
    groups: Sequence[int]


@contextlib.contextmanager
def as_owner_of(folder: Path) -> Iterator[None]:
    """Let root have the rights of the account that owns a folder, or the nearest folder above it that exists.

    Without effect for other users than root, and in folders of root. The effective ids of the whole process change, so
    it is for programs that do nothing else meanwhile; the real ids stay, so the account cannot signal the process.

    Raises:
        Refused: the owner is unknown, or the folder can be exchanged by another account.
    """
    account = owner(folder) if os.geteuid() == 0 else None
    if account is None:
        yield
        return
    before = Account(os.geteuid(), os.getegid(), os.getgroups())
    try:
        _become(account, folder)
        yield
    finally:
        os.seteuid(before.uid)
        os.setegid(before.gid)
        os.setgroups(before.groups)


def become_owner_of(folder: Path) -> None:
    """Give up root's rights for good, for those of the account that owns a folder, as in `as_owner_of`.

    For programs that start others which the account chooses: with the real ids of root these could be root again.

    Raises:
        Refused: as `as_owner_of`.
    """
    account = owner(folder) if os.geteuid() == 0 else None
    if account is None:
        return
    try:
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
    except OSError as error:
        raise errors.Refused(f"{folder}: root cannot become uid {account.uid}: {error.strerror}") from error


def owner(folder: Path) -> Account | None:
    """The account that owns a folder, or the nearest folder above it; None where that is the effective user.

    Raises:
        Refused: the owner is unknown, or the folder can be exchanged by another account.
    """
    place = folder.absolute()
    while not os.path.lexists(place):
        place = place.parent
    found = _look_at(place)
    if found.st_uid == os.geteuid():
        return None
    if found.st_uid == int(OVERFLOW_UID.read_text()) and UID_MAP.read_text().split() != EVERY_UID:
        raise errors.Refused(f"{place} belongs to an account outside of this user namespace: give it to one inside")
    try:
        known = pwd.getpwuid(found.st_uid)
    except KeyError:
        if found.st_gid == 0:
            raise errors.Refused(
                f"{place} belongs to uid {found.st_uid}, which has no account, and to the group of root: "
                "give it to an account"
            ) from None
        return Account(found.st_uid, found.st_gid, [found.st_gid])
    return Account(known.pw_uid, known.pw_gid, os.getgrouplist(known.pw_name, known.pw_gid))


def _look_at(place: Path) -> os.stat_result:
    """The status of a folder that is reached without a link of another account."""
    if not place.name:
        return place.stat()
    above = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        around = os.fstat(above)
        found = os.stat(place.name, dir_fd=above, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            if around.st_uid != os.geteuid() or around.st_mode & WRITABLE_BY_OTHERS:
                raise errors.Refused(f"{place} is a link, and others can write {place.parent}: replace it by a folder")
            return _look_at(Path(os.path.realpath(place)))
    finally:
        os.close(above)
    own = os.geteuid()
    if found.st_uid == own and around.st_uid not in {0, own}:
        raise errors.Refused(
            f"{place} belongs to {_name(own)} in a folder of {_name(around.st_uid)}: "
            f"`chown --no-dereference {_name(around.st_uid)} {place}`"
        )
    return found


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _become(account: Account, folder: Path) -> None:
    try:
        os.setgroups(account.groups)
        os.setegid(account.gid)
        os.seteuid(account.uid)
    except OSError as error:
        raise errors.Refused(f"{folder}: root cannot take the rights of uid {account.uid}: {error.strerror}") from error
