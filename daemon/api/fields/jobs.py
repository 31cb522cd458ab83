"""The fields of jobs; names are Ganeti's, times are pairs of seconds and microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....plugins.module_utils.domain.values import secret_values
from ....plugins.plugin_utils.opcodes import registry
from ...jobs import settling, values
from .. import views
from .definition import Field, Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Job = Field[values.Job]


def ganeti(job: values.Job) -> dict[str, Any]:
    """A job with all of Ganeti's fields, and ours beside them."""
    return {**views.job(job), **{name: field.read(NOWHERE, job) for name, field in FIELDS.items()}}


def whole(job: values.Job, folder: Path) -> dict[str, Any]:
    """One job with what each opcode left, also of those that ended badly; the runs of it are in its folder."""
    found = [settling.value(folder / entry.run) if entry.run else entry.result for entry in job.opcodes]
    return {**ganeti(job), "results": secret_values.masked(found)}


def result(opcode: values.Opcode) -> Any:
    """What an opcode left, as Ganeti tells it: of one that ended badly the error's class and text."""
    if opcode.status in {values.Status.ERROR, values.Status.CANCELED}:
        return ["OpExecError", [opcode.text]]
    return secret_values.masked(opcode.result) if opcode.status is values.Status.SUCCESS else None


def log(opcode: values.Opcode) -> list[list[Any]]:
    """The messages of an opcode: serial number, time, kind and text."""
    return [[1, pair(opcode.ended or opcode.started), "message", opcode.text]] if opcode.text else []


def pair(moment: float) -> list[int] | None:
    """Unix seconds as seconds and microseconds; null for never."""
    return [int(moment), int(moment % 1 * 1_000_000)] if moment else None


def _summary(job: values.Job, opcode: values.Opcode) -> str:
    texts = (value for value in opcode.params.values() if isinstance(value, str))
    first = next((job.names[text] for text in texts if text in job.names), "")
    name = registry.op_id(opcode.kind).removeprefix("OP_")
    return f"{name}({first})" if first else name


def _op(job: values.Job, opcode: values.Opcode) -> dict[str, Any]:
    trail = [[entry.source, entry.text, entry.timestamp] for entry in job.reason]
    own = {
        "OP_ID": registry.op_id(opcode.kind),
        "priority": opcode.priority,
        "dry_run": opcode.dry_run,
        "reason": trail,
    }
    return {**secret_values.masked(opcode.params), **own}


def _each(title: str, doc: str, read: Callable[[values.Job, values.Opcode], Any]) -> Job:
    return Job(title, Kind.OTHER, doc, lambda _, job: [read(job, opcode) for opcode in job.opcodes])


def _started(job: values.Job) -> list[int] | None:
    return pair(min((opcode.started for opcode in job.opcodes if opcode.started), default=0.0))


NOWHERE: Any = None
"""A job tells all of itself: no snapshot of the configuration is read."""
FIELDS: dict[str, Job] = {
    "id": Job("ID", Kind.NUMBER, "Job number", lambda _, job: job.id),
    "status": Job("Status", Kind.TEXT, "Job status", lambda _, job: job.status.value),
    "priority": Job("Priority", Kind.NUMBER, "Priority of its first unfinished opcode", lambda _, job: job.priority),
    "summary": _each("Summary", "Each opcode in a word", _summary),
    "ops": _each("OpCodes", "Opcodes with their parameters", _op),
    "opstatus": _each("OpCode_status", "Status of each opcode", lambda _, opcode: opcode.status.value),
    "opresult": _each("OpCode_result", "Result of each opcode", lambda _, opcode: result(opcode)),
    "oplog": _each("OpCode_log", "Messages of each opcode", lambda _, opcode: log(opcode)),
    "opstart": _each("OpCode_start", "Start of each opcode", lambda _, opcode: pair(opcode.started)),
    "opend": _each("OpCode_end", "End of each opcode", lambda _, opcode: pair(opcode.ended)),
    "oppriority": _each("OpCode_prio", "Priority of each opcode", lambda _, opcode: opcode.priority),
    "received_ts": Job("Received", Kind.OTHER, "Submission", lambda _, job: pair(job.received)),
    "start_ts": Job("Start", Kind.OTHER, "Start of the first opcode", lambda _, job: _started(job)),
    "end_ts": Job("End", Kind.OTHER, "End of the last opcode", lambda _, job: pair(job.ended)),
    "archived": Job("Archived", Kind.BOOL, "Whether it has left the queue", lambda _, job: job.archived),
}
