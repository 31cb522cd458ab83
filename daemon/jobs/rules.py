"""The rules that jobs are judged by: the filters of the configuration and, before them, the hold of an emergency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import job_filters
from . import accepting, op_ids, planned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.domain import cluster as clusters
    from . import values

EMERGENCY = job_filters.Filter(
    "emergency",
    watermark=0,
    priority=-1,
    predicates=(
        ("reason", ("=", "source", planned.ROUNDS)),
        ("opcode", ("!", ("=", "OP_ID", op_ids.op_id("outdate_replica")))),
    ),
    action=job_filters.Action.PAUSE,
)
"""While an emergency power off stands, no job of a round begins, nor its next opcode; what people submit does.

Outdating does: it writes metadata only, and keeps old data from being started when the instances return.
"""


class Rules:
    """The rules of the newest configuration that was shown here."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        self._source: tuple[Mapping[str, job_filters.Filter] | None, bool] = (None, False)
        self._filters: Mapping[str, job_filters.Filter] = {}
        self.renewed(cluster)

    def renewed(self, cluster: clusters.Cluster) -> bool:
        """Take the rules from a configuration; returns whether they may be others now."""
        known, is_emergency = self._source, cluster.maintenance.epo is not None
        if cluster.filters is known[0] and is_emergency is known[1]:
            return False
        self._source = (cluster.filters, is_emergency)
        self._filters = {**cluster.filters, EMERGENCY.uuid: EMERGENCY} if is_emergency else cluster.filters
        return True

    def judge(self, job: values.Job) -> job_filters.Verdict:
        """What the rules say of a job."""
        return job_filters.judge(self._filters, accepting.subject(job))
