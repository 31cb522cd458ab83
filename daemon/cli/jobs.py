"""`roundsman jobs`: the job queue, and following one job to its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.rounds import wording as plan_wording
from . import client, completion, output, watching, wording

if TYPE_CHECKING:
    from collections.abc import Iterable

app = typer.Typer(help="Jobs: the work in the queue.", no_args_is_help=True)
Id = Annotated[int, typer.Argument(metavar="ID", help="The job's number.", autocompletion=completion.jobs)]
PRIORITIES = {"low": 10, "normal": 0, "high": -10}
Wanted = Annotated[Literal["low", "normal", "high"], typer.Argument(metavar="PRIORITY", help="low, normal or high.")]
DOORS = {"gnt:client:socket": "local socket", "gnt:client:rapi": "remote API"}
"""By the source of an entry of a reason trail the door through which its user came."""
CANCELED = 3
MOST = 1000
Archived = Annotated[bool, typer.Option("--archived", help="Those of the archive.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST, metavar="N", help="At most N of the archive.")]
Before = Annotated[int | None, typer.Option("--before", min=1, metavar="ID", help="Of the archive, only older ones.")]


@app.command("list", epilog="Example: roundsman jobs list --archived --limit 20")
def list_(
    ctx: typer.Context,
    *,
    archived: Archived = False,
    limit: Limit = 100,
    before: Before = None,
    form: output.Option = output.Format.TABLE,
) -> None:
    """List the jobs of the queue, finished ones too, or the newest of the archive."""
    query: dict[str, int] = {"bulk": 1}
    if archived:
        query |= {"archived": 1, "limit": limit} | ({} if before is None else {"before": before})
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("2", "jobs", **query))
            return
        found = daemon.get("2", "jobs", **query)
    show(found, empty="The archive has no such job." if archived else "The queue is empty.")
    if archived and len(found) == limit:
        output.warning(f"roundsman: older ones are listed with --archived --before {found[0]['id']}")


@app.command(epilog="Example: roundsman jobs info 12")
def info(ctx: typer.Context, job: Id, *, form: output.Option = output.Format.TABLE) -> None:
    """Show one job: its steps, what it waits for, and why it was submitted."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("2", "jobs", job))
            return
        found = daemon.get("2", "jobs", job)
    now = time.time()
    depends = ", ".join(f"{other} ({' or '.join(statuses)})" for other, statuses in found["depends"])
    output.facts(
        [
            ("Job", found["id"]),
            ("Status", found["status"]),
            ("Result", found["text"]),
            ("Priority", found["priority"]),
            ("Submitted", f"{wording.age(found['received'], now=now)} ago"),
            ("After", depends),
            *([("Archived", "yes")] if found.get("archived") else []),
            *(_because(source, text) for source, text, _ in found["reason"]),
        ]
    )
    output.line()
    rows = [
        (plan_wording.opcode(step, found["names"]), step["status"], _took(step, now=now), step["text"])
        for step in found["opcodes"]
    ]
    output.table(("STEP", "STATUS", "TOOK", "RESULT"), rows)


@app.command(epilog="Example: roundsman jobs cancel 12")
def cancel(ctx: typer.Context, job: Id) -> None:
    """Cancel a job: what has not started never starts, what runs is ended."""
    with client.find_daemon(ctx) as daemon:
        done, told = daemon.delete("2", "jobs", job)
    if not done:
        raise errors.Refused(told)
    output.line(f"{told.capitalize()}.")


@app.command(epilog="Example: roundsman jobs priority 12 high")
def priority(ctx: typer.Context, job: Id, wanted: Wanted) -> None:
    """Make a job that is queued or waits more or less urgent."""
    with client.find_daemon(ctx) as daemon:
        found = daemon.put("2", "jobs", job, "priority", body={"priority": PRIORITIES[wanted]})
    output.line(f"Job {found['id']} has priority {found['priority']}.")


@app.command(epilog="Example: roundsman jobs archive 12")
def archive(ctx: typer.Context, job: Id) -> None:
    """Move a job that has ended to the archive; it and its log can still be shown, for as long as it is kept there."""
    with client.find_daemon(ctx) as daemon:
        daemon.put("2", "jobs", job, "archive")
    output.line(f"Job {job} is archived.")


@app.command(epilog="Example: roundsman jobs autoarchive --older-than 3600")
def autoarchive(
    ctx: typer.Context,
    *,
    older_than: Annotated[float, typer.Option("--older-than", metavar="SECONDS", min=0, help="Since its end.")] = 21600,
) -> None:
    """Move all jobs to the archive that ended some time ago."""
    with client.find_daemon(ctx) as daemon:
        found = daemon.put("2", "queue", "archive", body={"older_than": older_than})
    output.line(f"{len(found)} jobs are archived.")


@app.command(epilog="Example: roundsman jobs watch 12")
def watch(ctx: typer.Context, job: Id) -> None:
    """Follow a job until it ends, its tasks as they happen; the exit status is 1 for an error, 3 if it was canceled."""
    with client.find_daemon(ctx) as daemon:
        if watching.show_tasks(daemon, job) == "canceled":
            output.warning(f"roundsman: job {job} was canceled")
            raise typer.Exit(CANCELED)
        follow(daemon, job)


def follow(daemon: client.Daemon, job: int, *, form: output.Format = output.Format.TABLE) -> None:
    """Wait until a job has ended, its progress shown on a terminal; as JSON nothing is shown but the job at its end.

    Raises:
        Failed: the job did not succeed; the text is the job's.
    """
    found = watching.until_ended(daemon, job, quiet=form is output.Format.JSON)
    if form is output.Format.JSON:
        output.as_json(daemon.text("2", "jobs", job))
    if found["status"] != "success":
        raise errors.Failed(f"job {job} ended as {found['status']}" + (f": {found['text']}" if found["text"] else ""))
    if form is output.Format.TABLE:
        _tell_success(found)


def submitted(
    daemon: client.Daemon,
    job: int | dict[str, Any],
    *,
    submit: bool,
    form: output.Format = output.Format.TABLE,
) -> None:
    """Follow a job that was just submitted, of which the daemon told the number or all; or only tell its number."""
    number = job if isinstance(job, int) else job["id"]
    if submit:
        output.line(str(number))
    else:
        follow(daemon, number, form=form)


def show(found: Iterable[dict[str, Any]], *, empty: str) -> None:
    """Print jobs as a table."""
    now = time.time()
    rows = [
        (job["id"], job["status"], wording.steps(job), wording.age(job["received"], now=now), _about(job))
        for job in found
    ]
    output.table(("JOB", "STATUS", "STEPS", "AGE", "WHAT"), rows, empty=empty)


def _because(source: str, text: str) -> tuple[str, str]:
    """An entry of the reason trail: the user who asked and through which door, or why."""
    if source in DOORS:
        return "By", f"{text} ({DOORS[source]})"
    return "Because", f"{text} ({source})"


def _tell_success(found: dict[str, Any]) -> None:
    told = [step["text"] for step in found["opcodes"] if step["text"]]
    head = f"Job {found['id']}: {wording.job(found)}: success"
    lines = [line for text in told for line in text.splitlines()]
    if len(lines) == len(told):
        output.line(head + (f" ({'; '.join(told)})" if told else ""))
        return
    output.line(head)
    for line in lines:
        output.line(f"  {line}")


def _about(job: dict[str, Any]) -> str:
    after = [str(other) for other, _ in job["depends"]]
    told = wording.job(job)
    if after and job["status"] in wording.WAITING:
        told += f" (after {', '.join(after)})"
    return f"{told}: {job['text']}" if job["text"] else told


def _took(step: dict[str, Any], *, now: float) -> str:
    return wording.age(step["started"], now=step["ended"] or now) if step["started"] else "-"
