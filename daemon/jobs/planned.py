"""A plan's jobs as jobs of the queue: numbers in place of keys, and the names of what they touch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...plugins.module_utils.domain import cluster as clusters
    from ...plugins.plugin_utils.rounds import work


ROUNDS = "gnt:daemon:maintd"
"""The source that the jobs of rounds have in their reason trail."""


def numbered(
    cluster: clusters.Cluster,
    drafts: Sequence[work.Job],
    numbers: Sequence[int],
    *,
    trail: tuple[values.Reason, ...] = (),
    source: str,
    now: float,
    priority: int = 0,
) -> tuple[values.Job, ...]:
    """The jobs of a plan with these numbers; the reason of each follows the common trail, told by the source."""
    ids = dict(zip((draft.key for draft in drafts), numbers, strict=True))
    return tuple(_job(cluster, draft, ids, trail=trail, source=source, now=now, priority=priority) for draft in drafts)


def has_incident(job: values.Job) -> bool:
    """Whether a job of a round is for an incident, which its trail names after what is done; balancing has none."""
    return sum(entry.source == ROUNDS for entry in job.reason) > 1


def named_numbers(cluster: clusters.Cluster) -> list[int]:
    """The job numbers in a configuration, and its filters' watermarks: later jobs are above them."""
    maintenance = cluster.maintenance
    incidents = [number for incident in maintenance.incidents for number in incident.jobs]
    return [*maintenance.jobs, *incidents, *(job_filter.watermark for job_filter in cluster.filters.values())]


def _job(
    cluster: clusters.Cluster,
    draft: work.Job,
    ids: dict[str, int],
    *,
    trail: tuple[values.Reason, ...],
    source: str,
    now: float,
    priority: int,
) -> values.Job:
    depends = [values.Dependency(ids[key]) for key in draft.after]
    depends += [values.Dependency(ids[key], tuple(values.FINAL)) for key in draft.behind]
    own = [values.Reason(source, draft.reason, int(now * 1e9))]
    if draft.incident is not None:
        own.append(values.Reason(source, draft.incident, int(now * 1e9)))
    return values.Job(
        id=ids[draft.key],
        opcodes=tuple(values.Opcode(opcode.kind, dict(opcode.params), priority) for opcode in draft.opcodes),
        depends=tuple(depends),
        reason=(*trail, *own),
        received=now,
        names=_names(cluster, draft),
    )


def _names(cluster: clusters.Cluster, draft: work.Job) -> dict[str, str]:
    uuids = {str(value) for opcode in draft.opcodes for value in opcode.params.values() if isinstance(value, str)}
    found = {uuid: cluster.nodes.get(uuid) or cluster.instances.get(uuid) for uuid in sorted(uuids)}
    return {uuid: named.name for uuid, named in found.items() if named is not None}
