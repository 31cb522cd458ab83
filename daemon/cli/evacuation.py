"""`roundsman evacuate`: what is on nodes leaves them."""

from __future__ import annotations

from typing import Annotated

import typer

from ...plugins.plugin_utils.planning import departures
from ...plugins.plugin_utils.planning.allocation import allocator
from . import completion, planned, plans

Names = Annotated[list[str], typer.Argument(metavar="NODE…", help="The nodes' names.", autocompletion=completion.nodes)]
Mode = Annotated[
    allocator.Scope,
    typer.Option("--mode", help="Only what runs there, only the copies that are kept for others, or all."),
]


def evacuate(
    ctx: typer.Context,
    names: Names,
    *,
    mode: Mode = allocator.Scope.ALL,
    failover: planned.Failover = False,
    plan: planned.OnlyPlan = False,
    text: planned.Text = None,
    save: planned.Save = None,
    submit: planned.Submit = False,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Move instances off nodes, several as one plan; what has no way out stays, says why, and is exit status 1.

    With --plan, --save or --text nothing is moved. Nodes are not drained by this: `roundsman node drain` keeps new
    instances away.
    """
    asked = planned.asked(plan=plan, text=text, save=save, submit=submit, form=form)
    source = planned.source(ctx, text)
    departure = departures.of_nodes(source.cluster, names, scope=mode, failover=failover)
    words = [*names, *([] if mode is allocator.Scope.ALL else ["--mode", mode.value])]
    command = source.command("evacuate", *words, *(["--failover"] if failover else []))
    plans.depart(ctx, source, departure, command=command, failover=failover, asked=asked)
