"""How old what is known of a node may be: beyond that its health is unknown, whatever its last report says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cluster.maintenance_settings import Settings

COUNTED_CYCLES = 3
"""A report may be this many polls old: two may fail."""
AGENT_INTERVAL = 60.0
"""Seconds between two diagnoses of an agent, by default; its report does not change in between."""
SECONDS_PER_NODE = 0.5
"""What a poll by a run of Ansible takes for each node."""
MARGIN = 60.0
UNPOLLED = 3600.0
"""The limit where nobody is polled and reports come by themselves, in seconds."""
CLOCK_SLACK = 5.0


def limit(settings: Settings, *, nodes: int) -> float:
    """Seconds after its acceptance for which a report counts, in a cluster of so many nodes."""
    if not settings.diagnose_interval:
        return UNPOLLED
    return COUNTED_CYCLES * cycle(settings, nodes=nodes) + MARGIN


def cycle(settings: Settings, *, nodes: int) -> float:
    """Seconds between two reports of a node, in a cluster of so many; where nobody is polled, those of an agent."""
    interval = settings.diagnose_interval
    if settings.agent_port or not interval:
        return max(interval, AGENT_INTERVAL)
    return interval + nodes * SECONDS_PER_NODE


def is_current(accepted: float, *, now: float, limit: float) -> bool:
    """Whether a report that was accepted at a unix time still counts; one from the future has no known age."""
    return -CLOCK_SLACK <= now - accepted <= limit
