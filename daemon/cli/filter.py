"""`roundsman filter`: the rules that let jobs start, hold them, cancel them or limit them."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from ...plugins.module_utils.domain.values import errors
from . import client, output

app = typer.Typer(help="Filters: rules for which jobs may start.", no_args_is_help=True)

SOURCE = "gnt:client:roundsman"
Uuid = Annotated[str, typer.Argument(metavar="UUID", help="The filter's UUID.")]
Priority = Annotated[int, typer.Option("--priority", min=0, help="The smaller, the earlier it is looked at.")]
Predicates = Annotated[
    str, typer.Option("--predicates", metavar="JSON", help='A list such as \'[["jobid", [">", "id", "watermark"]]]\'.')
]
Action = Annotated[
    str, typer.Option("--action", help="ACCEPT, PAUSE, REJECT, CONTINUE, or RATE_LIMIT with a number: 'RATE_LIMIT 3'.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why it stands.")]


@app.command("list", epilog="Example: roundsman filter list")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the filters in the order in which they are looked at."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("2", "filters", bulk=1))
            return
        found = daemon.get("2", "filters", bulk=1)
    rows = [
        (
            job_filter["uuid"],
            job_filter["watermark"],
            job_filter["priority"],
            json.dumps(job_filter["predicates"]),
            _action(job_filter),
            _why(job_filter),
        )
        for job_filter in found
    ]
    headers = ("FILTER", "WATERMARK", "PRIORITY", "PREDICATES", "ACTION", "BECAUSE")
    output.table(headers, rows, empty="There are no filters.")


@app.command(epilog="Example: roundsman filter info 5c5cf2e0-6f5c-4c34-bd4f-62a1fd0ec5ea")
def info(ctx: typer.Context, uuid: Uuid, *, form: output.Option = output.Format.TABLE) -> None:
    """Show one filter."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("2", "filters", uuid))
            return
        job_filter = daemon.get("2", "filters", uuid)
    output.facts(
        [
            ("Filter", job_filter["uuid"]),
            ("Watermark", job_filter["watermark"]),
            ("Priority", job_filter["priority"]),
            ("Predicates", json.dumps(job_filter["predicates"])),
            ("Action", _action(job_filter)),
            ("Because", _why(job_filter)),
        ]
    )


@app.command(
    epilog='Example: roundsman filter add --action PAUSE --predicates \'[["jobid", [">", "id", "watermark"]]]\''
)
def add(
    ctx: typer.Context,
    *,
    action: Action,
    predicates: Predicates = "[]",
    priority: Priority = 0,
    reason: Reason = "",
) -> None:
    """Add a filter; without predicates it matches every job."""
    body = _body(action, predicates, priority=priority, reason=reason)
    with client.find_daemon(ctx) as daemon:
        output.line(daemon.send("POST", "2", "filters", body=body))


@app.command(epilog="Example: roundsman filter replace 5c5cf2e0-6f5c-4c34-bd4f-62a1fd0ec5ea --action ACCEPT")
def replace(
    ctx: typer.Context,
    uuid: Uuid,
    *,
    action: Action,
    predicates: Predicates = "[]",
    priority: Priority = 0,
    reason: Reason = "",
) -> None:
    """Give a filter other rules; its watermark is then today's."""
    body = _body(action, predicates, priority=priority, reason=reason)
    with client.find_daemon(ctx) as daemon:
        output.line(daemon.put("2", "filters", uuid, body=body))


@app.command(epilog="Example: roundsman filter delete 5c5cf2e0-6f5c-4c34-bd4f-62a1fd0ec5ea")
def delete(ctx: typer.Context, uuid: Uuid) -> None:
    """Delete a filter; the jobs that it held go on."""
    with client.find_daemon(ctx) as daemon:
        daemon.delete("2", "filters", uuid)
    output.line(f"Filter {uuid} is gone.")


def _body(action: str, predicates: str, *, priority: int, reason: str) -> dict[str, Any]:
    name, _, limit = action.partition(" ")
    try:
        wanted = [name, int(limit)] if limit else name
        parsed = json.loads(predicates)
    except ValueError as error:
        raise errors.InvalidInput(f"neither --action nor --predicates may be this: {error}") from error
    trail = [[SOURCE, reason, time.time_ns()]] if reason else []
    return {"priority": priority, "predicates": parsed, "action": wanted, "reason": trail}


def _action(job_filter: dict[str, Any]) -> str:
    action = job_filter["action"]
    return " ".join(map(str, action)) if isinstance(action, list) else str(action)


def _why(job_filter: dict[str, Any]) -> str:
    return "; ".join(text for _, text, _ in job_filter["reason_trail"])
