"""Who may use the remote API: names, access and hashed passwords, in one sealed file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from enum import Enum
from typing import TYPE_CHECKING

import argon2
import pydantic

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files, folders_of_others, sealed_json, secret_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
LONGEST = 1024
"""Characters of a password."""
HASHER = argon2.PasswordHasher()


class Access(Enum):
    """What a user may do: read, or everything."""

    READ = "read"
    WRITE = "write"


class User(pydantic.BaseModel):
    """One user; `hash` is argon2's own text, with its salt and cost."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)
    access: Access
    hash: str

    @pydantic.field_validator("hash")
    @classmethod
    def _is_a_hash(cls, value: str) -> str:
        try:
            argon2.extract_parameters(value)
        except argon2.exceptions.InvalidHashError as error:
            raise ValueError("it is no hash of argon2") from error
        return value


class _Document(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    users: dict[str, User]


def read(path: Path) -> Mapping[str, User]:
    """The users by name; without a file there are none.

    Raises:
        StoreFailed: the file is damaged or cannot be read. Refused: others can read it.
    """
    try:
        with folders_of_others.as_owner_of(path.parent):
            secret_files.refuse_readable([path], most=secret_files.SHARED)
            data = path.read_bytes()
        return _Document.model_validate_json(sealed_json.unseal(data)).users
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise errors.StoreFailed(f"{path} could not be read: {error.strerror}") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(str(part) for part in first["loc"])
        raise errors.StoreFailed(f"{path} is damaged: {where}: {first['msg']}") from error
    except errors.InvalidInput as error:
        raise errors.StoreFailed(f"{path} is damaged: {error}") from error


def add(path: Path, name: str, *, password: str, access: Access) -> None:
    """Make a user.

    Raises:
        Refused: there is one of that name. InvalidInput: no name, or no password, of a user can be so. StoreFailed.
    """
    if not NAME.fullmatch(name):
        raise errors.InvalidInput(f"{name!r} is no name of a user: 1 to 64 of letters, digits and . _ @ -")
    hashed = _hashed(password)
    with _changing(path) as users:
        if name in users:
            raise errors.Refused(f"there is a user {name!r} already: change the password by `passwd`")
        users[name] = User(access=access, hash=hashed)


def change(path: Path, name: str, *, password: str, access: Access | None) -> None:
    """Give a user another password, and another access if one is named.

    Raises:
        NotFound: there is no such user. InvalidInput: no password can be so. StoreFailed.
    """
    hashed = _hashed(password)
    with _changing(path) as users:
        if name not in users:
            raise errors.NotFound(f"there is no user {name!r}")
        users[name] = User(access=access or users[name].access, hash=hashed)


def remove(path: Path, name: str) -> None:
    """Take a user away.

    Raises:
        NotFound: there is no such user. StoreFailed.
    """
    with _changing(path) as users:
        if users.pop(name, None) is None:
            raise errors.NotFound(f"there is no user {name!r}")


def _hashed(password: str) -> str:
    if not password or len(password) > LONGEST or not password.isprintable():
        raise errors.InvalidInput(f"a password has 1 to {LONGEST} printable characters")
    return HASHER.hash(password)


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[dict[str, User]]:
    # What root writes has to be readable for the daemon, whose folder it is.
    with folders_of_others.as_owner_of(path.parent), _alone(path.parent):
        users = dict(read(path))
        yield users
        document = _Document(users=dict(sorted(users.items())))
        durable_files.replace(path, sealed_json.seal(document.model_dump_json(indent=1).encode()))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(mode=0o750, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise errors.StoreFailed(f"{folder} could not be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
