"""Asking a node how it is, by a command that it allows."""

from __future__ import annotations

from . import node_settings, whitelist
from .domain import diagnosis, errors, reports


def observe(settings: node_settings.Settings, *, command: str) -> reports.Outcome:
    """Run the diagnose command; whatever keeps it from a diagnosis is a problem, and never `Ok`.

    The empty name stands for the built-in diagnosis, which always says `Ok` (seed 000).
    """
    if not command:
        return diagnosis.OK
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
