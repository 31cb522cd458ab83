"""Asking a node how it is, by a command that it allows."""

from __future__ import annotations

from . import node_settings, whitelist
from .domain.agent import reports
from .domain.values import errors

NOT_CONFIGURED = "not_configured"
_NO_COMMAND = (
    "no diagnose command is configured; set one with `roundsman cluster modify diagnose_command=NAME`, "
    "and apply the role node_agent where the node has an agent"
)


def observe(settings: node_settings.Settings, *, command: str) -> reports.Outcome:
    """Run the diagnose command; whatever keeps it from a diagnosis is a problem, and never `Ok`.

    Without a command nothing is known of the node's health (seed 000 has `Ok` here; docs/decisions/node-agent.md).
    """
    if not command:
        return reports.problem(NOT_CONFIGURED, text=_NO_COMMAND)
    try:
        done = whitelist.execute(
            settings.diagnose_commands,
            command,
            owner=settings.owner,
            lock_path=settings.diagnose_lock,
            stdin=b"",
            time_limit=settings.diagnose_time_limit,
        )
    except (errors.CommandRefused, errors.CommandFailed) as e:
        return reports.problem(e.reason, text=str(e))
    return reports.outcome(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)
