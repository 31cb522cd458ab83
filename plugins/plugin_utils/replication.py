"""The port through which committed state leaves the controller: versions of the configuration, job files and results.

Nothing is behind it yet. A replica that fails never undoes what was committed here: what it missed is handed over again
with the next success. Keys and credentials never pass.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from ..module_utils.domain import errors

LOG = logging.getLogger(__name__)
SECRETS = frozenset({"hmac.key", "bmc.json"})


class Replica(Protocol):
    """Another place that keeps the state; paths are relative to `/var/lib/roundsman`."""

    def put(self, path: str, data: bytes) -> None:
        """Keep a file with this content.

        Raises:
            StoreFailed: it could not be kept there.
        """

    def remove(self, path: str) -> None:
        """Keep a file, or a folder with all that is in it, no more.

        Raises:
            StoreFailed: it could not be removed there.
        """


class NoReplica:
    """There is no other place."""

    def put(self, path: str, data: bytes) -> None:
        pass

    def remove(self, path: str) -> None:
        pass


class Replication:
    """Hands over what was committed, in order; what a replica missed goes first the next time."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._missed: dict[str, bytes | None] = {}
        self._lock = threading.Lock()

    @property
    def missed(self) -> list[str]:
        """The paths whose newest state the replica does not have."""
        return list(self._missed)

    def committed(self, path: str, data: bytes) -> None:
        """A file has this content from now on.

        Raises:
            InvalidInput: it is a secret, and was about to leave.
        """
        if path.rpartition("/")[2] in SECRETS:
            raise errors.InvalidInput(f"{path} is a secret, and stays here")
        self._hand_over(path, data)

    def gone(self, path: str) -> None:
        """A file or folder is no more."""
        self._hand_over(path, None)

    def _hand_over(self, path: str, data: bytes | None) -> None:
        with self._lock:
            was_well = not self._missed
            self._missed.pop(path, None)
            self._missed[path] = data
            try:
                while self._missed:
                    first, content = next(iter(self._missed.items()))
                    if content is None:
                        self._replica.remove(first)
                    else:
                        self._replica.put(first, content)
                    del self._missed[first]
            except errors.StoreFailed as error:
                if was_well:
                    LOG.warning("the replica misses %s, and gets it with the next success: %s", path, error)
