"""Why no report of a node counts: they are rejected, or none comes; in sentences, with what a person does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.agent import signing
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.disks import replica_texts
from ..maintenance import spool

if TYPE_CHECKING:
    from ..maintenance.reports import Intake

REJECTED = "reports-rejected"
NO_REPORT = "no-report"
AGENTS = "ansible-playbook -i INVENTORY playbooks/node_agent.yml"
_STRANGE = frozenset(
    reason.value for reason in (signing.Reason.WRONG_NODE, signing.Reason.FORGED, signing.Reason.UNSIGNED)
)
_CLOCKS = frozenset(reason.value for reason in (signing.Reason.FUTURE, signing.Reason.STALE, signing.Reason.REPLAYED))


@dataclass(frozen=True)
class Unheard:
    """Why no report of a node counts, and what a person does; `code` is that of the trouble, no text has a full stop.

    `is_answered` says that something answers there, so that the node's link and power are no reason.
    """

    code: str
    text: str
    step: str
    is_answered: bool = True


def clocks(node: clusters.Node, *, reason: str) -> str:
    """What a person does about reports that are refused because of a clock."""
    step = f"set the clocks of {node.name} and of the controller right (NTP); later reports count by themselves"
    if reason == signing.Reason.REPLAYED.value:
        step += f", or at once after `roundsman node reset-report-floor {node.name}`"
    return step


def find(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> Unheard | None:
    """Why no report of a node counts; None where one does, where the node is not asked, and where it only is silent."""
    if not clusters.reachable(cluster, node):
        return None
    seen, silent_at = intake.seen.get(node.uuid), intake.unreachable.get(node.name, {}).get("time", 0.0)
    if seen is not None and seen.misses:
        return None
    refused, noted = intake.refused.get(node.uuid), intake.rejected.get(node.uuid)
    if refused is not None and refused.at >= silent_at:
        at = replica_texts.clock(refused.at)
        what = f"the newest report of {node.name} was rejected ({refused.reason}) at {at}: {refused.text}"
        return Unheard(REJECTED, what, clocks(node, reason=refused.reason))
    if noted is not None and noted.at >= silent_at:
        since = replica_texts.clock(noted.since)
        what = f"the reports of {node.name} have been rejected ({noted.reason}) since {since}: {noted.text}"
        return Unheard(REJECTED, what, _step(node, noted.reason))
    if seen is not None and seen.unsigned:
        what = f"{node.name} answers without a report that counts since {replica_texts.clock(seen.since)}: {seen.text}"
        return Unheard(NO_REPORT, what, f"see what its agent says: `journalctl -u roundsman-agent` on {node.name}")
    return None if intake.is_silent(node.uuid) else _overdue(cluster, node, intake)


def _step(node: clusters.Node, reason: str) -> str:
    if reason in _STRANGE:
        return (
            f"apply the role node_agent to {node.name} again, which gives it its id and its key in this cluster: "
            f"`{AGENTS} --limit {node.name}`; if another machine has its address, end that first"
        )
    if reason == spool.UNREADABLE:
        return "make reports in the spool readable for roundsmand's user (0644)"
    if reason in _CLOCKS:
        return clocks(node, reason=reason)
    return (
        "the newest is in /var/lib/roundsman/rejected on the controller; if the agent is of another version, apply the "
        f"role node_agent again: `{AGENTS} --limit {node.name}`"
    )


def _overdue(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> Unheard | None:
    """That no report has come for longer than one counts; who was not there could not ask for one."""
    last, limit = intake.last(node.uuid), intake.age_limit
    if intake.serves_for < limit:
        return None
    if last is not None:
        if intake.is_current(node.uuid):
            return None
        at = replica_texts.clock(last.accepted)
        what = f"the last report of {node.name} came at {at}, and counts for {limit:.0f} s"
        if not last.is_dated:
            what = f"the clock was set back since the last report of {node.name} came, so its age is not known"
    elif intake.now.wall - node.ctime <= limit:
        return None
    else:
        what = f"{node.name} has not reported since it was added ({replica_texts.clock(node.ctime)})"
    settings = cluster.maintenance.settings
    if not settings.diagnose_interval:
        step = "have it asked: `roundsman cluster modify diagnose_interval=60`"
    elif settings.agent_port:
        step = f"see what its agent says: `journalctl -u roundsman-agent` on {node.name}"
    else:
        step = (
            f"see what it answers: `ansible-playbook -i INVENTORY playbooks/diagnose.yml --limit {node.name} --check`"
        )
    return Unheard(NO_REPORT, what, step, is_answered=False)
