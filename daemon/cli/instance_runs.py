"""`roundsman instance start`, `stop` and `console`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import Annotated, Any

import typer

from ...plugins.module_utils.domain.values import errors
from . import client, completion, instance_disks, jobs, output, parameters, questions

Name = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="The instance's name.", autocompletion=completion.instances)
]


def install(app: typer.Typer) -> None:
    """Give the instances the commands that start and stop them, and show their consoles."""
    app.command(
        epilog="Example: roundsman instance start web1; after a split brain: roundsman instance start web1 --discard "
        "node2"
    )(start)
    app.command(epilog="Example: roundsman instance stop web1")(stop)
    app.command(epilog="Example: roundsman instance console web1 --show-command")(console)


def start(
    ctx: typer.Context,
    name: Name,
    *,
    discard: Annotated[
        str,
        typer.Option(
            metavar="NODE",
            help="Give up the data of this node where they hinder the start, as after a split brain: what only it has "
            "is LOST. The instance starts with the data of its other node. Asks for confirmation.",
            autocompletion=completion.nodes,
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --discard.")] = False,
    submit: parameters.Submit = False,
) -> None:
    """Start an instance on its primary; one that runs already goes on.

    Where both replicas were written since they were last connected, it is not started without --discard.
    """
    if discard:
        questions.confirm(instance_disks.discard_question(ctx, name, discard, starts=True), yes=yes)
    body = {"discard": discard} if discard else {}
    with client.find_daemon(ctx) as daemon:
        jobs.submitted(daemon, daemon.put("2", "instances", name, "startup", body=body), submit=submit)


def stop(
    ctx: typer.Context,
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    submit: parameters.Submit = False,
) -> None:
    """Stop an instance: it is asked to shut down, and ended when it has not within its `shutdown_timeout`."""
    questions.confirm(f"Stop {name}?", yes=yes)
    with client.find_daemon(ctx) as daemon:
        jobs.submitted(daemon, daemon.put("2", "instances", name, "shutdown", body={}), submit=submit)


def console(
    ctx: typer.Context,
    name: Name,
    *,
    show_command: Annotated[
        bool, typer.Option("--show-command", help="Only print the command that would be run.")
    ] = False,
    form: output.Option = output.Format.TABLE,
) -> None:
    """Open the serial console of an instance, through SSH to its node; Ctrl+] leaves it."""
    with client.find_daemon(ctx) as daemon:
        text = daemon.text("2", "instances", name, "console")
    if form is output.Format.JSON:
        output.as_json(text)
        return
    told = json.loads(text)
    if told["kind"] != "ssh":
        raise errors.Refused(str(told["message"]))
    command = _command(told)
    if show_command:
        output.line(shlex.join(command))
        return
    sys.stdout.flush()
    os.execvp(command[0], command)  # noqa: S606 - the terminal is the console's from here on


def _command(told: dict[str, Any]) -> list[str]:
    port = ["-p", str(told["port"])] if told["port"] else []
    user = ["-l", told["user"]] if told["user"] else []
    return ["ssh", "-t", *port, *user, "--", told["host"], shlex.join(told["command"])]
