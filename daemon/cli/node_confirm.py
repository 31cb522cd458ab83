"""`roundsman node confirm-off`: a person's word that a node has no power, where no BMC can give it."""

from __future__ import annotations

from typing import Annotated

import typer

from . import client, completion, jobs, questions

Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.", autocompletion=completion.nodes)]


def confirm_off(
    ctx: typer.Context,
    name: Name,
    *,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the statement back: the node may have power again.")
    ] = False,
    confirm: Annotated[str, typer.Option(metavar="NODE", help="The node's name again, instead of typing it.")] = "",
    submit: Annotated[
        bool, typer.Option("--submit", help="Print the job's number and do not wait for its end.")
    ] = False,
) -> None:
    """State that you have seen that a node has no power and keeps none, which its BMC cannot say.

    Its instances may be started elsewhere then: should it run after all, they run twice and their disks are lost.
    The statement ends when the node is powered on from here, when it reports or shows any other sign of life, or when
    it is taken back with --undo.
    """
    if not undo and confirm != name:
        question = f"Have you seen that {name} has no power, and will it stay so? Type its name:"
        questions.typed(name, question=question, instead=f"--confirm {name}")
    with client.find_daemon(ctx) as daemon:
        job = daemon.put("2", "nodes", name, "confirm-off", undo=int(undo))
        jobs.submitted(daemon, job, submit=submit)
