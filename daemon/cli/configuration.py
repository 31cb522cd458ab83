"""The configuration as the command line reads it: the running daemon's, and without a daemon that of the file.

Administrators may use the daemon's socket, but not read the file, which holds the whole cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.config import document, history, store
from . import client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Read = TypeVar("Read")


@dataclass(frozen=True)
class Version:
    """A version that is kept, by the serial number of its document; `time` in unix seconds."""

    serial_no: int
    time: float
    size: int


def cluster(daemon: client.Daemon) -> clusters.Cluster:
    """The configured cluster.

    Raises:
        NoDaemon: no daemon answers, and this user may not read the file. StoreFailed: there is no configuration, or
        it is damaged. Failed: the daemon failed.
    """
    return _read(daemon, lambda: _unsealed(daemon), store.read)


def observed(daemon: client.Daemon) -> clusters.Cluster:
    """The configured cluster as it is planned for: nodes that the running daemon knows to be silent are no targets.

    Raises:
        NoDaemon, StoreFailed, Failed: as with `cluster`.
    """
    return _read(
        daemon,
        lambda: clusters.observed(_unsealed(daemon), silent=_silent(daemon)),
        store.read,
    )


def _silent(daemon: client.Daemon) -> list[str]:
    return [node["uuid"] for node in daemon.get("1", "nodes") if node["silent"]]


def data(daemon: client.Daemon, *, version: int | None = None) -> bytes:
    """The sealed document, or that of an earlier version.

    Raises:
        NotFound, Refused: this version is not kept. NoDaemon, Failed: as with `cluster`.
    """
    query = {} if version is None else {"version": version}
    return _read(
        daemon,
        lambda: daemon.text("2", "config", **query).encode(),
        lambda path: (path if version is None else history.get(path, version).path).read_bytes(),
    )


def versions(daemon: client.Daemon) -> list[Version]:
    """The versions that are kept, the oldest first.

    Raises:
        NoDaemon, Failed: as with `cluster`.
    """
    return _read(
        daemon,
        lambda: [Version(**row) for row in daemon.get("2", "config", "history")],
        lambda path: [Version(found.serial_no, found.time, found.size) for found in history.versions(path)],
    )


def _read(daemon: client.Daemon, ask: Callable[[], Read], read: Callable[[Path], Read]) -> Read:
    try:
        with daemon:
            return ask()
    except client.NoDaemon as absent:
        path = tree.Tree(daemon.root).config
        try:
            return read(path)
        except (OSError, errors.StoreFailed) as error:
            if isinstance(error, PermissionError) or isinstance(error.__cause__, PermissionError):
                text = f"{absent}; only root and the user of roundsmand can read {path}"
                raise client.NoDaemon(text) from error
            raise


def _unsealed(daemon: client.Daemon) -> clusters.Cluster:
    try:
        return document.unseal(daemon.text("2", "config").encode())
    except errors.InvalidInput as error:
        raise errors.StoreFailed(f"the configuration that the daemon sent is damaged: {error}") from error
