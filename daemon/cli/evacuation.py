"""`roundsman evacuate`: what is on nodes leaves them."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from ...plugins.plugin_utils.placement.allocation import allocator
from ...plugins.plugin_utils.rounds import departures
from . import client, completion, durations, output, parameters, planned, plans, questions

Names = Annotated[list[str], typer.Argument(metavar="NODE…", help="The nodes' names.", autocompletion=completion.nodes)]
Mode = Annotated[
    allocator.Scope,
    typer.Option("--mode", help="Only what runs there, only the replicas that are kept for others, or all."),
]


def evacuate(
    ctx: typer.Context,
    names: Names,
    *,
    mode: Mode = allocator.Scope.ALL,
    failover: planned.Failover = False,
    max_loss: durations.MaxLoss = None,
    ignore_consistency: parameters.IgnoreConsistency = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --ignore-consistency.")] = False,
    plan: planned.OnlyPlan = False,
    text: planned.Text = None,
    save: planned.Save = None,
    submit: planned.Submit = False,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Move instances off nodes, several as one plan; exit status 1 if any cannot move.

    Instances that cannot move stay where they are; the reason and the remedy are printed. With --plan, --save or --text
    nothing is moved. Nodes are not drained by this: `roundsman node drain` keeps new instances away.
    """
    if ignore_consistency and not failover:
        raise typer.BadParameter("--ignore-consistency is for failovers: give --failover, too")
    if max_loss is not None and not failover:
        raise typer.BadParameter("--max-loss is for failovers: give --failover, too")
    asked = planned.asked(plan=plan, text=text, save=save, submit=submit, form=form)
    source = planned.source(ctx, text)
    departure = departures.of_nodes(source.cluster, names, scope=mode, failover=failover)
    words = [*names, *([] if mode is allocator.Scope.ALL else ["--mode", mode.value])]
    options = {"--failover": failover, "--ignore-consistency": ignore_consistency}
    if max_loss is not None:
        options[f"--max-loss={max_loss}s"] = True
    command = source.command("evacuate", *words, *(name for name, is_given in options.items() if is_given))
    if failover and text is None:
        _print_losses(ctx, names)
    if ignore_consistency and asked.runs:
        questions.confirm(questions.STALE_RISK.format(f"the instances of {', '.join(names)}"), yes=yes)
    plans.depart(
        ctx,
        source,
        departure,
        command=command,
        failover=failover,
        ignore_consistency=ignore_consistency,
        max_loss=max_loss,
        asked=asked,
    )


def _print_losses(ctx: typer.Context, nodes: list[str]) -> None:
    """Print what a failover from nodes that cannot be asked may lose, of each of their instances.

    Without the daemon nobody knows; it is needed to run a plan, and not to show one.
    """
    known = []
    with contextlib.suppress(client.NoDaemon), client.find_daemon(ctx) as daemon:
        known = [verdict for node in nodes for verdict in daemon.get("1", "explain", node)["failovers"]]
    for verdict in known:
        text = verdict["reason"] or verdict["loss"]
        if text:
            output.warning(f"roundsman: {verdict['instance']}: {text}")
