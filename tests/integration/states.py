"""States of a lab that several tests wait for, and the command line as a person uses it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import labs

FINAL = frozenset({"success", "error", "canceled"})


def command(one: labs.Running, *arguments: str, columns: int = 200) -> subprocess.CompletedProcess[str]:
    """Run `roundsman` against a lab, in a terminal of so many columns."""
    program = str(Path(sys.executable).with_name("roundsman"))
    return subprocess.run(
        [program, "--dir", str(one.lab.folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"},
    )


def reads(node: str, status: str) -> Callable[[labs.Running], Any]:
    """Whether a node's incident has a status; its value."""

    def look(one: labs.Running) -> Any:
        found = one.incident(node)
        return found if found is not None and found["repair-status"] == status else None

    return look


def forgotten(node: str) -> Callable[[labs.Running], bool]:
    """Whether a node has no incident any more."""
    return lambda one: one.incident(node) is None


def at_rest(one: labs.Running) -> bool:
    """Whether every job of the queue has ended."""
    return all(job["status"] in FINAL for job in one.get("/1/jobs"))


def job_ended(one: labs.Running, job: int) -> dict[str, Any]:
    """Wait for a job's end; the job."""

    def look(_: labs.Running) -> dict[str, Any] | None:
        found: dict[str, Any] = one.get(f"/2/jobs/{job}")
        return found if found["status"] in FINAL else None

    ended: dict[str, Any] = one.until(look, f"job {job} ends")
    return ended


def stated_loss(text: str, instance: str) -> int:
    """The seconds of loss with which the command of a refusal fails an instance over, 0 if it names none."""
    seconds = text.partition(f"`roundsman instance failover {instance} --max-loss ")[2].partition("s`")[0]
    return int(seconds or 0)


def awaited_loss(one: labs.Running, instance: str) -> int:
    """The loss that a person may accept of an instance that waits while nothing is at work; 0 if it does not wait."""
    refusals = one.get("/1/plan")["refusals"] if at_rest(one) else []
    return next((stated_loss(entry["unblock"], instance) for entry in refusals if entry["subject"] == instance), 0)


def accept_loss(one: labs.Running, instance: str) -> None:
    """Once an instance waits for a person, accept the loss that the refusal of its failover names; it succeeds."""
    accepted = one.until(lambda _: awaited_loss(one, instance), f"{instance} waits for a person")
    answer = one.put(f"/2/instances/{instance}/failover", {"max_loss": accepted})
    assert answer.is_success, answer.text
    ended = job_ended(one, int(answer.json()))
    assert ended["status"] == "success", ended


def running(one: labs.Running, kind: str) -> dict[str, Any] | None:
    """A job with an opcode of a kind that runs now."""
    return next(
        (
            job
            for job in one.get("/1/jobs")
            if any(step["kind"] == kind and step["status"] == "running" for step in job["opcodes"])
        ),
        None,
    )


def digest(*folders: Path) -> dict[str, str]:
    """Every file below these folders with the hash of its content."""
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def whole_state(one: labs.Running) -> dict[str, str]:
    """Everything that the controller keeps on disk."""
    return digest(one.where.lib, one.where.etc)
