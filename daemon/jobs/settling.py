"""What a finished run made true, read from the files that it left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import changes, errors
from ...plugins.plugin_utils import run_records
from . import process

if TYPE_CHECKING:
    from pathlib import Path

    from ...plugins.module_utils.domain import cluster as clusters
    from .ports import Ports


@dataclass(frozen=True)
class Settlement:
    """How a run ended: whether it succeeded, what it says, what it recorded, and what of that cannot be read.

    `value` is the JSON value that its play left, or None.
    """

    succeeded: bool
    text: str
    recorded: list[changes.Change]
    unreadable: list[str]
    value: Any = None


async def settle(run: Path) -> Settlement:
    """Read how a run ended; one that began and left no readable result is lost, and nothing of it is repeated."""
    stands = process.standing(run)
    # What is left of the run, such as a module whose play was killed, may still act and record: it ends first.
    await process.end_run(run)
    told = _result(run, stands)
    recorded = run_records.recorded(run, expected=told["changes"])
    succeeded = told["status"] == "success"
    return Settlement(succeeded, told["text"], recorded.changes, recorded.unreadable, told["value"])


def value(run: Path) -> Any:
    """The value that a run left, of as many nodes as it was about: it stays in its folder, and in no list of jobs."""
    try:
        return run_records.result(run)["value"]
    except (FileNotFoundError, errors.InvalidInput):
        return None


async def commit(settlement: Settlement, *, ports: Ports, by: str) -> list[str]:
    """Commit what a run recorded, for whom; returns what of it could not be read, or does not fit any more.

    Raises:
        StoreFailed: it could not be written; to call this again is harmless.
    """
    refused: list[str] = []

    def applicable(cluster: clusters.Cluster) -> list[changes.Change]:
        accepted, others = changes.sort_out(cluster, settlement.recorded, now=ports.clock())
        refused[:] = others
        return accepted

    await ports.configuration.commit(applicable, by=by)
    return [*settlement.unreadable, *refused]


def _result(run: Path, stands: process.Standing) -> dict[str, Any]:
    bad: dict[str, Any] = {"status": "error", "changes": None, "value": None}
    if stands is process.Standing.NEVER_RAN:
        return {**bad, "text": f"its process ended before it began: {_output(run)}"}
    try:
        result = run_records.result(run)
    except FileNotFoundError:
        why = process.overdue(run) or "its process ended without a result"
        return {**bad, "text": f"{why}: it is lost, and not repeated"}
    except errors.InvalidInput as error:
        return {**bad, "text": f"{error}: it counts as lost, and is not repeated"}
    # Halves of characters come from a node's connection, and no job file can hold them.
    return {**result, "text": result["text"].encode(errors="replace").decode()}


def _output(run: Path) -> str:
    try:
        lines = (run / "output").read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    return lines[-1][:500] if lines else "it said nothing"
