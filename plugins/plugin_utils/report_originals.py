"""Large reports of incidents as the nodes wrote them, one sealed file each; the configuration has an abbreviation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..module_utils.domain.agent import diagnosis
from ..module_utils.domain.values import errors
from . import durable_files, sealed_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

DIGEST = re.compile(r"[0-9a-f]{64}")


def read(folder: Path, digest: str) -> str:
    """The whole JSON object with this digest, as its node wrote it.

    Raises:
        NotFound: it is not on this controller, or its file is damaged; the text has the remedy.
    """
    path = _path(folder, digest)
    try:
        return sealed_json.unseal(path.read_bytes()).decode()
    except FileNotFoundError:
        problem = "is not on this controller"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except (errors.InvalidInput, UnicodeDecodeError):
        problem = "is damaged"
    raise errors.NotFound(
        f"the whole report ({path}) {problem}; it is kept again when its node reports the same once more; "
        "a failed incident is retried after `roundsman incident ack`"
    )


class Originals:
    """The folder of whole reports, with one writer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: set[str] = set()
        self._used: set[str] | None = None

    def has(self, report: diagnosis.Diagnosis) -> bool:
        """Whether an incident may be noted for a report: it is small, or its whole text is durable."""
        return not _is_kept_whole(report) or report.digest in self._kept

    def keep(self, reports: Iterable[diagnosis.Diagnosis]) -> None:
        """Make the large ones durable that are not Ok; what is there already is not written again.

        Raises:
            StoreFailed: one could not be written.
        """
        for report in reports:
            if _is_kept_whole(report) and not self._is_there(report.digest):
                self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
                durable_files.replace(_path(self._folder, report.digest), sealed_json.seal(report.original.encode()))
                self._kept.add(report.digest)

    def prune(self, used: Collection[str]) -> None:
        """Remove all files but those with these digests."""
        used = set(used)
        if used == self._used:
            return
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name.partition(".")[0] not in used:
                    path.unlink(missing_ok=True)
        self._kept &= used
        self._used = used

    def _is_there(self, digest: str) -> bool:
        if digest in self._kept:
            return _path(self._folder, digest).exists()
        try:
            read(self._folder, digest)
        except errors.NotFound:
            return False
        self._kept.add(digest)
        return True


def _is_kept_whole(report: diagnosis.Diagnosis) -> bool:
    return report.is_large and report.status is not diagnosis.Status.OK


def _path(folder: Path, digest: str) -> Path:
    if not DIGEST.fullmatch(digest):
        raise errors.NotFound(f"{digest[:80]!r} is not the digest of a report")
    return folder / f"{digest}.json"
