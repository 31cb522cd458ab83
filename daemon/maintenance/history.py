"""The rounds that were planned: one sealed file each, written before its jobs are submitted, and marked after it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pydantic

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files, sealed_json
from ..failures import Failures
from ..jobs import values
from ..writing import Writer

if TYPE_CHECKING:
    from pathlib import Path

KEPT = 50
_UNSEALED = {"round", "started", "plan", "jobs"}
_JOBS = pydantic.TypeAdapter(tuple[values.Job, ...])


@dataclass(frozen=True)
class PlannedRound:
    """The jobs of a round as they were planned, and whether all of them were submitted."""

    jobs: tuple[values.Job, ...]
    is_submitted: bool


class _Damaged(errors.StoreFailed):
    """A round file holds something else than what was written."""


class History:
    """The folder of rounds; a file that is damaged is reported and left alone."""

    def __init__(self, folder: Path, *, failures: Failures | None = None) -> None:
        self._folder = folder
        self._failures = failures or Failures()
        self._thread = Writer("rounds")
        self._damaged: set[int] = set()
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)

    def write(self, number: int, *, started: float, plan: dict[str, Any], jobs: tuple[values.Job, ...]) -> None:
        """Keep a round with its plan and its jobs, so that a crash between plan and submission loses none of them.

        The event loop waits for it: what was planned for is committed at the same moment, or other things are true.
        """
        content = {
            "round": number,
            "started": started,
            "submitted": False,
            "plan": plan,
            "jobs": _JOBS.dump_python(jobs, mode="json"),
        }
        self._replace(number, content)
        for old in self._numbers()[:-KEPT]:
            self._path(old).unlink(missing_ok=True)

    async def set_submitted(self, number: int) -> None:
        """Mark that the jobs of a round are in the queue, by a thread: from now on it is never resumed.

        Raises:
            StoreFailed: the file is missing or damaged, or cannot be written.
        """
        await self._thread.write(self._replace, number, {**self._content(number), "submitted": True})

    def planned(self, number: int) -> PlannedRound | None:
        """A round as it was planned; None when its file is missing or damaged, which is reported.

        Raises:
            StoreFailed: the file cannot be read now.
        """
        try:
            content = self._content(number)
            return PlannedRound(_JOBS.validate_python(content["jobs"]), content["submitted"] is not False)
        except (_Damaged, ValueError, KeyError, TypeError):
            return None
        except errors.StoreFailed:
            if self._path(number).exists():
                raise
            return None

    def last(self, count: int, *, up_to: int) -> list[dict[str, Any]]:
        """The last rounds, newest first: number, start, plan, and the ids of their jobs.

        Of a damaged file there is only the number, and `problem`, which is None otherwise.
        """
        known = [number for number in self._numbers() if number <= up_to]
        return [self._row(number) for number in known[: -count - 1 : -1]]

    def one(self, number: int) -> dict[str, Any]:
        """One round as in `last`, with the names of the objects in its jobs, by UUID.

        Raises:
            NotFound: it is not kept.
        """
        if number not in self._numbers():
            raise errors.NotFound(f"round {number} is not kept: those of the last {KEPT} are")
        row = self._row(number)
        jobs = () if row["problem"] else self._content(number)["jobs"]
        # Jobs of old rounds have none.
        return {**row, "names": {uuid: name for job in jobs for uuid, name in job.get("names", {}).items()}}

    def recover(self) -> None:
        """Damaged files that a person removed fail no longer."""
        for number in [number for number in self._damaged if not self._path(number).exists()]:
            self._damaged.discard(number)
            self._failures.recovered(f"round {number}")

    def _row(self, number: int) -> dict[str, Any]:
        try:
            content = self._content(number)
            found = {name: content[name] for name in ("round", "started", "plan")}
            return {**found, "jobs": [job["id"] for job in content["jobs"]], "problem": None}
        except (errors.StoreFailed, KeyError, TypeError) as error:
            return {"round": number, "started": None, "plan": None, "jobs": [], "problem": str(error)}

    def _content(self, number: int) -> dict[str, Any]:
        path = self._path(number)
        try:
            content = _read(path.read_bytes())
        except OSError as error:
            raise errors.StoreFailed(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, errors.InvalidInput) as error:
            damage = _Damaged(f"{path} is damaged: {error}")
            self._damaged.add(number)
            self._failures.failed(
                f"round {number}", str(damage), remedy=f"nothing relies on it once the round is over: move {path} away"
            )
            raise damage from error
        return dict(content)

    def _replace(self, number: int, content: dict[str, Any]) -> None:
        durable_files.replace(self._path(number), sealed_json.seal(json.dumps(content).encode()))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdigit())


def _read(data: bytes) -> dict[str, Any]:
    """What a file holds. Before there was a checksum it had none, and no word of the submission: it is never resumed.

    Raises:
        InvalidInput, ValueError: it is damaged.
    """
    if not sealed_json.is_sealed(data):
        with contextlib.suppress(ValueError):
            content = json.loads(data)
            if isinstance(content, dict) and content.keys() == _UNSEALED:
                return {**content, "submitted": True}
    return dict(json.loads(sealed_json.unseal(data)))
