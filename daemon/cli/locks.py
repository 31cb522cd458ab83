"""`roundsman locks`: who holds what, and who waits for whom."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from . import client, output, wording

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(help="Locks: their holders and waiters.", no_args_is_help=True)
NOTHING = "No lock is held."


@app.command("list", epilog="Example: roundsman locks list")
def list_(ctx: typer.Context, *, form: output.Option = output.Format.TABLE) -> None:
    """List the locks that somebody holds or waits for, since when and for what purpose."""
    with client.find_daemon(ctx) as daemon:
        if form is output.Format.JSON:
            output.as_json(daemon.text("2", "locks"))
            return
        found = daemon.get("2", "locks")
    output.table(("Lock", "", "Who", "Mode", "For", "Since", "Behind"), _rows(found, now=time.time()), empty=NOTHING)


def _rows(found: list[dict[str, Any]], *, now: float) -> Iterator[tuple[str, ...]]:
    for lock in found:
        name = lock["name"]
        held = [("held", holder) for holder in lock["owners"]]
        waiting = [("waits", waiter) for waiter in lock["waiting"]]
        for state, who in held + waiting:
            since = f"{wording.age(who['since'], now=now)} ago"
            yield name, state, who["owner"], who["mode"], who["purpose"], since, ", ".join(who.get("behind", []))
