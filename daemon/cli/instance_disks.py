"""`roundsman instance activate-disks`, `deactivate-disks`, `verify-`, `repair-`, `recreate-disks` and `reinstall`."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from ...plugins.module_utils.domain import errors
from . import client, completion, jobs, parameters, questions

Name = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="The instance's name.", autocompletion=completion.instances)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def install(app: typer.Typer) -> None:
    """Give the instances the commands of their disks."""
    app.command("activate-disks", epilog="Example: roundsman instance activate-disks web1")(activate)
    app.command("deactivate-disks", epilog="Example: roundsman instance deactivate-disks web1")(deactivate)
    app.command("verify-disks", epilog="Example: roundsman instance verify-disks web1")(verify)
    app.command("repair-disks", epilog="Example: roundsman instance repair-disks web1")(repair)
    app.command("recreate-disks", epilog="Example: roundsman instance recreate-disks web1")(recreate)
    app.command(epilog="Example: roundsman instance reinstall web1 --os-playbook debian.yml")(reinstall)


def activate(ctx: typer.Context, name: Name, *, submit: parameters.Submit = False) -> None:
    """Have the primary of an instance able to write its disks, and print their paths; the instance may be down."""
    _put(ctx, name, "activate-disks", submit=submit)


def deactivate(ctx: typer.Context, name: Name, *, submit: parameters.Submit = False) -> None:
    """Have no node able to write the disks of an instance that is down."""
    _put(ctx, name, "deactivate-disks", submit=submit)


def verify(ctx: typer.Context, name: Name, *, submit: parameters.Submit = False) -> None:
    """Tell how the disks of an instance are on each of its nodes; nothing is changed."""
    _put(ctx, name, "verify-disks", submit=submit)


def repair(
    ctx: typer.Context,
    name: Name,
    *,
    discard: Annotated[
        str,
        typer.Option(
            metavar="NODE",
            help="After a split brain: the node whose writes since are LOST; its volumes are snapshotted first where "
            "their volume group has room. Or the node on which the instance left a replica behind, which is REMOVED. "
            "Asks for confirmation.",
            autocompletion=completion.nodes,
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --discard.")] = False,
    submit: parameters.Submit = False,
) -> None:
    """Repair the DRBD disks of an instance as far as that is without doubt; the rest is reported and left alone.

    Where both replicas were written since they were last connected, nothing is discarded without --discard.
    """
    if discard:
        questions.confirm(f"Discard what only {discard} has of the disks of {name}?", yes=yes)
    _put(ctx, name, "repair-disks", submit=submit, body={"discard": discard} if discard else None)


def recreate(ctx: typer.Context, name: Name, *, yes: Yes = False, submit: parameters.Submit = False) -> None:
    """Make the disks of an instance that is down anew, empty, on all its nodes."""
    questions.confirm(f"Make the disks of {name} anew, and lose all that is on them?", yes=yes)
    with client.of(ctx) as daemon:
        jobs.submitted(daemon, daemon.send("POST", "2", "instances", name, "recreate-disks", body={}), submit=submit)


def reinstall(
    ctx: typer.Context,
    name: Name,
    *,
    os: Annotated[str, typer.Option("--os", "-o", help="A playbook of /etc/roundsman/os, without its .yml.")] = "",
    os_playbook: Annotated[
        Path | None, typer.Option("--os-playbook", metavar="FILE", help="The playbook that installs it.")
    ] = None,
    no_start: Annotated[bool, typer.Option("--no-start", help="Only install it.")] = False,
    yes: Yes = False,
    submit: parameters.Submit = False,
) -> None:
    """Have a playbook install an operating system on the disks of an instance that is down, then start it."""
    if bool(os) is bool(os_playbook):
        raise errors.InvalidInput("--os, --os-playbook: give one of them")
    questions.confirm(f"Install {name} anew, over all that is on its disks?", yes=yes)
    named = {"os": os} if os_playbook is None else {"os_playbook": str(os_playbook.resolve())}
    with client.of(ctx) as daemon:
        body = {**named, "start": not no_start}
        jobs.submitted(daemon, daemon.send("POST", "2", "instances", name, "reinstall", body=body), submit=submit)


def _put(ctx: typer.Context, name: str, verb: str, *, submit: bool, body: dict[str, str] | None = None) -> None:
    with client.of(ctx) as daemon:
        jobs.submitted(daemon, daemon.put("2", "instances", name, verb, body=body), submit=submit)
