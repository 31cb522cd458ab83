"""The jobs that are at work on an object, as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.rounds import wording
from ..jobs import values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ..jobs.queue import Queue


READING = frozenset({"diagnose", "health", "second_copies"})
"""Kinds of steps that change nothing on a node."""


def on_instances(instances: Iterable[clusters.Instance], queue: Queue) -> list[dict[str, Any]]:
    """The jobs that have begun and not ended, with what they do to these instances and since when (unix seconds)."""
    names = {instance.uuid: instance.name for instance in instances}
    return [
        _entry(job, opcode, names[opcode.params["instance"]])
        for job, opcode in _present(queue)
        if opcode.params.get("instance") in names
    ]


def on_node(node: clusters.Node, queue: Queue) -> list[dict[str, Any]]:
    """The jobs that have begun and not ended, and whose present step changes a node itself, like its role or power."""
    return [
        _entry(job, opcode, node.name)
        for job, opcode in _present(queue)
        if "instance" not in opcode.params and opcode.kind not in READING
        if is_about(opcode, node.uuid)
    ]


def by_object(queue: Queue) -> dict[str, int]:
    """By instance and node (UUIDs) the job that is at work on it now; of a node only what changes the node itself."""
    found: dict[str, int] = {}
    for job, opcode in _present(queue):
        params = opcode.params
        nodes = [] if opcode.kind in READING else [params.get("node"), *(params.get("nodes") or ())]
        for uuid in [params["instance"]] if "instance" in params else nodes:
            if uuid:
                found.setdefault(uuid, job.id)
    return found


def is_about(opcode: values.Opcode, node: str) -> bool:
    """Whether a node (UUID) is a parameter of an opcode that has one node or several."""
    return opcode.params.get("node") == node or node in (opcode.params.get("nodes") or ())


def _present(queue: Queue) -> list[tuple[values.Job, values.Opcode]]:
    """The jobs that have begun and not ended, by number, with their first step that has not ended; no dry runs."""
    begun = [job for _, job in sorted(queue.jobs.items()) if job.has_begun and not job.is_final]
    found = [(job, next(opcode for opcode in job.opcodes if opcode.status not in values.FINAL)) for job in begun]
    return [(job, opcode) for job, opcode in found if not opcode.dry_run]


def _entry(job: values.Job, opcode: values.Opcode, subject: str) -> dict[str, Any]:
    since = min((step.started for step in job.opcodes if step.started), default=job.received)
    return {"job": job.id, "subject": subject, "what": wording.summary(vars(opcode), job.names), "since": since}
