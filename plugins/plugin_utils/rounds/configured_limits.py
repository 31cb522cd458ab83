"""The limits of capacity that a configuration sets: of a group, else of its cluster (seed 004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..placement.htools import capacity_report
from ..placement.models import model
from ..settings import instance_policy

if TYPE_CHECKING:
    from ..cluster import cluster as clusters

USUAL = model.Template.DRBD
NONE_SET = capacity_report.Limits()


def question(
    cluster: clusters.Cluster, *, call: capacity_report.Limits = NONE_SET, accepts_existing: bool = False
) -> capacity_report.Question:
    """What is asked of a configured cluster; where nobody names a disk template it is drbd, if the policy allows it."""
    own = _limits(cluster.cluster)
    if (
        own.default_template is None
        and USUAL.value in instance_policy.filled(cluster.cluster.ipolicy)["disk-templates"]
    ):
        own = capacity_report.Limits(default_template=USUAL).over(own)
    groups = {uuid: _limits(group) for uuid, group in cluster.nodegroups.items()}
    return capacity_report.Question(own, groups, call, accepts_existing=accepts_existing)


def _limits(owner: clusters.Parameters | clusters.Group) -> capacity_report.Limits:
    template = None if owner.default_template is None else model.Template(owner.default_template)
    return capacity_report.Limits(owner.max_inst_spec, template, owner.max_cpu_ratio, owner.max_disk_usage)
