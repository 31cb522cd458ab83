"""What is seen while a lab goes wrong: violations by the nodes' journals and files, incidents and opcodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import submission
from ansible_collections.roundsman.cluster.daemon.lab import checker

from tests.chaos import verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from tests.chaos.chronicle import Chronicle
    from tests.chaos.doors import Doors
    from tests.integration import labs

SECONDS = 10.0
"""Between two looks."""
TIME_LIMIT = "time limit"
"""Part of the text of an opcode whose run was ended because it took too long, as one that was stopped."""


class Watch:
    """Looks now and then; `wrong` are the violations.

    `stopped` are the opcodes of which a process was stopped beyond their time limits: others that reach theirs had too
    little of the machine, or waited for a node that hangs.
    """

    def __init__(self, lab: labs.Running, doors: Doors, chronicle: Chronicle, *, stopped: AbstractSet[str]) -> None:
        self._lab, self._doors, self._chronicle, self._stopped = lab, doors, chronicle, stopped
        self._strays = verdict.Strays(lab)
        self._looked = time.monotonic()
        self._incidents: dict[str, str] = {}
        self._opcodes: set[tuple[int, int]] = set()
        self.wrong: list[str] = []

    def forget_strays(self) -> None:
        """Another controller leads: what it does not know yet is not forgotten."""
        self._strays = verdict.Strays(self._lab)

    def look(self, *, is_answered: bool = True, is_due: bool = False) -> None:
        """Look if it is time or `is_due`; `is_answered` is false while the daemon is stopped and answers nobody."""
        now = time.monotonic()
        if now - self._looked < SECONDS and not is_due:
            return
        self._looked = now
        jobs = self._doors.get("/1/jobs") if is_answered else None
        for sentence in [*checker.check_journals(self._lab.lab), *self._strays.look(jobs, hands=self._doors.pids())]:
            if sentence not in self.wrong:
                self.wrong.append(sentence)
                self._chronicle.note(f"VIOLATION: {sentence}")
                print(f"{self._chronicle.seconds:6.0f} s: violation: {sentence}", flush=True)
        for incident in self._lab.cluster().maintenance.incidents:
            status = incident.repair_status.value
            if self._incidents.get(incident.uuid) != status:
                self._incidents[incident.uuid] = status
                self._chronicle.count("incidents", f"{incident.action.value} {status}", incident.uuid)
        self._count_opcodes(jobs or [])

    def _count_opcodes(self, jobs: list[dict[str, Any]]) -> None:
        """Count each opcode once that has ended: jobs leave the queue."""
        for job in jobs:
            for index, step in enumerate(job["opcodes"]):
                if step["ended"] and (job["id"], index) not in self._opcodes:
                    self._opcodes.add((job["id"], index))
                    self._chronicle.count("opcodes", step["kind"], f"{job['id']}/{index} {step['status']}")
                    if is_unattended(job) and step["status"] == "success":
                        self._chronicle.count("unattended", _deed(step), step["what"])
                    if TIME_LIMIT in step["text"]:
                        why = "stopped" if f"{job['id']}/{index}" in self._stopped else "hanging or slow"
                        self._chronicle.count("time limits", f"{step['kind']} ({why})", step["text"])


def is_unattended(job: Mapping[str, Any]) -> bool:
    """Whether the daemon submitted a job by itself."""
    return any(source == submission.ROUNDS for source, *_ in job["reason"])


def _deed(step: Mapping[str, Any]) -> str:
    """The kind of an opcode, of those about power the command."""
    return str(step["what"]).split()[1] if step["kind"] == "power" else str(step["kind"])
