"""Jobs on disk: one folder per job, `queue/<id>/job.json`, and a run folder per opcode that touches nodes.

Every job file carries its checksum. One that is damaged is never loaded: its bytes are kept as
`queue/damaged/<id>/job.json` for a person, and a job that stands in for it takes its place in the queue, so that all
that depends on it learns of it. The files of its runs stay where they are.

Jobs that have ended go to the archive, with their run folders: `queue/archive/<number // 10000>/<number>/`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
from concurrent import futures
from typing import TYPE_CHECKING

import pydantic
import pydantic_core

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files, sealed_json
from ..writing import Writer
from . import values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

LOG = logging.getLogger(__name__)
PART = 10000
"""How many numbers share a folder, as in Ganeti."""
TOGETHER = 8
"""How many files are made durable at once: file systems join such requests."""
_ADAPTER = pydantic.TypeAdapter(values.Job)
_PLAN = pydantic.TypeAdapter(dict[str, tuple[values.Job, ...]])


def encode(job: values.Job) -> bytes:
    """The content of a job's file.

    Raises:
        InvalidInput: no file can hold it, for a text in it has half of a character.
    """
    try:
        return sealed_json.seal(_ADAPTER.dump_json(job, indent=1, exclude={"archived"}))
    except pydantic_core.PydanticSerializationError as error:
        raise errors.InvalidInput(f"job {job.id} cannot be written: {error}") from error


def decode(data: bytes, *, number: int) -> values.Job:
    """The job in the content of its file.

    Raises:
        InvalidInput: the file is damaged, or is that of another job.
    """
    try:
        job = _ADAPTER.validate_json(sealed_json.unseal(data))
    except pydantic.ValidationError as error:
        raise errors.InvalidInput(str(error.errors(include_url=False)[0]["msg"])) from error
    if job.id != number:
        raise errors.InvalidInput(f"it says that it is job {job.id}")
    return job


def numbers(folder: Path) -> Iterator[int]:
    """The names in a folder that are numbers."""
    with os.scandir(folder) as entries:
        yield from (int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdigit())


class Archive:
    """The archive below a queue folder; a job is in the queue or here, never in both, whenever a crash comes."""

    def __init__(self, queue: Path) -> None:
        self._queue = queue
        self._folder = queue / "archive"

    def folder(self, number: int) -> Path:
        """Where an archived job has its files."""
        return self._folder / str(number // PART) / str(number)

    def take_in(self, jobs: Iterable[int], *, on_moved: Callable[[int], object]) -> None:
        """Move jobs here, one after the other; `on_moved` hears of each that is here now.

        Raises:
            StoreFailed: one could not be moved.
        """
        touched: set[Path] = set()
        try:
            for number in jobs:
                target = self.folder(number)
                if target.parent not in touched:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    touched.add(target.parent)
                durable_files.rename(self._queue / str(number), target)
                on_moved(number)
            for folder in [*touched, self._folder, self._queue] if touched else []:
                durable_files.sync_folder(folder)
        except OSError as error:
            raise errors.StoreFailed(f"the archive {self._folder} cannot be written: {error.strerror}") from error

    def highest_id(self) -> int:
        """The highest number here; only the newest part is looked at."""
        return max(self.newest(1), default=0)

    def newest(self, count: int, *, before: int | None = None) -> list[int]:
        """The highest numbers here, at most so many and only those before one, in order."""
        found: list[int] = []
        for part in sorted(self._parts(), reverse=True):
            if len(found) < count and (before is None or part * PART < before):
                inside = (number for number in numbers(self._folder / str(part)) if before is None or number < before)
                found += sorted(inside, reverse=True)[: count - len(found)]
        return sorted(found)

    def remove_older(self, *, than: float, but: Collection[int]) -> list[int]:
        """Remove the jobs whose files were last written before a moment (unix seconds), with all their files.

        The highest number stays whatever its age, for no later job may get it again. Returns the numbers.

        Raises:
            StoreFailed: one could not be removed.
        """
        kept = {*but, self.highest_id()}
        removed: list[int] = []
        try:
            for part in sorted(self._parts()):
                for number in sorted(numbers(self._folder / str(part))):
                    if number not in kept and _written(self.folder(number)) < than:
                        shutil.rmtree(self.folder(number))
                        removed.append(number)
        except OSError as error:
            raise errors.StoreFailed(f"the archive {self._folder} cannot be cleared: {error.strerror}") from error
        return removed

    def remove(self, jobs: Iterable[int]) -> None:
        """Remove jobs that are here, with all their files.

        Raises:
            StoreFailed: one could not be removed.
        """
        try:
            for number in jobs:
                shutil.rmtree(self.folder(number))
        except OSError as error:
            raise errors.StoreFailed(f"the archive {self._folder} cannot be cleared: {error.strerror}") from error

    def _parts(self) -> list[int]:
        return list(numbers(self._folder)) if self._folder.is_dir() else []


def _written(folder: Path) -> float:
    try:
        return (folder / "job.json").stat().st_mtime
    except FileNotFoundError:
        # Its removal was interrupted.
        return folder.stat().st_mtime


class Store:
    """The queue folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_named = False
        self._thread = Writer("changes of jobs")
        self._plans = Writer("plans of jobs")
        self.archive = Archive(folder)

    def save(self, job: values.Job) -> None:
        """Make a job's state durable; a new job's folder appears with its file.

        Raises:
            StoreFailed: it could not be written; what was there before is still there. StateUnknown: the disk failed.
        """
        folder = self._made(job)
        durable_files.replace(folder / "job.json", encode(job))

    async def write(self, job: values.Job) -> None:
        """Make a job's state durable, by a thread.

        Raises:
            StoreFailed: it could not be written; what was there before is still there. StateUnknown: the disk failed.
        """
        await self._thread.write(self.save, job)

    def save_new(self, jobs: Sequence[values.Job]) -> None:
        """Make new jobs durable together; nothing of them is left when one of them cannot be.

        Raises:
            StoreFailed: one could not be written.
        """
        made: list[Path] = []
        try:
            for job in jobs:
                made.append(self._folder / str(job.id))
                made[-1].mkdir(parents=True, exist_ok=True)
            if len(jobs) == 1:
                durable_files.replace(made[0] / "job.json", encode(jobs[0]))
            else:
                with futures.ThreadPoolExecutor(TOGETHER) as pool:
                    list(pool.map(lambda job: durable_files.replace(self._path(job.id), encode(job)), jobs))
            self._sync_names()
        except (OSError, errors.StoreFailed) as error:
            for folder in made:
                _undo(folder)
            text = error.strerror if isinstance(error, OSError) else error
            raise errors.StoreFailed(f"no job was submitted: {text}") from error

    def load(self) -> dict[int, values.Job]:
        """Every job in the queue, by id; a folder without a job file is one that was never submitted."""
        found: dict[int, values.Job] = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in sorted(numbers(self._folder)):
            try:
                data = self._path(number).read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise errors.StoreFailed(f"{self._path(number)} cannot be read: {error.strerror}") from error
            try:
                found[number] = decode(data, number=number)
            except errors.InvalidInput as error:
                found[number] = self._set_aside(number, data, str(error))
        return found

    def archived(self, number: int) -> values.Job | None:
        """The archived job of this number; one whose file is damaged counts as one that ended in error."""
        path = self.archive.folder(number) / "job.json"
        try:
            return dataclasses.replace(decode(path.read_bytes(), number=number), archived=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise errors.StoreFailed(f"{path} cannot be read: {error.strerror}") from error
        except errors.InvalidInput as error:
            LOG.error("%s is damaged: %s", path, error)  # noqa: TRY400 - the file's name and the reason say it all
            stands_in = values.unreadable(number, f"{path} is damaged: {error}", status=values.Status.ERROR)
            return dataclasses.replace(stands_in, archived=True)

    def newest_archived(self, count: int, *, before: int | None = None) -> list[values.Job]:
        """The archived jobs with the highest numbers, at most so many and only those before one, by number.

        Raises:
            StoreFailed: one cannot be read.
        """
        found = (self.archived(number) for number in self.archive.newest(count, before=before))
        return [job for job in found if job is not None]

    def folder_of(self, job: values.Job) -> Path:
        """Where a job has its files: those of its runs too, their logs among them."""
        return self.archive.folder(job.id) if job.archived else self._folder / str(job.id)

    def damaged(self) -> list[int]:
        """The numbers of the jobs whose damaged files were set aside."""
        folder = self._folder / "damaged"
        return sorted(numbers(folder)) if folder.is_dir() else []

    def highest_id(self) -> int:
        """The highest number that a job ever had; of the archive only the newest part is looked at."""
        return max(
            max(numbers(self._folder), default=0),
            max(self.damaged(), default=0),
            self.archive.highest_id(),
        )

    def run_folder(self, job: int, index: int) -> Path:
        """Where the run of an opcode keeps its files."""
        return self._folder / str(job) / str(index)

    async def save_plan(self, job: int, index: int, planned: Sequence[values.Job]) -> None:
        """Make the jobs durable that an opcode is about to submit, by a thread; a later plan replaces an earlier one.

        Raises:
            StoreFailed: they could not be written.
        """
        await self._plans.write(_write_plan, self.run_folder(job, index), tuple(planned))

    def plan(self, job: int, index: int) -> tuple[values.Job, ...]:
        """The jobs that an opcode was about to submit.

        Raises:
            Failed: their file is missing or damaged.
        """
        path = self.run_folder(job, index) / "jobs.json"
        try:
            return _PLAN.validate_json(sealed_json.unseal(path.read_bytes()))["jobs"]
        except (FileNotFoundError, errors.InvalidInput, pydantic.ValidationError, KeyError) as error:
            raise errors.Failed(f"{path} is damaged, and what was planned is not submitted: {error}") from error

    def runs(self, job: int) -> list[Path]:
        """The run folders of a job, in the order of its opcodes."""
        folder = self._folder / str(job)
        return [folder / str(index) for index in sorted(numbers(folder))] if folder.is_dir() else []

    @property
    def is_drained(self) -> bool:
        """Whether the queue takes no jobs."""
        return (self._folder / "drain").exists()

    def drain(self, *, wanted: bool) -> None:
        """Let the queue take no jobs from now on, or again.

        Raises:
            StoreFailed: it could not be made durable.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if wanted:
                (self._folder / "drain").touch()
            else:
                (self._folder / "drain").unlink(missing_ok=True)
            self._sync_names()
        except OSError as error:
            raise errors.StoreFailed(f"{self._folder / 'drain'}: {error.strerror}") from error

    def _sync_names(self) -> None:
        """Make the names in the queue durable, and once its own: who made it may not have lived to do that."""
        if not self._is_named:
            durable_files.sync_folder(self._folder.parent)
            self._is_named = True
        durable_files.sync_folder(self._folder)

    def _path(self, number: int) -> Path:
        return self._folder / str(number) / "job.json"

    def _made(self, job: values.Job) -> Path:
        folder = self._folder / str(job.id)
        try:
            if not folder.exists():
                folder.mkdir(parents=True)
                self._sync_names()
        except OSError as error:
            raise errors.StoreFailed(f"{folder} could not be made: {error.strerror}") from error
        return folder

    def _set_aside(self, number: int, data: bytes, why: str) -> values.Job:
        """Keep the bytes of a damaged file, and put a job in its place; it runs until what it left is cleared up."""
        kept = self._folder / "damaged" / str(number)
        text = f"{self._path(number)} was damaged and is not loaded: {why}; what was in it is kept in {kept}"
        LOG.critical("job %s: %s", number, text)
        stands_in = values.unreadable(number, text, status=values.Status.RUNNING)
        try:
            kept.mkdir(parents=True, exist_ok=True)
            durable_files.replace(kept / "job.json", data)
            durable_files.sync_folder(kept.parent)
            self.save(stands_in)
        except (OSError, errors.StoreFailed):
            # The damaged file still stands, and is found again at the next start.
            LOG.exception("job %s: its damaged file could not be set aside", number)
        return stands_in


def _write_plan(run: Path, planned: tuple[values.Job, ...]) -> None:
    # Without parents: a job that was canceled meanwhile may be in the archive by now.
    run.mkdir(mode=0o750, exist_ok=True)
    durable_files.replace(run / "jobs.json", sealed_json.seal(_PLAN.dump_json({"jobs": planned})))


def _undo(folder: Path) -> None:
    with contextlib.suppress(OSError):
        (folder / "job.json").unlink(missing_ok=True)
        folder.rmdir()
