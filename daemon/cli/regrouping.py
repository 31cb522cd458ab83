"""`roundsman group drain` and `roundsman instance change-group`: instances leave their node group for others."""

from __future__ import annotations

from typing import Annotated

import typer

from . import completion, instance_moves, planned, plans

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", autocompletion=completion.groups)]
To = Annotated[
    list[str] | None,
    typer.Option(
        "--to", metavar="GROUP,…", help="The groups to go to; without it any other.", autocompletion=completion.groups
    ),
]
Primary = Annotated[
    str, typer.Option("--primary", metavar="NODE", help="Where it shall run.", autocompletion=completion.nodes)
]
Secondary = Annotated[
    str,
    typer.Option("--secondary", metavar="NODE", help="Where its replica shall be.", autocompletion=completion.nodes),
]


def drain(
    ctx: typer.Context,
    name: Group,
    *,
    to: To = None,
    failover: planned.Failover = False,
    plan: planned.OnlyPlan = False,
    text: planned.Text = None,
    save: planned.Save = None,
    submit: planned.Submit = False,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Move all instances of a node group to others; exit status 1 if any cannot move.

    Instances that cannot move stay where they are; the reason and the remedy are printed. With --plan, --save or --text
    nothing is moved. Groups that are unallocable take nothing; that another group reaches shared storage is for you to
    know. New instances still come, unless its alloc_policy is unallocable.
    """
    from ...plugins.plugin_utils.rounds import regrouping  # noqa: PLC0415 - NumPy, for those who need it

    asked = planned.asked(plan=plan, text=text, save=save, submit=submit, form=form)
    source, targets = planned.source(ctx, text), _names(to)
    found = regrouping.of_group(source.cluster, source.model, name, targets=targets, failover=failover)
    command = source.command("group", "drain", name, *_words(targets, failover=failover))
    plans.depart(ctx, source, found, command=command, failover=failover, asked=asked)


def change_group(
    ctx: typer.Context,
    name: instance_moves.Name,
    *,
    to: To = None,
    primary: Primary = "",
    secondary: Secondary = "",
    failover: planned.Failover = False,
    plan: planned.OnlyPlan = False,
    text: planned.Text = None,
    save: planned.Save = None,
    submit: planned.Submit = False,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Move an instance to another node group, or to nodes of one; bring one that was interrupted to its end.

    With --plan, --save or --text nothing is moved; exit status 1 if it has to stay.
    """
    from ...plugins.plugin_utils.rounds import regrouping  # noqa: PLC0415 - NumPy, for those who need it

    asked = planned.asked(plan=plan, text=text, save=save, submit=submit, form=form)
    source, targets = planned.source(ctx, text), _names(to)
    found = regrouping.of_instance(
        source.cluster,
        source.model,
        name,
        targets=targets,
        primary=primary,
        secondary=secondary,
        failover=failover,
    )
    nodes = [
        word for flag, node in (("--primary", primary), ("--secondary", secondary)) if node for word in (flag, node)
    ]
    command = source.command("instance", "change-group", name, *_words(targets, failover=failover), *nodes)
    plans.depart(ctx, source, found, command=command, failover=failover, asked=asked)


def _names(given: list[str] | None) -> list[str]:
    return [name for part in given or [] for name in part.split(",") if name]


def _words(targets: list[str], *, failover: bool) -> list[str]:
    return [*(["--to", ",".join(targets)] if targets else []), *(["--failover"] if failover else [])]
