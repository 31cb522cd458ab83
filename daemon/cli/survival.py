"""`roundsman n1`: which failures of nodes the cluster survives."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.plugin_utils.placement.htools import n_plus_1 as rules
from . import completion, output, planned, plans, wording

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
        output.as_json(json.dumps([_told(failure) for failure in found]))
    elif form is planned.Format.COMMANDS:
        _commands(cluster, found, is_asked=bool(fail), is_text=text is not None)
    elif fail:
        _what_if(found[0])
    else:
        _not_survived(found)
    if any(failure.lost for failure in found):
        raise typer.Exit(1)


def _told(failure: rules.Failure) -> dict[str, Any]:
    return {
        "nodes": list(failure.nodes),
        "instances": [
            {
                "instance": each.instance,
                "fate": each.fate.value,
                "memory": each.memory,
                "node": each.node or None,
                "text": each.text,
            }
            for each in failure.outcomes
        ],
        "shortages": [
            {"node": each.node, "needed": each.needed, "free": each.free, "missing": each.missing}
            for each in failure.shortages
        ],
    }


def _what_if(failure: rules.Failure) -> None:
    output.table(
        ("INSTANCE", "FATE", "WHAT HAPPENS"),
        [(each.instance, each.fate.value, each.text) for each in failure.outcomes],
        empty=f"Nothing has {' or '.join(failure.nodes)}: nothing happens.",
    )
    _short(failure.shortages)


def _not_survived(found: Iterable[rules.Failure]) -> None:
    rows = [
        (
            failure.nodes[0],
            len(failure.lost),
            "; ".join(f"{each.node} lacks {each.missing} MiB" for each in failure.shortages) or "-",
            "; ".join(_by_reason(failure.lost)),
        )
        for failure in found
    ]
    headers = ("IF IT FAILS", "LOST", "MISSING", "INSTANCES")
    output.table(headers, rows, empty="Every instance survives the failure of any one node.")


def _by_reason(lost: Iterable[rules.Outcome]) -> list[str]:
    """What is lost, each reason once with the names of the first instances."""
    names: dict[str, list[str]] = {}
    for each in lost:
        names.setdefault(each.text, []).append(each.instance)
    return [f"{_several(same)} {text if len(same) == 1 else _plural(text)}" for text, same in names.items()]


def _several(names: list[str]) -> str:
    first, more = names[: wording.SHOWN], len(names) - wording.SHOWN
    return f"{', '.join(first)} and {more} more" if more > 0 else wording.enumerated(names)


def _plural(text: str) -> str:
    """A text about one instance as one about several."""
    verbs = {"has ": "have ", "is ": "are "}
    begun = next((verb for verb in verbs if text.startswith(verb)), "")
    return (verbs.get(begun, "") + text.removeprefix(begun)).replace(": its disks", ": their disks")


def _short(shortages: Iterable[rules.Shortage]) -> None:
    for shortage in shortages:
        output.alarm(
            f"{shortage.node} lacks {shortage.missing} MiB: {shortage.needed} MiB would start there, "
            f"{shortage.free} MiB are free"
        )


def _commands(cluster: model.Model, found: Iterable[rules.Failure], *, is_asked: bool, is_text: bool) -> None:
    command = plans.of_ganeti if is_text else plans.of_ours
    pairs = {instance.name for instance in cluster.instances if instance.template.is_mirrored}
    for failure in found:
        output.line(f"# if {' and '.join(failure.nodes)} {'fail' if len(failure.nodes) > 1 else 'fails'}")
        for each in failure.outcomes if is_asked else failure.lost:
            if each.fate is rules.Fate.STARTS:
                step = {"kind": "failover", "instance": each.instance, "target": each.node}
                output.line(shlex.join(command(step, is_pair=each.instance in pairs)))
            else:
                output.line(f"# {each.instance} {each.text}")
