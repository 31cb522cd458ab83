"""`roundsman balance`: which instances to move so that the nodes are evenly used."""

from __future__ import annotations

import json
import math
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...plugins.module_utils.domain import errors
from . import output, planned

if TYPE_CHECKING:
    from ...plugins.plugin_utils.planning.balancing import balancing, plans
    from ...plugins.plugin_utils.planning.models import model

LikeHbal = Annotated[bool, typer.Option("--like-hbal", help="Make the choices of Ganeti's hbal, move for move.")]
MaxMoves = Annotated[
    int | None, typer.Option("--max-moves", min=0, metavar="N", help="Move no more instances; 0 only tells the score.")
]
Price = Annotated[
    float | None,
    typer.Option(
        "--price", min=0, metavar="SCORE", help="What a GiB may cost, as score times nodes: 0 copies all that helps."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same plan.")]
Group = Annotated[
    str, typer.Option("--group", "-g", metavar="GROUP", help="The node group; needed where there are several.")
]


def balance(
    ctx: typer.Context,
    *,
    text: planned.Text = None,
    group: Group = "",
    like_hbal: LikeHbal = False,
    max_moves: MaxMoves = None,
    price: Price = None,
    seed: Seed = 1,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Plan how instances move so that nodes are evenly used, in an order in which each step has its room.

    Nothing is moved. The score is Ganeti's, less is better; moves that share no node may run side by side.
    """
    from ...plugins.plugin_utils.planning.balancing import balancing  # noqa: PLC0415 - NumPy, for those who need it
    from ...plugins.plugin_utils.planning.score import state  # noqa: PLC0415 - NumPy, for those who need it

    cluster = planned.cluster(ctx, text)
    name = _group(cluster, group)
    options = balancing.Options(max_moves=max_moves, seed=seed, price=balancing.PRICE if price is None else price)
    searched = state.of(cluster)
    if like_hbal:
        found = balancing.like_hbal(searched, group=name, options=options)
    else:
        found = balancing.balance(searched, group=name, options=options, told=_progress)
    show = {planned.Format.TABLE: _table, planned.Format.JSON: _json, planned.Format.COMMANDS: _commands}
    show[form](found)


def _group(cluster: model.Model, wanted: str) -> str | None:
    names = [one.name for one in cluster.groups]
    if wanted and wanted not in names:
        raise errors.NotFound(f"there is no node group {wanted!r}")
    if not wanted and len(names) > 1:
        raise errors.InvalidInput(f"say with --group which one is balanced: {', '.join(names)}")
    return wanted or None


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        output.warning(line)


def _scores(found: balancing.Balance) -> tuple[float, float]:
    from ...plugins.plugin_utils.planning.score import oracle  # noqa: PLC0415 - as above

    return oracle.total(found.before), oracle.total(found.after)


def _table(found: balancing.Balance) -> None:
    before, after = _scores(found)
    rows = [
        (number, move.instance, f"{move.primary}:{move.secondary}".rstrip(":"), move.action, f"{move.mib / 1024:.1f}")
        for number, move in enumerate(found.plan.moves, start=1)
    ]
    output.table(("", "INSTANCE", "NODES THEN", "ACTION", "GIB"), rows, empty="No move makes it better.")
    output.line(f"Score {before:.8f} -> {after:.8f}")
    if rows:
        plan = found.plan
        hours, minutes = divmod(math.ceil(plan.seconds / 60), 60)
        output.line(f"Moves: {len(rows)}, one after the other at most {len(plan.waves)}")
        output.line(f"Data to copy: {plan.data_gib:.1f} GiB, expected to take {hours} h {minutes:02d} min")
    for name, why in found.plan.kept:
        output.line(f"{name} stays: {why}")


def _json(found: balancing.Balance) -> None:
    before, after = _scores(found)
    told = {
        "initial_score": before,
        "final_score": after,
        "components": {"initial": found.before, "final": found.after},
        "moves": [_move(move) for move in found.plan.moves],
        "data_gib": found.plan.data_gib,
        "waves": found.plan.waves,
        "seconds": found.plan.seconds,
        "kept": [{"instance": name, "text": why} for name, why in found.plan.kept],
    }
    output.as_json(json.dumps(told))


def _move(move: plans.Move) -> dict[str, Any]:
    return {
        "instance": move.instance,
        "action": move.action,
        "primary": move.primary,
        "secondary": move.secondary or None,
        "data_gib": move.mib / 1024,
        "wave": move.wave,
        "after": list(move.after),
    }


def _commands(found: balancing.Balance) -> None:
    waves = found.plan.waves
    for number in range(len(waves)):
        output.line(f"# wave {number + 1} of {len(waves)}: these may run side by side")
        for move in (move for move in found.plan.moves if move.wave == number):
            for step in move.steps:
                output.line(shlex.join(_command(move.instance, step)))


def _command(instance: str, step: plans.Step) -> list[str]:
    kind, _, node = step.action.partition(":")
    if kind == "r":
        return ["gnt-instance", "replace-disks", "-n", node, instance]
    return ["gnt-instance", "migrate", "-f", *(["-n", node] if node else []), instance]
