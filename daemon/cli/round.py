"""`roundsman round`: the rounds that have been, with what was done and what was refused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import client, cluster_status, output, wording

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer(help="Rounds: what maintenance has done, and why.", no_args_is_help=True)
Number = Annotated[int | None, typer.Argument(metavar="NUMBER", help="The round's number (default: the newest).")]
NONE = "No round has been yet."


@app.command("list", epilog="Example: roundsman round list")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the last rounds, the newest first, with how far their jobs are."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "rounds"))
            return
        found, known = daemon.get("1", "rounds"), _statuses(daemon)
    now = time.time()
    rows = [
        (
            entry["round"],
            f"{wording.age(entry['started'], now=now)} ago" if entry["started"] else "-",
            _ended(entry, known),
            len(entry["plan"]["refusals"]) if entry["plan"] else "-",
            entry["problem"] or _what(entry["plan"]),
        )
        for entry in found
    ]
    output.table(("ROUND", "STARTED", "JOBS", "REFUSED", "WHAT"), rows, empty=NONE)


@app.command(epilog="Example: roundsman round info 12")
def info(ctx: typer.Context, number: Number = None, *, form: output.Option = output.Format.TABLE) -> None:
    """Show one round: its jobs in their order, each with its reason, and what was refused."""
    with client.find_daemon(ctx) as daemon:
        if number is None:
            newest = daemon.get("1", "rounds")[:1]
            if not newest:
                output.line(NONE)
                return
            number = newest[0]["round"]
        if form is output.Format.JSON:
            output.as_json(daemon.text("1", "rounds", number))
            return
        found, known = daemon.get("1", "rounds", number), _statuses(daemon)
        nodes = daemon.get("1", "nodes")
    started = found["started"]
    facts = [
        ("Round", found["round"]),
        ("Started", f"{wording.moment(started)} ({wording.age(started, now=time.time())} ago)" if started else "-"),
        ("Jobs", _ended(found, known)),
    ]
    output.facts([*facts, *([("Problem", found["problem"])] if found["problem"] else [])])
    if found["plan"] is None:
        return
    output.line()
    numbers = dict(zip((job["key"] for job in found["plan"]["jobs"]), found["jobs"], strict=False))
    rows = [
        (
            numbers.get(job["key"], "-"),
            known.get(numbers.get(job["key"]), "archived"),
            wording.job(job, found["names"]),
            cluster_status.order(job, numbers),
            job["reason"],
        )
        for job in found["plan"]["jobs"]
    ]
    output.table(("JOB", "STATUS", "WHAT", "AFTER", "WHY"), rows, empty="It has no jobs.")
    cluster_status.ends_and_refusals(found["plan"], nodes=nodes)


def _statuses(daemon: client.Daemon) -> dict[int | None, str]:
    """The statuses of the jobs of the queue, by number."""
    return {job["id"]: job["status"] for job in daemon.get("1", "jobs")}


def _ended(entry: Mapping[str, Any], known: Mapping[int | None, str]) -> str:
    """How many jobs a round has, and how many of them are in which status."""
    statuses = [known.get(number, "archived") for number in entry["jobs"]]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    return f"{len(statuses)}: {counts}" if counts else "0"


def _what(plan: Mapping[str, Any]) -> str:
    """What the jobs of a round are for, each once, without what each job does for that."""
    return "; ".join(dict.fromkeys(job["reason"].partition(": ")[0] for job in plan["jobs"])) or "-"
