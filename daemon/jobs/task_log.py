"""The live log of an opcode: one line for each task of its play, as it happens, in `tasks.jsonl` of its run folder.

It holds what a person follows a job by, and no results: those may have secrets, and stay in the runner's own folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import secret_values

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME, LOOKUP = "tasks.jsonl", "lookup"
"""The log in the folder of a run, and the folder of the look after a lost one, which has a log too."""
LONGEST_TEXT = 500
FULL = 100.0
LONGEST_WAIT = 30 * 86400.0
"""Seconds; what would take longer hardly moves, and no time is shown."""
MOST_LINES = 10_000
ENDINGS = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}
RETRY = "runner_retry"
"""The event of a try that brought no end."""
UNFINISHED = frozenset({"started", "progress"})
SPAN = 100_000
"""Serial numbers of a job: its first opcode has those up to here, the second the next so many."""
CUT = "The log ends here: it is too long. The play goes on."


class Writer:
    """Appends to the log of one run; a full disk costs lines, never the run."""

    def __init__(self, run: Path) -> None:
        self._descriptor = os.open(run / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._lines = 0
        self._begun: dict[tuple[str, str], tuple[float, float]] = {}

    def event(self, event: dict[str, Any]) -> None:
        """Tell of an event of ansible-runner, if it is worth it."""
        data, kind = event.get("event_data", {}), event.get("event", "")
        if kind == RETRY:
            self._retried(data)
        elif kind == "runner_on_start":
            self.tell("started", host=_host(data), task=str(data.get("task", "")))
        elif kind in ENDINGS:
            self.tell(
                _ending(kind, data),
                host=_host(data),
                task=str(data.get("task", "")),
                text=_message(data) if kind in {"runner_on_failed", "runner_on_unreachable"} else "",
                seconds=data.get("duration"),
            )

    def _retried(self, data: dict[str, Any]) -> None:
        """Tell how far the copies of disks are which a task waits for."""
        shares = _shares(data.get("res", {}))
        if not shares:
            return
        host, task, now, least = _host(data), str(data.get("task", "")), time.monotonic(), min(shares)
        since, before = self._begun.setdefault((host, task), (now, least))
        named = [
            f"disk {place} {'is ' * (not place)}{share:.0f} %{' in sync' * (not place)}"
            for place, share in enumerate(shares)
        ]
        left = (FULL - least) * (now - since) / (least - before) if least > before else None
        if left is not None and left < LONGEST_WAIT:
            named.append(f"expected to take {left / 60:.0f} min more")
        text = ", ".join(named)
        self.tell("progress", host=host, task=task, text=text)

    def tell(self, kind: str, *, host: str = "", task: str = "", text: str = "", seconds: float | None = None) -> None:
        """Add one line."""
        self._lines += 1
        if self._lines > MOST_LINES:
            return
        now = time.time_ns() // 1000
        line: dict[str, Any] = {"time": [now // 1_000_000, now % 1_000_000], "type": kind, "host": host, "task": task}
        if self._lines == MOST_LINES:
            line |= {"type": "message", "host": "", "task": ""}
            text, seconds = CUT, None
        line |= {"seconds": seconds, "text": secret_values.masked(text)[:LONGEST_TEXT]}
        try:
            os.write(self._descriptor, json.dumps(line).encode() + b"\n")
        except OSError:
            self._lines = MOST_LINES

    def close(self) -> None:
        """Add nothing any more."""
        os.close(self._descriptor)


def note(run: Path, text: str) -> None:
    """Add a message to the log of a run that is not at work; a full disk costs it."""
    with contextlib.suppress(OSError):
        writer = Writer(run)
        writer.tell("message", text=text)
        writer.close()


def job_entries(folder: Path, *, opcodes: int, after: int = 0) -> list[list[Any]]:
    """The log of a job's opcodes, one after the other, in the form of `entries`."""
    return [entry for index in range(after // SPAN, opcodes) for entry in opcode_entries(folder, index, after=after)]


def sizes(folder: Path) -> dict[Path, int]:
    """Bytes of each log in a job's folder: they differ when there are new lines."""
    found = {}
    for pattern in (f"*/{NAME}", f"*/{LOOKUP}/{NAME}"):
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                found[path] = path.stat().st_size
    return found


def opcode_entries(folder: Path, index: int, *, after: int = 0) -> list[list[Any]]:
    """The log of one opcode of the job with this folder; after a loss it ends with the look for what was lost."""
    run, first = folder / str(index), index * SPAN + 1
    return [
        *entries(run, first=first, after=after),
        *entries(run / LOOKUP, first=first + MOST_LINES, after=after),
    ]


def entries(run: Path, *, first: int, after: int = 0) -> list[list[Any]]:
    """The log of a run as Ganeti writes one: serial number, [seconds, microseconds], type, text.

    Serial numbers grow from `first`; only those above `after` are told. A line that cannot be read is passed over.
    """
    try:
        lines = (run / NAME).read_bytes().split(b"\n")[:-1]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for serial, line in enumerate(lines, start=first):
        if serial > after and (told := _read_line(line)) is not None:
            found.append([serial, *told])
    return found


def _read_line(line: bytes) -> list[Any] | None:
    try:
        entry = json.loads(line)
        where = f"{entry['host']}: " if entry["host"] not in {"", "localhost"} else ""
        took = "" if entry["seconds"] is None else f" ({entry['seconds']:.1f} s)"
        if not entry["task"]:
            return [entry["time"], entry["type"], entry["text"]]
        ended = "" if entry["type"] in UNFINISHED else f": {entry['type']}{took}"
        return [
            entry["time"],
            entry["type"],
            f"{where}{entry['task']}{ended}" + (f": {entry['text']}" if entry["text"] else ""),
        ]
    except (ValueError, KeyError, TypeError):
        return None


def failed_items(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The results of the items that failed or were unreachable; of a task without a loop its own result.

    Ansible's own text for the whole loop only says that it is over.
    """
    items = result.get("results")
    found: list[Mapping[str, Any]] = []
    if isinstance(items, list):
        found = [item for item in items if isinstance(item, dict) and _has_failed(item)]
    return found or [result]


def _has_failed(item: Mapping[str, Any]) -> bool:
    # One that may fail is none: a later task judges it.
    return bool(item.get("failed") or item.get("unreachable")) and not item.get("_ansible_ignore_errors")


def _ending(kind: str, data: dict[str, Any]) -> str:
    if kind == "runner_on_ok" and data.get("res", {}).get("changed"):
        return "changed"
    return "ignored" if kind == "runner_on_failed" and data.get("ignore_errors") else ENDINGS[kind]


def _host(data: dict[str, Any]) -> str:
    delegated = data.get("res", {}).get("_ansible_delegated_vars", {}).get("ansible_delegated_host")
    return str(delegated or data.get("host", ""))


def _shares(result: Mapping[str, Any]) -> list[float]:
    """How much of each disk is in sync, in percent; none where a result does not say it of all its disks."""
    told = result.get("disks")
    disks = told if isinstance(told, list) and "censored" not in result else []
    shares = [disk.get("progress") if isinstance(disk, dict) else None for disk in disks]
    known = [float(share) for share in shares if isinstance(share, (int, float)) and 0 <= share <= FULL]
    return known if len(known) == len(shares) else []


def _message(data: dict[str, Any]) -> str:
    result = data.get("res", {})
    if "censored" in result:
        return ""
    texts = (item.get("msg") or item.get("reason") for item in failed_items(result) if "censored" not in item)
    return "; ".join(dict.fromkeys(str(text) for text in texts if text))
