"""`roundsman queue`: how the job queue stands, and whether it takes jobs."""

from __future__ import annotations

import typer

from . import client, output

app = typer.Typer(help="The job queue: how it stands, and whether it takes jobs.", no_args_is_help=True)


@app.command(epilog="Example: roundsman queue info")
def info(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """Show how many jobs there are, how many work, and what is wrong."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("2", "queue"))
            return
        found = daemon.get("2", "queue")
    slots = found["slots"]
    jobs = ", ".join(f"{count} {status}" for status, count in found["jobs"].items() if count)
    output.facts(
        [
            ("Takes jobs", "no: it is drained" if found["drained"] else "yes"),
            ("Jobs", jobs or "none"),
            ("Held by filters", found["held"]),
            ("Slots", f"{slots['taken']} of {slots['limit']} taken, {slots['awaited']} jobs wait for one"),
            *([("Damaged files", " ".join(map(str, found["damaged"])))] if found["damaged"] else []),
        ]
    )


@app.command(epilog="Example: roundsman queue drain")
def drain(ctx: typer.Context) -> None:
    """Take no jobs from now on; those in the queue go on."""
    with client.find_daemon(ctx) as daemon:
        daemon.put("2", "queue", "drained", body={"drained": True})
    output.line("The queue takes no jobs.")


@app.command(epilog="Example: roundsman queue undrain")
def undrain(ctx: typer.Context) -> None:
    """Take jobs again."""
    with client.find_daemon(ctx) as daemon:
        daemon.put("2", "queue", "drained", body={"drained": False})
    output.line("The queue takes jobs.")
