"""What a finished run made true, read from the files that it left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import changes, errors
from . import process

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Settlement:
    """How a run ended: whether it succeeded, what it says, what it recorded, and what of that cannot be read."""

    succeeded: bool
    text: str
    recorded: list[changes.Change]
    unreadable: list[str]


def settle(run: Path) -> Settlement:
    """Read how a run ended; one that began and left no result is lost, and nothing of it is repeated."""
    stands = process.standing(run)
    # What is left of the run, such as a module past its time limit, may still act and record: it ends first.
    process.end_all_of(run)
    recorded, unreadable = recorded_changes(run / "changes.jsonl")
    succeeded, text = _result(run, stands)
    return Settlement(succeeded, text, recorded, unreadable)


def _result(run: Path, stands: process.Standing) -> tuple[bool, str]:
    if stands is process.Standing.NEVER_RAN:
        return False, f"its process ended before it began: {_output(run)}"
    if stands is not process.Standing.ENDED:
        return False, "its process ended without a result: it is lost, and not repeated"
    try:
        result = json.loads((run / "result.json").read_bytes())
        # Halves of characters come from a node's connection, and no job file can hold them.
        return result["status"] == "success", result.get("text", "").encode(errors="replace").decode()
    except (ValueError, KeyError, TypeError) as error:
        return False, f"{run / 'result.json'} is damaged: {error}"


def _output(run: Path) -> str:
    try:
        lines = (run / "output").read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    return lines[-1][:500] if lines else "it said nothing"


def recorded_changes(path: Path) -> tuple[list[changes.Change], list[str]]:
    """The changes that a run recorded, and why others cannot be read; a torn last line is dropped."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], []
    found: list[changes.Change] = []
    unreadable: list[str] = []
    for index, line in enumerate(lines[:-1]):
        try:
            found.append(changes.decode(json.loads(line)))
        except (ValueError, errors.InvalidInput) as error:
            unreadable.append(f"{path}, line {index + 1} cannot be read: {error}")
    return found, unreadable
