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
    """How a run ended: whether it succeeded, what it says, and the changes that it recorded."""

    succeeded: bool
    text: str
    recorded: list[changes.Change]


def settle(run: Path) -> Settlement:
    """Read how a run ended; one that began and left no result is lost, and nothing of it is repeated."""
    stands = process.standing(run)
    if stands is not process.Standing.ENDED:
        # What is left of the run may still record: its changes are read when it cannot any more.
        process.end_all_of(run)
    recorded = recorded_changes(run / "changes.jsonl")
    if stands is process.Standing.NEVER_RAN:
        return Settlement(succeeded=False, text=f"its process ended before it began: {_output(run)}", recorded=recorded)
    if stands is not process.Standing.ENDED:
        return Settlement(
            succeeded=False,
            text="its process ended without a result: it is lost, and not repeated",
            recorded=recorded,
        )
    try:
        result = json.loads((run / "result.json").read_bytes())
        return Settlement(succeeded=result["status"] == "success", text=result.get("text", ""), recorded=recorded)
    except (ValueError, KeyError, TypeError) as error:
        return Settlement(succeeded=False, text=f"{run / 'result.json'} is damaged: {error}", recorded=recorded)


def _output(run: Path) -> str:
    try:
        lines = (run / "output").read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    return lines[-1][:500] if lines else "it said nothing"


def recorded_changes(path: Path) -> list[changes.Change]:
    """The changes that a run recorded; a torn last line is dropped.

    Raises:
        StoreFailed: a line before the last cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    found: list[changes.Change] = []
    for index, line in enumerate(lines[:-1]):
        try:
            found.append(changes.decode(json.loads(line)))
        except (ValueError, errors.InvalidInput) as error:
            raise errors.StoreFailed(f"{path}, line {index + 1} cannot be read: {error}") from error
    return found
