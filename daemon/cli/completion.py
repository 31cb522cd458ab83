"""What the shell may complete: names and ids, asked from the daemon when it answers."""

from __future__ import annotations

from typing import Any

import typer  # noqa: TC002 - Typer reads the annotations at run time

from ...plugins.module_utils.domain.values import errors
from . import client, wording


def nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the names of nodes."""
    return _starting([str(node["name"]) for node in _asked(ctx, "1", "nodes")], incomplete)


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the names of node groups that have nodes."""
    return _starting(sorted({str(node["group"]) for node in _asked(ctx, "1", "nodes")}), incomplete)


def instances(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the names of instances."""
    return _starting([str(instance["name"]) for instance in _asked(ctx, "1", "instances")], incomplete)


def explained(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the names of nodes and instances."""
    return [*nodes(ctx, incomplete), *instances(ctx, incomplete)]


def jobs(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the ids of jobs, each with what it does."""
    found = [(str(job["id"]), f"{job['status']}: {wording.job(job)}") for job in _asked(ctx, "1", "jobs")]
    return [offer for offer in found if offer[0].startswith(incomplete)]


def incidents(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the ids of incidents, each with its node; short ones unless more is typed."""
    found = [
        (str(incident["uuid"]), f"{incident['node_name']}: {incident['action']}, {incident['repair-status']}")
        for incident in _asked(ctx, "1", "status")
    ]
    is_long = len(incomplete) > wording.SHORT_ID
    return [(uuid if is_long else wording.short(uuid), told) for uuid, told in found if uuid.startswith(incomplete)]


def _asked(ctx: typer.Context, *parts: str) -> list[Any]:
    try:
        with client.find_daemon(ctx) as daemon:
            return list(daemon.get(*parts))
    except (errors.RoundsmanError, OSError):
        return []


def _starting(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
