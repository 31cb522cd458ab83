"""Reports as files: signed by the part of the agent that has the key, read by the part that faces the network."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Callable, Iterable

from .. import node_settings
from ..domain.agent import collected, reports, signing
from ..domain.disks import replicas
from ..domain.values import errors

if TYPE_CHECKING:
    import pathlib

    from . import observing

LIST = "collectors.json"


class Reports:
    """A folder with the last report of each collector, `CATEGORY/NAME`, and the list of them; files are whole."""

    def __init__(self, folder: pathlib.Path, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._folder = folder
        self._clock = clock

    def begin(self) -> None:
        """Have an empty folder that anybody may read: what an earlier agent has left is no news.

        Raises: errors.StoreFailed.
        """
        try:
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            for path in self._folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError as e:
            raise errors.StoreFailed("{}: {}".format(e.filename or self._folder, e.strerror)) from e

    def list(self, subjects: Iterable[collected.Subject]) -> None:
        """Say which collectors there are; the reports of others are gone.

        Raises: errors.StoreFailed.
        """
        known = sorted(subjects, key=lambda subject: (subject.folder, subject.name))
        self._write(LIST, json.dumps([[subject.name, subject.folder, subject.kind] for subject in known]))
        for subject in set(collected.ALL) - set(known):
            with contextlib.suppress(OSError):
                (self._folder / subject.folder / subject.name).unlink()

    def publish(
        self,
        subject: collected.Subject,
        said: observing.Said,
        *,
        node: node_settings.Settings,
        command: str = "",
        facts: replicas.NodeFacts = replicas.UNKNOWN,
    ) -> None:
        """Sign what a collector says, by which command, and publish it; what is too large becomes a problem.

        Where the diagnosis leaves no room for the facts, these are left out.

        Raises: errors.StoreFailed if there is no key, or no room.
        """
        sealed = self._sealed(subject, said, node=node, command=command, facts=facts)
        if len(sealed) > reports.LIMIT:
            sealed = self._sealed(subject, said, node=node, command=command)
        if len(sealed) > reports.LIMIT:
            text = "the signed report is larger than {} bytes".format(reports.LIMIT)
            sealed = self._sealed(subject, collected.Problem("oversized", text), node=node, command=command)
        self._write("{}/{}".format(subject.folder, subject.name), sealed)

    def _sealed(
        self,
        subject: collected.Subject,
        said: observing.Said,
        *,
        node: node_settings.Settings,
        command: str,
        facts: replicas.NodeFacts = replicas.UNKNOWN,
    ) -> str:
        now = self._clock()
        problem = said if isinstance(said, collected.Problem) else None
        data = said if isinstance(said, str) else None
        text = collected.message(
            subject,
            node_uuid=node.node,
            timestamp_ns=now,
            data=data,
            problem=problem,
            command=command,
            facts=facts,
        )
        return signing.sign(text, key=node_settings.key(node), now=now // 10**9)

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        made = path.with_name(".{}.new".format(path.name))
        try:
            path.parent.mkdir(mode=0o755, exist_ok=True)
            descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o644)
                file.write(text.encode())
            made.replace(path)
        except OSError as e:
            raise errors.StoreFailed("{}: {}".format(path, e.strerror)) from e
