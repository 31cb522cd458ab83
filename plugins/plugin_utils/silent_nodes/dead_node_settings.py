"""What cannot work of the settings about silent and dead nodes."""

from __future__ import annotations

from typing import List, Mapping

from ..cluster import cluster as clusters
from ..disks import possible_loss

NAMED = 10
"""So many nodes are named in one sentence."""
LARGE_LOSS = 600
"""Seconds of writes above which a limit of what failovers may lose is worth a word."""
LOOK = 5.0
"""Seconds between two looks of a node's agent at its DRBD connections."""
QUESTION = 5.0
"""Seconds from one question to a suspect to the next."""
TO_OFF = 10.0
"""Seconds from the last question that a dead node misses until its BMC was commanded, and has read back off."""


def without_agents(cluster: clusters.Cluster) -> str:
    """Why what is set about silent nodes does nothing, with the remedy, where no node's agent is asked; or ''."""
    settings = cluster.maintenance.settings
    chosen = {"dead_after": settings.dead_after, "dead_node_policy": settings.dead_node_policy}
    told = [f"{name}={value}" for name, value in chosen.items() if value not in {0, "none"}]
    if settings.agent_port or not told:
        return ""
    names = sorted((node.name for node in cluster.nodes.values() if node.vm_capable), key=clusters.natural)
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return (
        f"{' and '.join(told)} do{'es' if len(told) == 1 else ''} nothing for {shown}: agent_port is 0, so no agent is "
        "asked. Install the node agent with the role roundsman.cluster.node_agent, then run `roundsman cluster modify "
        "agent_port=1815`"
    )


def problems(cluster: clusters.Cluster) -> List[str]:
    """What cannot work of the settings about dead nodes, in sentences."""
    settings = cluster.maintenance.settings
    unasked = without_agents(cluster)
    if unasked or settings.dead_node_policy == "none":
        return [unasked] if unasked else []
    if not settings.dead_after:
        unset = (
            f"dead_node_policy={settings.dead_node_policy} does nothing: dead_after is 0, so no silent node counts as "
        )
        return [f"{unset}dead. Set it with `roundsman cluster modify dead_after=5`"]
    detected = settings.diagnose_interval + (settings.dead_after - 1) * QUESTION + TO_OFF
    needed = detected + LOOK + possible_loss.NOTICED
    found = []
    for name, limit in _limits(cluster).items():
        if limit > LARGE_LOSS:
            found.append(f"{name} is {limit} s: a failover that nobody ordered may lose the writes of that long")
        elif limit < needed:
            found.append(
                f"{name} is {limit} s, and a dead node's failover may lose {needed:.0f} s (diagnose_interval, "
                "the questions of dead_after, and the seconds to command its BMC, to look and to notice a cut link), "
                "so that not every one goes on unattended: raise it, or lower diagnose_interval or dead_after"
            )
    return found


def _limits(cluster: clusters.Cluster) -> Mapping[str, int]:
    """The limits of what a failover may lose, by their names: the groups' own, and the cluster's for all others."""
    own = {
        f"failover_max_loss of the node group {group.name}": group.failover_max_loss
        for group in cluster.nodegroups.values()
        if group.failover_max_loss is not None
    }
    if len(own) == len(cluster.nodegroups):
        return own
    limit = cluster.cluster.failover_max_loss
    return {"failover_max_loss": possible_loss.MAX_LOSS if limit is None else limit, **own}
