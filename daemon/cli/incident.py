"""`roundsman incident`: what nodes asked for, and how far the answer has come."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import client, completion, explanation, jobs, output, wording

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN = 200
"""Characters of what a node reported."""
app = typer.Typer(help="Incidents: what nodes asked for, and how far the answer has come.", no_args_is_help=True)
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The incident's id, or its first characters (at least 4).",
        autocompletion=completion.incidents,
    ),
]


@app.command("list", epilog="Example: roundsman incident list -o json")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List all incidents that are not forgotten."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "status"))
            return
        show(daemon.get("1", "status"), empty="There are no incidents.")


@app.command(epilog="Example: roundsman incident info 3f2a91c0")
def info(ctx: typer.Context, uuid: Id, *, form: output.Option = output.Format.TABLE) -> None:
    """Show one incident: what its node reported, its jobs, what is refused for it, and what you do next."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("2", "incidents", uuid))
            return
        found = daemon.get("2", "incidents", uuid)
        told = daemon.get("1", "explain", found["node_name"])
    now = time.time()
    original = json.dumps(found["original"], ensure_ascii=False)
    whole = f" (the whole: roundsman incident original {wording.short(found['uuid'])})"
    cut = len(original) > SHOWN or found["original_digest"] is not None
    output.facts(
        [
            ("Incident", found["uuid"]),
            ("Node", found["node_name"]),
            ("Asks for", found["action"]),
            ("Status", found["repair-status"]),
            ("Came", f"{wording.moment(found['ctime'])} ({wording.age(found['ctime'], now=now)} ago)"),
            ("Changed", f"{wording.age(found['mtime'], now=now)} ago"),
            ("Reported", f"{original[:SHOWN]}…{whole}" if cut else original),
            *([("Because", found["reason"])] if found["reason"] else []),
            *([("Tag", found["tag"])] if found["tag"] in told["node"]["tags"] else []),
        ]
    )
    output.line()
    known = [job for job in told["jobs"] if job["id"] in found["jobs"]]
    if known:
        jobs.show(known, empty="")
        output.line()
    for line in explanation.incident_sentences(told, found, missing={*found["jobs"]} - {job["id"] for job in known}):
        output.line(line)


@app.command(epilog="Example: roundsman incident original 3f2a91c0")
def original(ctx: typer.Context, uuid: Id) -> None:
    """Print the whole JSON object that the node reported; `incident list` abbreviates one above 4 KiB."""
    with client.find_daemon(ctx) as daemon:
        output.as_json(daemon.text("1", "incidents", uuid, "original"))


@app.command(epilog="Example: roundsman incident cancel 3f2a91c0")
def cancel(ctx: typer.Context, uuid: Id) -> None:
    """Cancel an incident at any time: nothing further is done about it while its node reports the same.

    Its queued jobs are removed, its running jobs finish their current step, and its tag is removed from the node.
    """
    with client.find_daemon(ctx) as daemon:
        done = daemon.put("2", "incidents", uuid, "cancel")
    output.line(f"Incident {wording.short(done['uuid'])} of {done['node_name']} is canceled.")
    for sentence in done["remaining"]:
        output.line(sentence)


@app.command(epilog="Example: roundsman incident ack 3f2a91c0")
def ack(ctx: typer.Context, uuid: Id) -> None:
    """Say that a person has taken care of a completed or failed incident: its tag leaves the node."""
    with client.find_daemon(ctx) as daemon:
        done = daemon.put("2", "incidents", uuid, "ack")
    output.line(f"Incident {wording.short(done['uuid'])} is acknowledged.")


def show(found: Iterable[dict[str, Any]], *, empty: str) -> None:
    """Print incidents as a table."""
    now = time.time()
    rows = [
        (
            wording.short(incident["uuid"]),
            incident["node_name"],
            incident["action"],
            incident["repair-status"],
            wording.age(incident["ctime"], now=now),
            " ".join(str(job) for job in incident["jobs"]),
            incident["reason"],
        )
        for incident in found
    ]
    output.table(("INCIDENT", "NODE", "ASKS FOR", "STATUS", "AGE", "JOBS", "REASON"), rows, empty=empty)
