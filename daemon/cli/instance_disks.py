"""`roundsman instance activate-disks`, `deactivate-disks`, `verify-`, `repair-`, `recreate-disks` and `reinstall`."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.disks import replica_texts
from . import client, completion, jobs, output, parameters, questions

Name = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="The instance's name.", autocompletion=completion.instances)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def install(app: typer.Typer) -> None:
    """Add the commands of the disks to `roundsman instance`."""
    app.command("activate-disks", epilog="Example: roundsman instance activate-disks web1")(activate)
    app.command("deactivate-disks", epilog="Example: roundsman instance deactivate-disks web1")(deactivate)
    app.command("verify-disks", epilog="Example: roundsman instance verify-disks web1")(verify)
    app.command("repair-disks", epilog="Example: roundsman instance repair-disks web1")(repair)
    app.command("recreate-disks", epilog="Example: roundsman instance recreate-disks web1")(recreate)
    app.command(epilog="Example: roundsman instance reinstall web1 --os-playbook debian.yml")(reinstall)


def activate(ctx: typer.Context, name: Name, *, submit: parameters.Submit = False) -> None:
    """Activate the disks of an instance on its primary node and print their paths; the instance may be down."""
    _put(ctx, name, "activate-disks", submit=submit)


def deactivate(ctx: typer.Context, name: Name, *, submit: parameters.Submit = False) -> None:
    """Deactivate the disks of an instance that is down, on all its nodes."""
    _put(ctx, name, "deactivate-disks", submit=submit)


def verify(ctx: typer.Context, name: Name, *, submit: parameters.Submit = False) -> None:
    """Print the state of an instance's disks on each of its nodes; nothing is changed."""
    _put(ctx, name, "verify-disks", submit=submit)


def repair(
    ctx: typer.Context,
    name: Name,
    *,
    discard: Annotated[
        str,
        typer.Option(
            metavar="NODE",
            help="After a split brain: the node whose writes since then are LOST; snapshots of its volumes are kept if "
            "the volume group has room. Or: the node on which the instance left a replica behind, which is REMOVED. "
            "Asks for confirmation.",
            autocompletion=completion.nodes,
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --discard.")] = False,
    submit: parameters.Submit = False,
) -> None:
    """Repair the DRBD disks of an instance where the repair is certain; the rest is reported and left alone.

    Where both replicas were written since they were last connected, nothing is discarded without --discard.
    """
    if discard:
        questions.confirm(discard_question(ctx, name, discard), yes=yes)
    _put(ctx, name, "repair-disks", submit=submit, body={"discard": discard} if discard else None)


def discard_question(ctx: typer.Context, name: str, node: str, *, starts: bool = False) -> str:
    """What is lost if a node's replica is discarded, as a question; with `starts` for the start of the instance.

    Raises:
        InvalidInput: the node has no replica of the instance, and none was left behind there. Refused: a replacement of
            disks that has not ended makes one there. NotFound: there is no such instance or node.
    """
    with client.find_daemon(ctx) as daemon:
        instances, nodes = daemon.text("1", "instances"), daemon.text("1", "nodes")
    instance = output.selected(instances, name=name, kind="instance").value
    holders = [instance["primary"], *instance["secondaries"]]
    at = output.selected(nodes, name=node, kind="node").value
    if name in at["being_made"]:
        raise errors.Refused(replica_texts.discard_refusal(name, node, instance["secondaries"][0]))
    if name in at["left_behind"] and node not in holders and not starts:
        return f"Remove the replica that {name} left behind on {node}?"
    if node not in holders:
        raise errors.InvalidInput(f"--discard {node}: {node} has no replica of {name}; use {' or '.join(holders)}")
    return f"Discard what only {node} has of the disks of {name}?"


def recreate(ctx: typer.Context, name: Name, *, yes: Yes = False, submit: parameters.Submit = False) -> None:
    """Recreate the disks of an instance that is down, empty, on all its nodes; their data are lost."""
    questions.confirm(f"Recreate the disks of {name} and lose all data on them?", yes=yes)
    with client.find_daemon(ctx) as daemon:
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
    """Install an operating system on the disks of an instance that is down, by a playbook, then start it."""
    if bool(os) is bool(os_playbook):
        raise errors.InvalidInput("--os, --os-playbook: give one of them")
    questions.confirm(f"Reinstall {name} and overwrite all data on its disks?", yes=yes)
    named = {"os": os} if os_playbook is None else {"os_playbook": str(os_playbook.resolve())}
    with client.find_daemon(ctx) as daemon:
        body = {**named, "start": not no_start}
        jobs.submitted(daemon, daemon.send("POST", "2", "instances", name, "reinstall", body=body), submit=submit)


def _put(ctx: typer.Context, name: str, verb: str, *, submit: bool, body: dict[str, str] | None = None) -> None:
    with client.find_daemon(ctx) as daemon:
        jobs.submitted(daemon, daemon.put("2", "instances", name, verb, body=body), submit=submit)
