"""A scripted run of a lab: what the script does is written down, and so is what it sees while nothing moves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.plugin_utils import daemon_client

from tests import crash_points
from tests.integration import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ansible_collections.roundsman.cluster.daemon.lab import world

LIMIT = 1200.0
"""Seconds for anything that is awaited: what a lab comes to must not depend on how busy the machine is."""
POINTS = {
    "before-opcode-start": "after the submission, before the opcode's process is started",
    "before-began": "when the opcode's process has started, before it notes that it began",
    "before-result": "when the opcode's play has ended, before its result is written",
    "before-settling": "when the opcode's process has ended, before its changes are committed",
    "between-commits": "when its changes are on disk, before the job's end is written",
}


@dataclass(frozen=True)
class Scenario:
    """A small lab, the script that is played in it, and the nodes or instances that are explained at its end."""

    name: str
    play: Callable[[Story], None]
    explained: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    start: Callable[[Path, Mapping[str, Any]], Story] | None = None
    """How the lab is brought up, if not by this checkout."""


class Story(labs.Running):
    """A lab that is up, whose daemon can be killed at a named point; `lines` is what was done and seen."""

    def __init__(self, lab: world.Lab, environment: Mapping[str, str], faults: Path) -> None:
        super().__init__(lab, environment)
        self.lines: list[str] = []
        self.is_answered = True
        """Whether each request was answered; one that was not may be in the audit log."""
        self._faults = faults
        self._kept = contextlib.ExitStack()
        self._client: httpx.Client | None = None
        self.start()

    def get(self, path: str) -> Any:
        """What the daemon answers on its socket, over a connection that is kept: making a client takes 0.1 s of CPU."""
        if self._client is None:
            self._client = self._kept.enter_context(daemon_client.connected(self.where.socket, seconds=70))
        answer = self._client.get(path)
        answer.raise_for_status()
        return answer.json()

    def close(self) -> None:
        """Close the kept connection."""
        self._client = None
        self._kept.close()

    def start(self) -> None:
        self.close()
        super().start()
        if self._faults.is_dir():
            (self._faults / "daemon.pid").write_text(self.where.pid_file.read_text())

    def until(self, is_so: Callable[[labs.Running], Any], what: str, *, seconds: float = LIMIT) -> Any:
        return super().until(is_so, what, seconds=seconds)

    def note(self, text: str) -> None:
        """Write down what is done or seen."""
        self.lines.append(text)

    def report(self, node: str, diagnosis: Mapping[str, Any]) -> None:
        """Let a node report this diagnosis."""
        text = json.dumps(diagnosis)
        self.note(f"{node} reports {text}")
        labs.drop(self, f"{node}.json", labs.report(self, node, text))

    def submit(self, method: str, path: str, body: Any = None) -> int:
        """Ask for a job; returns its number."""
        answer = self.ask(method, path, body)
        told = "" if body is None else f" {json.dumps(body, sort_keys=True)}"
        self.note(f"{method} {path}{told}: {answer.status_code}")
        assert answer.is_success, answer.text
        found = answer.json()
        return int(found if isinstance(found, int) else found["id"])

    def run(self, method: str, path: str, body: Any = None) -> None:
        """Ask for a job, and wait for its end and for that of the jobs that it submits."""
        self.note(f"  it ends: {states.job_ended(self, self.submit(method, path, body))['status']}")
        self.until(states.at_rest, "the jobs that it has submitted end")

    def call(self, method: str, path: str, body: Any = None) -> None:
        """Ask for something that is no job."""
        answer = self.ask(method, path, body)
        self.note(f"{method} {path.rpartition('?')[0] or path}: {answer.status_code}")

    def command(self, *words: str) -> None:
        """Run `roundsman` as a person does, and write down what it prints."""
        done = states.command(self, *words, columns=1000)
        self.note(f"roundsman {' '.join(words)}: exit status {done.returncode}")
        self.lines += [f"  | {line}".rstrip() for line in (done.stdout + done.stderr).splitlines()]

    def await_incident(self, node: str, *statuses: str) -> dict[str, Any]:
        """Wait until a node's incident has one of these statuses and nothing is at work; the incident."""

        def look(_: labs.Running) -> Any:
            found = self.incident(node)
            return found if found and found["repair-status"] in statuses and states.at_rest(self) else None

        found: dict[str, Any] = self.until(look, f"the incident of {node} is {' or '.join(statuses)}")
        reason = f" ({found['reason']})" if found["reason"] else ""
        changes = f"{found['serial_no']} changes"
        self.note(f"the incident of {node}, {found['action']}, is {found['repair-status']} after {changes}{reason}")
        return found

    def await_running(self, kind: str) -> Path:
        """Wait until an opcode of a kind is at work in its play; returns its run folder."""
        job = self.until(lambda _: states.running(self, kind), f"{kind} runs")
        index = [opcode["kind"] for opcode in job["opcodes"]].index(kind)
        folder = self.where.queue / str(job["id"]) / str(index)
        self.until(lambda _: (folder / "held").exists(), "its play holds its locks")
        self.note(f"{kind} is at work")
        return folder

    def await_status(self, job: int, status: str) -> None:
        """Wait until a job has a status."""
        self.until(lambda _: self.get(f"/2/jobs/{job}")["status"] == status, f"job {job} is {status}")
        self.note(f"job {job} is {status}")

    def await_end(self, job: int) -> None:
        """Wait for the end of a job."""
        self.note(f"job {job} ends: {states.job_ended(self, job)['status']}")

    def kill_daemon(self) -> None:
        """Kill the daemon where it is."""
        self.kill()
        self.note("the daemon is killed")

    def start_daemon(self) -> None:
        """Start the daemon again."""
        self.start()
        self.note("the daemon is started")

    def kill_at(self, point: str, method: str, path: str, body: Any = None) -> None:
        """Ask for a job, and let the daemon be killed at a point of its life."""
        self.note(f"{method} {path}; the daemon is to be killed {POINTS[point]}")
        (self._faults / point).touch()
        # It may die before it has answered: the job is in its queue by then.
        self.is_answered = False
        with contextlib.suppress(httpx.HTTPError):
            self.ask(method, path, body)
        hit = self._faults / f"{point}.hit"
        end = time.monotonic() + LIMIT
        while processes.is_running(self.lab, "daemon") or not hit.exists():
            assert time.monotonic() < end, f"the daemon was not killed at {point}\n{self.told()}"
            time.sleep(0.05)
        self.note("the daemon is killed")


def up(folder: Path, options: Mapping[str, Any]) -> Story:
    """Bring up the lab of a scenario."""
    faults = folder.with_name("faults")
    environment = crash_points.make(faults)
    made = labs.up(folder, **{"nodes": 3, "environment": environment, **options})
    return Story(made.lab, environment, faults)


def members(run: Path) -> Iterator[int]:
    """The processes whose environment names a run."""
    marker = f"ROUNDSMAN_RUN={run}".encode()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def kill_opcode(story: Story, run: Path) -> None:
    """Kill all processes of an opcode."""
    while found := list(members(run)):
        _kill(found)
    story.note("all processes of the opcode are killed")


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
