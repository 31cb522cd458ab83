"""`roundsman balance`: which instances to move so that the nodes are evenly used."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.rounds import rebalancing
from . import balance_options as options_of
from . import client, output, planned, plans

if TYPE_CHECKING:
    from ...plugins.plugin_utils.placement.balancing import balancing as rules
    from ...plugins.plugin_utils.placement.models import model

LikeHbal = Annotated[bool, typer.Option("--like-hbal", help="Make the choices of Ganeti's hbal, move for move.")]
MaxMoves = Annotated[
    int | None, typer.Option("--max-moves", min=0, metavar="N", help="Move no more instances; 0 only prints the score.")
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
    no_disk_moves: options_of.NoDiskMoves = False,
    no_instance_moves: options_of.NoInstanceMoves = False,
    evacuate_offline: options_of.EvacuateOffline = False,
    select: options_of.Select = None,
    exclude: options_of.Exclude = None,
    min_gain: options_of.MinGain = None,
    min_score: options_of.MinScore = None,
    offline: options_of.Offline = None,
    dynamic_load: options_of.DynamicLoad = None,
    ignore_dynamic_load: options_of.IgnoreDynamicLoad = False,
    save: planned.Save = None,
    submit: planned.Submit = False,
    form: planned.Output = planned.Format.TABLE,
) -> None:
    """Plan how instances move so that nodes are evenly used, in an order in which each step has its room.

    Nothing is moved without --submit. The score is Ganeti's, less is better; moves that share no node may run side by
    side.
    """
    from ...plugins.plugin_utils.placement.balancing import balancing  # noqa: PLC0415 - NumPy, for those who need it
    from ...plugins.plugin_utils.placement.score import compared, state  # noqa: PLC0415 - NumPy, for those who need it

    asked = planned.asked(plan=not submit, text=text, save=save, submit=submit, form=form)
    wanted = options_of.Wanted(
        disk_moves=not no_disk_moves,
        instance_moves=not no_instance_moves,
        only_offline=evacuate_offline,
        select=tuple(select or ()),
        exclude=tuple(exclude or ()),
        min_gain=min_gain,
        min_score=min_score,
        offline=tuple(offline or ()),
        load=dynamic_load,
        ignore_load=ignore_dynamic_load,
    )
    source = planned.source(ctx, text)
    name = _group(source.model, group)
    options = balancing.Options(max_moves=max_moves, seed=seed, price=balancing.PRICE if price is None else price)
    options = wanted.options(options)
    paired = _paired(source, name) if wanted.disk_moves else []
    allowed = replace(options.allowed, kept=options.allowed.kept | source.fixed, paired=frozenset(paired))
    options = replace(options, allowed=allowed)
    searched = state.build(wanted.cluster(_measured(ctx, source, wanted)))
    if like_hbal:
        found = balancing.like_hbal(searched, group=name, options=options)
    else:
        found = balancing.balance(searched, group=name, without=source.troubled, options=options, told=_progress)
    scores = compared.Scores(found.before, found.after)
    command = source.command(
        "balance", *_words(options, group=group, like_hbal=like_hbal, price=price), *wanted.words()
    )
    notes = (rebalancing.paired_text(paired),) if paired else ()
    made = planned.document(source, replace(found.schedule.plan, notes=notes), scores, command=command)
    plans.carry_out(ctx, made, asked=asked, empty="No move makes it better.")


def _paired(source: planned.Source, group: str | None) -> list[str]:
    """The instances (names) of a group, or of all, whose replicas stay because their disks were adopted."""
    cluster = source.cluster
    groups = {
        instance.name: cluster.nodegroups[cluster.nodes[instance.primary_node].group].name
        for instance in cluster.instances.values()
    }
    return [name for name in rebalancing.paired(cluster) if group in {None, groups[name]}]


def _measured(ctx: typer.Context, source: planned.Source, wanted: options_of.Wanted) -> model.Model:
    """The cluster with the loads that its nodes have told the daemon, where balancing is to count them."""
    from ...plugins.plugin_utils.placement.models import dynamic_load  # noqa: PLC0415 - for those who need it
    from ...plugins.plugin_utils.rounds import measured  # noqa: PLC0415 - for those who need it

    settings = source.cluster.maintenance.settings
    if source.text is not None or wanted.load is not None or wanted.ignore_load or not settings.balance_dynamic_load:
        return source.model
    try:
        with client.find_daemon(ctx) as daemon:
            nodes = daemon.get("1", "nodes")
    except client.NoDaemon as absent:
        output.warning(f"What instances use is not counted: {absent}")
        return source.model
    loads = {node["uuid"]: node["agent"]["load"]["cpus"] for node in nodes if node["agent"] and node["agent"]["load"]}
    silent = measured.missing(source.cluster, loads)
    if silent:
        output.warning(f"{measured.told(silent)}.")
        return source.model
    return dynamic_load.loaded(source.model, measured.loads(source.cluster, loads))


def _words(options: rules.Options, *, group: str, like_hbal: bool, price: float | None) -> list[str]:
    return [
        *(["--group", group] if group else []),
        *(["--like-hbal"] if like_hbal else []),
        *([] if options.max_moves is None else ["--max-moves", str(options.max_moves)]),
        *([] if price is None else ["--price", str(price)]),
        *([] if options.seed == 1 else ["--seed", str(options.seed)]),
    ]


def _group(cluster: model.Model, wanted: str) -> str | None:
    names = [group.name for group in cluster.groups]
    if wanted and wanted not in names:
        raise errors.NotFound(f"there is no node group {wanted!r}")
    if not wanted and len(names) > 1:
        raise errors.InvalidInput(f"say with --group which one is balanced: {', '.join(names)}")
    return wanted or None


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        output.warning(line)
