"""The page `/ui`: nodes by group with their instances, incidents, and the round at work."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from fastapi.responses import HTMLResponse

from . import troubles, views

if TYPE_CHECKING:
    from ..service import Service
    from .snapshots import Snapshots

TEMPLATE = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
    Path(__file__).resolve().with_name("page.html").read_text(encoding="utf-8")
)


def state(service: Service, snapshots: Snapshots) -> dict[str, Any]:
    """Everything that the page shows, in one answer."""
    seen = snapshots.newest()
    cluster = seen.cluster
    maintenance, copies = cluster.maintenance, service.copying.listed()
    return {
        "cluster": cluster.cluster.cluster_name,
        "master": cluster.node_name(cluster.cluster.master_node),
        "paused": service.read_only.reason or views.paused(cluster),
        "failing": service.failures.listed(),
        "troubles": [
            dataclasses.asdict(trouble)
            for trouble in troubles.found(
                seen, service.intake, service.queue, verdicts=service.dead.verdicts, copies=copies
            )
        ],
        "nodes": views.nodes(seen, service.intake),
        "instances": views.instances(snapshots, service.intake),
        "incidents": views.status(cluster),
        # As text too, because a browser would round the numbers in the nodes' own words.
        "originals": {incident.uuid: incident.original for incident in maintenance.incidents},
        "round": maintenance.round,
        "at_work": service.rounds.is_at_work,
        "jobs": [
            views.public_job(service.queue.jobs[number]) for number in maintenance.jobs if number in service.queue.jobs
        ],
        "refusals": views.plan(cluster, service.rounds.preview(), is_at_work=False)["refusals"],
        "rejected": dict(service.intake.rejections),
        "copies": copies,
        "poll_problem": service.poll.problem or None,
    }


def answer(service: Service) -> HTMLResponse:
    """Serve the page; what changes it fetches from `/1/page`, and it loads nothing from anywhere else."""
    nonce = secrets.token_urlsafe(18)
    html = TEMPLATE.render(cluster=service.configuration.current.cluster.cluster_name, nonce=nonce)
    return HTMLResponse(html, headers=_headers(nonce))


def _headers(nonce: str) -> dict[str, str]:
    policy = {
        "default-src": "'none'",
        "script-src": f"'nonce-{nonce}'",
        "style-src": f"'nonce-{nonce}'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
