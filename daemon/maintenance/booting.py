"""Nodes that jobs have powered on: one that has not answered since may be booting, and is not fenced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.plugin_utils.opcodes import node_power
from ..jobs import values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...plugins.module_utils.domain import dead_nodes

BOOT = 600.0
"""Seconds from an on in which a node that has not answered since is not fenced."""


def powered_on(jobs: Iterable[values.Job], *, now: float) -> dict[str, float]:
    """When each node (UUID) that may be booting was powered on by a job for the last time (unix seconds)."""
    recent = [opcode for job in jobs for opcode in job.opcodes if opcode.ended > now - BOOT and opcode.kind == "power"]
    found: dict[str, float] = {}
    for opcode in sorted(recent, key=lambda opcode: opcode.ended):
        if opcode.status is values.Status.SUCCESS and opcode.params["command"] in {"on", "cycle"}:
            found |= dict.fromkeys(node_power.nodes_of(opcode.params), opcode.ended)
    return found


def reason(began: float, silence: dead_nodes.Silence, *, now: float) -> str:
    """That a silent node was powered on (unix seconds, 0 for never), and may be booting; '' where that is not so."""
    passed = now - began
    if silence.answered >= began or not 0 <= passed < BOOT:
        return ""
    return f"it was powered on {passed:.0f} s ago: it has {BOOT:.0f} s to boot before it is fenced"
