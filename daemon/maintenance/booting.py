"""Nodes that were commanded on: one that has not answered since may be booting, and is not fenced.

The record of a node has when it was powered on by a job, by hand, or by the return of an emergency power off. A job
counts also where its BMC has not confirmed it, and so nothing was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.plugin_utils.opcodes import node_power

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...plugins.plugin_utils.silent_nodes import dead_nodes
    from ..jobs import values

BOOT = 600.0
"""Seconds from an on in which a node that has not answered since is not fenced."""


def powered_on(jobs: Iterable[values.Job], *, now: float) -> dict[str, float]:
    """When a job last commanded each node (UUID) on that may be booting (unix seconds): its end, or now while it runs.

    However the job ends: one of many nodes fails for a single BMC that does not answer, and the others boot.
    """
    on = [opcode for job in jobs for opcode in job.opcodes if _commands_on(opcode)]
    dated = sorted(((opcode.ended or now, opcode) for opcode in on), key=lambda entry: entry[0])
    found: dict[str, float] = {}
    for at, opcode in dated:
        if at > now - BOOT:
            found |= dict.fromkeys(node_power.nodes_of(opcode.params), at)
    return found


def _commands_on(opcode: values.Opcode) -> bool:
    is_power = opcode.kind == "power" and opcode.started > 0
    return is_power and opcode.params["command"] in {"on", "cycle"} and not opcode.params.get("check")


def reason(began: float, silence: dead_nodes.Silence, *, now: float) -> str:
    """That a silent node was commanded on (unix seconds, 0 for never), and may be booting; '' where that is not so."""
    passed = now - began
    if silence.answered >= began or not 0 <= passed < BOOT:
        return ""
    return f"it was commanded on {passed:.0f} s ago: it has {BOOT:.0f} s to boot before it is fenced"
