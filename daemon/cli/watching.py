"""Following a job to its end, and its tasks as they happen: a line each, or one line of a terminal for all."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from . import output, wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from . import client

LOOK = 60.0
GLANCE = 1.0
"""Seconds between two looks at a job whose progress is shown, so that it moves."""
SPINNER = 2
"""The columns that a terminal has less for the words beside a spinner."""
QUIET = frozenset({"skipped", "ignored"})
RUNNING = frozenset({"started", "progress"})
STYLES = {"progress": "dim", "failed": "bold red", "unreachable": "bold red", "changed": "yellow", "started": "dim"}


def show_tasks(daemon: client.Daemon, job: int) -> str:
    """Print the log of a job from its beginning until it ends; returns the status that it ended with."""
    after = 0
    with _let_go_on(job):
        while True:
            found = daemon.get("2", "jobs", job, "log", after=after, seconds=LOOK)
            for entry in _worth_showing(found["entries"]):
                _show(entry)
            after = _last(found, after=after)
            if found["final"] and not found["entries"]:
                return str(found["status"])


def until_ended(daemon: client.Daemon, job: int, *, quiet: bool = False) -> dict[str, Any]:
    """Wait until a job has ended; meanwhile a terminal shows on one line what it is at, unless it shall be quiet."""
    with _let_go_on(job):
        if quiet or not sys.stderr.isatty():
            return _awaited(daemon, job)
        console = Console(stderr=True, highlight=False, markup=False)
        with console.status(f"job {job}") as shown:
            return _shown(daemon, job, tell=lambda text: shown.update(_one_line(text, columns=console.width)))


@contextlib.contextmanager
def _let_go_on(job: int) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        output.warning(
            f"roundsman: job {job} goes on: follow it with `roundsman jobs watch {job}`, "
            f"or end it with `roundsman jobs cancel {job}`"
        )
        raise


def _awaited(daemon: client.Daemon, job: int) -> dict[str, Any]:
    while True:
        found: dict[str, Any] = daemon.get("2", "jobs", job, "wait", timeout=LOOK)
        if found["status"] in wording.FINAL:
            return found


def _shown(daemon: client.Daemon, job: int, *, tell: Callable[[str], None]) -> dict[str, Any]:
    after, task = 0, ""
    while True:
        found: dict[str, Any] = daemon.get("2", "jobs", job)
        if found["status"] in wording.FINAL:
            return found
        stands = f"job {job}: {wording.job(found)}: {found['status']}, step {wording.steps(found)}"
        tell(f"{stands}: {task}" if task else stands)
        log = daemon.get("2", "jobs", job, "log", after=after, seconds=GLANCE)
        task = next((text for _, _, kind, text in reversed(log["entries"]) if kind not in QUIET), task)
        after = _last(log, after=after)


def _last(log: dict[str, Any], *, after: int) -> int:
    return max([after, *(int(entry[0]) for entry in log["entries"])])


def _one_line(text: str, *, columns: int) -> Text:
    line = Text(" ".join(output.printable(text).split()), no_wrap=True)
    line.truncate(max(1, columns - SPINNER), overflow="ellipsis")
    return line


def _worth_showing(entries: list[list[Any]]) -> list[list[Any]]:
    """Without what was skipped, and without the start of a task whose end is there already."""
    last = {serial for serial, _, kind, text in entries if kind == "started" and not _has_ended(entries, serial, text)}
    return [entry for entry in entries if entry[2] not in QUIET and (entry[2] != "started" or entry[0] in last)]


def _has_ended(entries: list[list[Any]], serial: int, text: str) -> bool:
    task = text.rpartition(": ")[2]
    return any(other > serial and kind not in RUNNING and task in told for other, _, kind, told in entries)


def _show(entry: list[Any]) -> None:
    _, (seconds, _), kind, text = entry
    moment = dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc).astimezone()
    running = " ..." if kind == "started" else ""
    output.line(f"{moment:%H:%M:%S} {text}{running}", style=STYLES.get(kind, ""))
