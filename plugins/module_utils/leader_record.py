"""Whom this node follows: the highest epoch that it was shown, kept on its disk, and compared before each step.

The file is `/var/lib/roundsman/leader.json`. It is durable before anybody is told that the node follows an epoch: a
node that forgot one with its power would do what an earlier controller orders.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import TYPE_CHECKING, Iterator, Optional

from . import durable_names
from .domain.agent import epochs, votes
from .domain.values import errors
from .storage import node_boot

if TYPE_CHECKING:
    import pathlib

FILE = "var/lib/roundsman/leader.json"
VARIABLE = "ROUNDSMAN_EPOCH"
"""The variable of a module's environment that names the epoch of its controller, as `epochs.order` reads it."""
_LIMIT = 1 << 20


def load(root: pathlib.Path) -> Optional[epochs.Kept]:
    """Whom the node with this root follows; None where nobody has led it yet.

    Raises: errors.StoreFailed where the file cannot be read: no step is done then.
    """
    path = root / FILE
    try:
        descriptor = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.StoreFailed(f"{path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(_LIMIT)
    try:
        return votes.kept(json.loads(content))
    except (errors.InvalidInput, ValueError) as error:
        raise errors.StoreFailed(
            f"{path} cannot be read ({error}): it names the controller that this node follows; remove it only if no "
            "other controller of this cluster is at work"
        ) from error


def keep(root: pathlib.Path, offered: epochs.Kept) -> None:
    """Follow an epoch from now on, durably; what is kept already is not written again.

    Of one epoch the latest version of the configuration stays: an earlier one is a clone's of the controller's machine.

    Raises: errors.NotFollowed where the node follows another one; errors.StoreFailed.
    """
    with _alone(root):
        known = load(root)
        _require(known, offered.epoch)
        if known is None or known.epoch.number < offered.epoch.number or _is_later(offered, known):
            _write(root / FILE, offered)


def follow(root: pathlib.Path, offered: epochs.Kept, *, boot: str) -> None:
    """Follow what a controller offers to the node in this boot, as `keep`.

    Raises: errors.NotFollowed where the node follows another one, or has booted since; errors.StoreFailed.
    """
    if boot != node_boot.boot_id(root):
        raise errors.NotFollowed("this node has booted since the controller asked it")
    keep(root, offered)


def require(root: pathlib.Path, order: Optional[epochs.Order], *, any_boot: bool = False) -> None:
    """Follow the epoch that orders a step, if the node follows no other one and is in the boot that the order is for.

    A step without an epoch is done where nobody has led yet. With `any_boot` the boot does not matter.

    Raises: errors.NotFollowed, errors.StoreFailed.
    """
    known = load(root)
    if order is None:
        if known is not None:
            raise errors.NotFollowed(
                f"this node follows {known.epoch}, and the step names none: run it on the controller that leads, or "
                f"remove {root / FILE} if none of that cluster is left"
            )
        return
    _require(known, order.epoch)
    if not any_boot and not epochs.is_for_boot(order, node_boot.boot_id(root)):
        raise errors.NotFollowed(
            f"{epochs.OTHER_BOOT}, and refuses what was ordered before: nothing was done; retry once roundsmand has "
            "asked the nodes again, which takes seconds while the agents of this node and of half of the others answer"
        )
    if known is None or known.epoch.number < order.epoch.number:
        keep(root, epochs.Kept(order.epoch, order.master, order.serial))


def require_ordered(root: pathlib.Path, *, any_boot: bool = False) -> None:
    """Follow the epoch in the environment of a module, if the node follows no other one; `any_boot` as in `require`.

    Raises: errors.NotFollowed, errors.StoreFailed, errors.InvalidInput.
    """
    require(root, epochs.order(os.environ.get(VARIABLE, "")), any_boot=any_boot)


def _require(known: Optional[epochs.Kept], offered: epochs.Epoch) -> None:
    if known is not None and not epochs.may_order(known, offered):
        raise errors.NotFollowed(
            f"this node follows {known.epoch} and refuses {offered}: another controller has led this cluster since; "
            "stop the daemon of the one that does not"
        )


def _is_later(offered: epochs.Kept, known: epochs.Kept) -> bool:
    return offered.epoch == known.epoch and offered != known and offered.serial >= known.serial


def _write(path: pathlib.Path, kept: epochs.Kept) -> None:
    temporary = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(
            str(temporary), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(votes.document(kept)).encode())
            file.flush()
            os.fsync(file.fileno())
        durable_names.replace(temporary, path)
    except OSError as error:
        raise errors.StoreFailed(f"{path}: {error.strerror}") from error


@contextlib.contextmanager
def _alone(root: pathlib.Path) -> Iterator[None]:
    """One at a time compares and writes: two epochs with one number are not both followed."""
    path = (root / FILE).with_suffix(".lock")
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise errors.StoreFailed(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
