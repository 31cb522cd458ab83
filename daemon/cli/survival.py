"""`roundsman n1`: which failures of nodes the cluster survives."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.plugin_utils.placement.htools import n_plus_1 as rules
from . import completion, output, planned, plans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...plugins.plugin_utils.placement.models import model

Fail = Annotated[
    list[str] | None,
    typer.Option(
        "--fail",
        metavar="NODE",
        help="Say what happens if this node, or these at once, fail.",
        autocompletion=completion.nodes,
    ),
]


def n1(
    ctx: typer.Context,
    *,
    fail: Fail = None,
    text: planned.Text = None,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Show which failure of a single node loses instances, and what is missing; exit status 1 if any does.

    With --fail it is what happens to each instance of the nodes that fail, and status 1 if any does not start again;
    as commands that is how they start again, where there is nothing to run it is a comment.
    """
    cluster = planned.cluster(ctx, text)
    found = (rules.what_if(cluster, failed=fail),) if fail else rules.not_survived(cluster)
    if form is planned.Format.JSON:
        output.as_json(json.dumps([_told(one) for one in found]))
    elif form is planned.Format.COMMANDS:
        _commands(cluster, found, is_asked=bool(fail), is_text=text is not None)
    elif fail:
        _what_if(found[0])
    else:
        _not_survived(found)
    if any(one.lost for one in found):
        raise typer.Exit(1)


def _told(one: rules.Failure) -> dict[str, Any]:
    return {
        "nodes": list(one.nodes),
        "instances": [
            {
                "instance": each.instance,
                "fate": each.fate.value,
                "memory": each.memory,
                "node": each.node or None,
                "text": each.text,
            }
            for each in one.outcomes
        ],
        "shortages": [
            {"node": each.node, "needed": each.needed, "free": each.free, "missing": each.missing}
            for each in one.shortages
        ],
    }


def _what_if(one: rules.Failure) -> None:
    output.table(
        ("INSTANCE", "FATE", "WHAT HAPPENS"),
        [(each.instance, each.fate.value, each.text) for each in one.outcomes],
        empty=f"Nothing has {' or '.join(one.nodes)}: nothing happens.",
    )
    _short(one.shortages)


def _not_survived(found: Iterable[rules.Failure]) -> None:
    rows = [
        (
            one.nodes[0],
            len(one.lost),
            "; ".join(f"{each.node} lacks {each.missing} MiB" for each in one.shortages) or "-",
            ", ".join(f"{each.instance} {each.text}" for each in one.lost),
        )
        for one in found
    ]
    headers = ("IF IT FAILS", "LOST", "MISSING", "INSTANCES")
    output.table(headers, rows, empty="Every instance survives the failure of any one node.")


def _short(shortages: Iterable[rules.Shortage]) -> None:
    for one in shortages:
        output.alarm(f"{one.node} lacks {one.missing} MiB: {one.needed} MiB would start there, {one.free} MiB are free")


def _commands(cluster: model.Model, found: Iterable[rules.Failure], *, is_asked: bool, is_text: bool) -> None:
    command = plans.of_ganeti if is_text else plans.of_ours
    pairs = {one.name for one in cluster.instances if one.template.is_mirrored}
    for one in found:
        output.line(f"# if {' and '.join(one.nodes)} {'fail' if len(one.nodes) > 1 else 'fails'}")
        for each in one.outcomes if is_asked else one.lost:
            if each.fate is rules.Fate.STARTS:
                step = {"kind": "failover", "instance": each.instance, "target": each.node}
                output.line(shlex.join(command(step, is_pair=each.instance in pairs)))
            else:
                output.line(f"# {each.instance} {each.text}")
