"""The rounds that were planned: one file each, written before its jobs are submitted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pydantic

from ...plugins.module_utils.domain import errors
from ...plugins.plugin_utils import durable_files
from ..jobs import values

if TYPE_CHECKING:
    from pathlib import Path

KEPT = 50
_JOBS = pydantic.TypeAdapter(tuple[values.Job, ...])


class History:
    """The folder of rounds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)

    def write(self, number: int, *, started: float, plan: dict[str, Any], jobs: tuple[values.Job, ...]) -> None:
        """Keep a round with its plan and its jobs, so that a crash between plan and submission loses none of them."""
        content = {
            "round": number,
            "started": started,
            "plan": plan,
            "jobs": _JOBS.dump_python(jobs, mode="json"),
        }
        durable_files.replace(self._folder / f"{number}.json", json.dumps(content).encode())
        for old in self._numbers()[:-KEPT]:
            (self._folder / f"{old}.json").unlink(missing_ok=True)

    def jobs(self, number: int) -> tuple[values.Job, ...]:
        """The jobs of a round as they were planned.

        Raises:
            StoreFailed: the file is missing or damaged.
        """
        path = self._folder / f"{number}.json"
        try:
            return _JOBS.validate_python(json.loads(path.read_bytes())["jobs"])
        except (OSError, ValueError, KeyError) as error:
            raise errors.StoreFailed(f"{path} cannot be read: {error}") from error

    def last(self, count: int, *, up_to: int) -> list[dict[str, Any]]:
        """The last rounds, newest first: number, start, plan, and the ids of their jobs."""
        found = []
        for number in [one for one in self._numbers() if one <= up_to][: -count - 1 : -1]:
            content = json.loads((self._folder / f"{number}.json").read_bytes())
            found.append({**content, "jobs": [job["id"] for job in content["jobs"]]})
        return found

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdigit())
