"""`roundsman rolling`: which nodes may be rebooted at the same time."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.plugin_utils.rounds import reboots
from . import output, planned

if TYPE_CHECKING:
    from ...plugins.plugin_utils.placement.htools import rolling as rules

OfflineMaintenance = Annotated[
    bool, typer.Option("--offline-maintenance", help="Instances are shut down meanwhile, and nothing is moved.")
]
IgnoreNonRedundant = Annotated[
    bool, typer.Option("--ignore-non-redundant", help="Instances without a secondary stay, and stop with their node.")
]
SkipNonRedundant = Annotated[
    bool, typer.Option("--skip-non-redundant", help="Leave out nodes that have instances without a secondary.")
]
Group = Annotated[str, typer.Option("--group", "-g", metavar="GROUP", help="Only the nodes of this node group.")]
Tags = Annotated[
    list[str] | None, typer.Option("--node-tag", metavar="TAG", help="Only nodes with this tag, or one of several.")
]


def rolling(
    ctx: typer.Context,
    *,
    text: planned.Text = None,
    offline_maintenance: OfflineMaintenance = False,
    ignore_non_redundant: IgnoreNonRedundant = False,
    skip_non_redundant: SkipNonRedundant = False,
    group: Group = "",
    node_tag: Tags = None,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Show the fewest steps in which all nodes can be rebooted, no instance losing both of its nodes at once.

    Before its step the instances of a node move to their secondaries. Nodes that are out of service are left out and
    named, and so are those whose reboot would stop an instance: exit status 1 then.
    """
    from ...plugins.plugin_utils.placement.htools import rolling as rules  # noqa: PLC0415 - NumPy, for those who need it

    if ignore_non_redundant and skip_non_redundant:
        raise typer.BadParameter("give --ignore-non-redundant or --skip-non-redundant, not both")
    kind = rules.NonRedundant.SKIP if skip_non_redundant else rules.NonRedundant.MOVE
    kind = rules.NonRedundant.IGNORE if ignore_non_redundant else kind
    source = planned.source(ctx, text)
    left_out = [] if text else reboots.left_out(source.cluster, is_offline=offline_maintenance)
    options = rules.Options(
        offline_maintenance=offline_maintenance,
        non_redundant=kind,
        group=group,
        tags=tuple(node_tag or ()),
        without=frozenset(entry.node for entry in left_out),
    )
    found = rules.plan(source.model, options=options)
    if form is planned.Format.JSON:
        _json(found, left_out)
    else:
        (_table if form is planned.Format.TABLE else _commands)(found)
    for entry in left_out:
        (output.alarm if entry.stops else output.warning)(f"{entry.node} is left out: {entry.text}")
    for refusal in found.refused:
        output.alarm(f"{refusal.node} is left out: {refusal.text}")
    if found.refused or any(entry.stops for entry in left_out):
        raise typer.Exit(1)


def _table(found: rules.Rolling) -> None:
    rows: list[tuple[Any, ...]] = []
    for number, step in enumerate(found.steps, start=1):
        moves = ", ".join(f"{move.instance} to {move.node}" for move in step.moves)
        rows.append((number, " ".join(step.nodes), moves or "-"))
    output.table(("STEP", "NODES", "MOVES BEFORE IT"), rows, empty="No node is in service.")


def _json(found: rules.Rolling, left_out: list[reboots.LeftOut]) -> None:
    told = {
        "groups": [list(step.nodes) for step in found.steps],
        "moves": [[{"instance": move.instance, "node": move.node} for move in step.moves] for step in found.steps],
        "refused": [
            {"node": refusal.node, "instance": refusal.instance, "text": refusal.text} for refusal in found.refused
        ],
        "left_out": [{"node": entry.node, "instance": entry.stops, "text": entry.text} for entry in left_out],
    }
    output.as_json(json.dumps(told))


def _commands(found: rules.Rolling) -> None:
    for number, step in enumerate(found.steps, start=1):
        output.line(f"# step {number} of {len(found.steps)}")
        for move in step.moves:
            output.line(shlex.join(["gnt-instance", "move", "-f", "-n", move.node, move.instance]))
        for node in step.nodes:
            output.line(shlex.join(["gnt-node", "migrate", "-f", node]))
        output.line(f"# now reboot {' '.join(step.nodes)}, and wait until they are back")
