"""Jobs on disk: one folder per job, `queue/<id>/job.json`, and a run folder per opcode that touches nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pydantic

from ...plugins.module_utils.domain import errors
from ...plugins.plugin_utils import durable_files
from . import values

if TYPE_CHECKING:
    from pathlib import Path

_ADAPTER = pydantic.TypeAdapter(values.Job)


class Store:
    """The queue folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, job: values.Job) -> None:
        """Make a job's state durable; a new job's folder appears with its file.

        Raises:
            StoreFailed: it could not be written; what was there before is still there.
        """
        folder = self._folder / str(job.id)
        try:
            if not folder.exists():
                folder.mkdir(parents=True)
                durable_files.sync_folder(self._folder)
        except OSError as error:
            raise errors.StoreFailed(f"{folder} could not be made: {error.strerror}") from error
        durable_files.replace(folder / "job.json", _ADAPTER.dump_json(job, indent=1))

    def load(self) -> dict[int, values.Job]:
        """Every job in the queue, by id; a folder without a job file is one that was never submitted.

        Raises:
            StoreFailed: a job file is damaged.
        """
        found: dict[int, values.Job] = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob("*/job.json"):
            if not path.parent.name.isdigit():
                continue
            try:
                job = _ADAPTER.validate_json(path.read_bytes())
            except (pydantic.ValidationError, json.JSONDecodeError) as error:
                raise errors.StoreFailed(f"{path} is damaged: move it aside to go on without that job") from error
            if str(job.id) != path.parent.name:
                raise errors.StoreFailed(f"{path} is damaged: it says that it is job {job.id}")
            found[job.id] = job
        return dict(sorted(found.items()))

    def highest_id(self) -> int:
        """The highest number that a job folder ever had."""
        return max((int(path.name) for path in self._folder.iterdir() if path.name.isdigit()), default=0)

    def run_folder(self, job: int, index: int) -> Path:
        """Where the run of an opcode keeps its files."""
        return self._folder / str(job) / str(index)
