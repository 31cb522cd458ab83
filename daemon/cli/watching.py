"""Following the plays of a job: its tasks as they happen."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from . import output

if TYPE_CHECKING:
    from . import client

LOOK = 60.0
QUIET = frozenset({"skipped", "ignored"})
STYLES = {"failed": "bold red", "unreachable": "bold red", "changed": "yellow", "started": "dim"}


def show_tasks(daemon: client.Daemon, job: int) -> str:
    """Print the log of a job from its beginning until it ends; returns the status that it ended with."""
    after = 0
    try:
        while True:
            found = daemon.get("2", "jobs", job, "log", after=after, seconds=LOOK)
            for entry in _worth_showing(found["entries"]):
                _show(entry)
            after = max([after, *(entry[0] for entry in found["entries"])])
            if found["final"] and not found["entries"]:
                return str(found["status"])
    except KeyboardInterrupt:
        output.warning(f"roundsman: job {job} goes on: see `roundsman jobs watch {job}`")
        raise


def _worth_showing(entries: list[list[Any]]) -> list[list[Any]]:
    """Without what was skipped, and without the start of a task whose end is there already."""
    last = {serial for serial, _, kind, text in entries if kind == "started" and not _has_ended(entries, serial, text)}
    return [one for one in entries if one[2] not in QUIET and (one[2] != "started" or one[0] in last)]


def _has_ended(entries: list[list[Any]], serial: int, text: str) -> bool:
    task = text.rpartition(": ")[2]
    return any(other > serial and kind != "started" and task in told for other, _, kind, told in entries)


def _show(entry: list[Any]) -> None:
    _, (seconds, _), kind, text = entry
    moment = dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc).astimezone()
    running = " ..." if kind == "started" else ""
    output.line(f"{moment:%H:%M:%S} {text}{running}", style=STYLES.get(kind, ""))
