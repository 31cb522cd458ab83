"""`roundsman instance migrate`, `failover` and `replace-disks`: one instance moves, or its secondary replica does."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from . import client, completion, durations, jobs, output, parameters, questions

if TYPE_CHECKING:
    from collections.abc import Mapping

Name = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="The instance's name.", autocompletion=completion.instances)
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="NODE",
        help="The node to go to; without it the planner chooses.",
        autocompletion=completion.nodes,
    ),
]

NewSecondary = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="NODE",
        help="The node of the new replica; without it the planner chooses. It may be the secondary itself: its "
        "replica is removed first, and a new one is created there.",
        autocompletion=completion.nodes,
    ),
]


def install(app: typer.Typer) -> None:
    """Give the instances their moves."""
    app.command(epilog="Example: roundsman instance migrate instance3")(migrate)
    app.command(epilog="Example: roundsman instance failover instance3")(failover)
    app.command("replace-disks", epilog="Example: roundsman instance replace-disks instance3 --to node4")(replace_disks)


def migrate(ctx: typer.Context, name: Name, *, to: To = "", submit: parameters.Submit = False) -> None:
    """Move an instance to its secondary replica, or on shared storage to another node, while it runs."""
    _move(ctx, name, "migrate", to=to, submit=submit)


def failover(
    ctx: typer.Context,
    name: Name,
    *,
    to: To = "",
    max_loss: durations.MaxLoss = None,
    ignore_consistency: parameters.IgnoreConsistency = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --ignore-consistency.")] = False,
    submit: parameters.Submit = False,
) -> None:
    """Stop an instance and start it on its secondary, or on shared storage on another node.

    It is refused, and the instance is not stopped, unless the secondary's replica is known to be in sync. If the
    primary's node cannot be asked, the possible loss of writes is printed, and must be within --max-loss.
    """
    _warn_of_loss(ctx, name)
    if ignore_consistency:
        questions.confirm(questions.STALE_RISK.format(name), yes=yes)
    given = {"ignore_consistency": ignore_consistency or None, "max_loss": max_loss}
    _move(ctx, name, "failover", to=to, submit=submit, given=given)


def replace_disks(ctx: typer.Context, name: Name, *, to: NewSecondary = "", submit: parameters.Submit = False) -> None:
    """Give an instance a new secondary, or its secondary a new replica.

    On another node the old replica is removed last, once the new one is in sync; on the secondary itself, first.
    """
    body = {"mode": "replace_new_secondary", **({"remote_node": to} if to else {})}
    with client.find_daemon(ctx) as daemon:
        job = daemon.send("POST", "2", "instances", name, "replace-disks", body=body)
        jobs.submitted(daemon, job, submit=submit)


def _warn_of_loss(ctx: typer.Context, name: str) -> None:
    """Print what is known against the secondary's replica, and the possible loss, before it is accepted."""
    with client.find_daemon(ctx) as daemon:
        told = daemon.get("1", "explain", name)
    failover, parted = told["failover"], told["parted"]
    against = [failover["reason"], failover["loss"]] if failover is not None else []
    known = [text for text in (*against, parted and parted["text"], told["being_made"]) if text]
    if known:
        output.warning(f"roundsman: {'; '.join(known)}")


def _move(
    ctx: typer.Context,
    name: str,
    kind: str,
    *,
    to: str,
    submit: bool,
    given: Mapping[str, object] = MappingProxyType({}),
) -> None:
    body = {"target_node": to or None, **given}
    body = {field: value for field, value in body.items() if value is not None}
    with client.find_daemon(ctx) as daemon:
        job = daemon.put("2", "instances", name, kind, body=body)
        jobs.submitted(daemon, job, submit=submit)
