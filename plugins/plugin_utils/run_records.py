"""What a run leaves behind: the changes that it recorded and its result, sealed against damage."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.values import errors
from . import durable_files, sealed_json
from .cluster import changes, recording

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CHANGES, RESULT = "changes.jsonl", "result.json"
UNKNOWN = "unknown"
"""The file that a run leaves when the disk failed while it recorded a change; it need not outlive a reboot."""

_ANSWER = "answer-"


@dataclass(frozen=True)
class Recorded:
    """The changes that a run recorded, and what of them is missing or cannot be read.

    `is_unknown` says that the disk failed while the run recorded: it was told that this is unknown.
    """

    changes: list[changes.Change]
    unreadable: list[str]
    is_unknown: bool = False


def append(run: Path, *encoded: Mapping[str, Any]) -> None:
    """Record encoded changes, a line each, in one write: a run that is killed has recorded all of them or none.

    Raises:
        StoreFailed: they could not be made durable; none is recorded.
        StateUnknown: the disk failed; whoever settles the run learns that some may be recorded, and some not.
    """
    lines = [sealed_json.seal(json.dumps(change).encode()).decode() for change in encoded]
    try:
        durable_files.append_line(run / CHANGES, "\n".join(lines))
    except errors.StateUnknown:
        with contextlib.suppress(OSError):
            (run / UNKNOWN).touch()
        raise


def keep_answer(run: Path, node: str, answer: Mapping[str, Any]) -> None:
    """Keep what a node (UUID) answered to a run that asks; it need not outlive a reboot.

    Raises:
        StoreFailed: it could not be written.
    """
    durable_files.replace(run / f"{_ANSWER}{node}.json", json.dumps(answer).encode(), for_this_boot=True)


def answers(run: Path) -> dict[str, Any]:
    """What nodes (UUIDs) answered to a run that asked, as JSON values."""
    return {path.stem.removeprefix(_ANSWER): json.loads(path.read_bytes()) for path in run.glob(f"{_ANSWER}*.json")}


def conclude(run: Path, result: Mapping[str, Any]) -> None:
    """Leave the result of a run, and how many changes it recorded.

    Raises:
        StoreFailed, StateUnknown: it could not be made durable.
    """
    told = {**result, "changes": len(_lines(run)) - 1}
    durable_files.replace(run / RESULT, sealed_json.seal(json.dumps(told).encode()))


def result(run: Path) -> dict[str, Any]:
    """The result of a run; `value` is the JSON value that its play left, or None.

    Raises:
        InvalidInput: it is damaged; the text names the file. FileNotFoundError: there is none.
    """
    path = run / RESULT
    try:
        found = json.loads(sealed_json.unseal(path.read_bytes()))
        text, value = str(found.get("text", "")), found.get("value")
        return {"status": str(found["status"]), "text": text, "changes": int(found["changes"]), "value": value}
    except (ValueError, KeyError, TypeError, errors.InvalidInput) as error:
        raise errors.InvalidInput(f"{path} is damaged: {error}") from error


def recorded(run: Path, *, expected: int | None) -> Recorded:
    """The changes that a run recorded, as many as its result says, if it left one.

    A last line that was torn while it was written was not recorded: nobody was told that it was.
    """
    path, found, unreadable = run / CHANGES, list[changes.Change](), list[str]()
    *lines, tail = _lines(run)
    for number, line in enumerate([*lines, tail], start=1):
        try:
            found.append(recording.decode(json.loads(sealed_json.unseal(line))))
        except (ValueError, errors.InvalidInput) as error:
            if number <= len(lines):
                unreadable.append(f"{path}, line {number} cannot be read: {error}")
    missing = 0 if expected is None else expected - len(found) - len(unreadable)
    if missing > 0:
        unreadable.append(f"{path} is damaged: {missing} of {expected} recorded changes are missing")
    is_unknown = (run / UNKNOWN).exists()
    if is_unknown:
        unreadable.append(f"the disk failed while {path} was written: what the run recorded last is unknown")
    return Recorded(found, unreadable, is_unknown)


def _lines(run: Path) -> list[bytes]:
    try:
        return (run / CHANGES).read_bytes().split(b"\n")
    except FileNotFoundError:
        return [b""]
