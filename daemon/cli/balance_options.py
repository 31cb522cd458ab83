"""What `roundsman balance` may be told beyond the cluster: what moves, when it is enough, and what if."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.placement.models import dynamic_load
from . import planned

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ...plugins.plugin_utils.placement.balancing import balancing
    from ...plugins.plugin_utils.placement.models import model

NoDiskMoves = Annotated[
    bool, typer.Option("--no-disk-moves", help="Copy no disks: instances only move to where their disks are.")
]
NoInstanceMoves = Annotated[
    bool, typer.Option("--no-instance-moves", help="Leave instances where they run: only secondary replicas move.")
]
EvacuateOffline = Annotated[
    bool, typer.Option("--evacuate-offline", "-E", help="Move only instances that have an offline or drained node.")
]
Select = Annotated[
    list[str] | None,
    typer.Option("--select-instance", metavar="INSTANCE", help="Move only this one; may be repeated."),
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude-instance", metavar="INSTANCE", help="Do not move it; may be repeated.")
]
MinGain = Annotated[
    float | None,
    typer.Option(
        "--min-gain",
        min=0,
        metavar="SCORE",
        help="What each step gains at the least; with --like-hbal once the score is 0.1 or less, and then 0.01.",
    ),
]
MinScore = Annotated[
    float | None,
    typer.Option(
        "--min-score", min=0, metavar="SCORE", help="Stop when the score is within SCORE of its theoretical minimum."
    ),
]
Offline = Annotated[
    list[str] | None,
    typer.Option("--offline", "-O", metavar="NODE", help="What if this node were offline; may be repeated."),
]
DynamicLoad = Annotated[
    Path | None,
    typer.Option(
        "--dynamic-load", "-U", metavar="FILE", help="What instances really use, lines `instance cpu memory disk net`."
    ),
]
IgnoreDynamicLoad = Annotated[
    bool, typer.Option("--ignore-dynamic-load", help="Count only what instances are allotted, not what they use.")
]


@dataclass(frozen=True)
class Wanted:
    """The options as they were given."""

    disk_moves: bool
    instance_moves: bool
    only_offline: bool
    select: tuple[str, ...]
    exclude: tuple[str, ...]
    min_gain: float | None
    min_score: float | None
    offline: tuple[str, ...]
    load: Path | None
    ignore_load: bool

    def cluster(self, found: model.Model) -> model.Model:
        """The cluster as it would be.

        Raises:
            NotFound: there is no such node or instance. InvalidInput: the file of loads is not as it should be.
        """
        _known(self.offline, {node.name for node in found.nodes}, "node")
        _known((*self.select, *self.exclude), {instance.name for instance in found.instances}, "instance")
        nodes = (replace(node, offline=node.offline or node.name in self.offline) for node in found.nodes)
        found = replace(found, nodes=tuple(nodes))
        if self.load is not None:
            found = dynamic_load.loaded(found, planned.parsed(self.load, self.load.read_text, dynamic_load.read))
        return dynamic_load.unloaded(found) if self.ignore_load else found

    def options(self, to: balancing.Options) -> balancing.Options:
        """The options of the search."""
        from ...plugins.plugin_utils.placement.balancing import candidates  # noqa: PLC0415 - NumPy, for who needs it

        allowed = candidates.Allowed(
            disk_moves=self.disk_moves,
            instance_moves=self.instance_moves,
            only_offline=self.only_offline,
            chosen=frozenset(self.select) if self.select else None,
            kept=frozenset(self.exclude),
        )
        to = replace(to, allowed=allowed, min_gain=self.min_gain)
        return to if self.min_score is None else replace(to, min_score=self.min_score)

    def words(self) -> Iterator[str]:
        """The options as words of a command."""
        flags = {
            "--no-disk-moves": not self.disk_moves,
            "--no-instance-moves": not self.instance_moves,
            "--evacuate-offline": self.only_offline,
            "--ignore-dynamic-load": self.ignore_load,
        }
        yield from (name for name, given in flags.items() if given)
        lists = {"--select-instance": self.select, "--exclude-instance": self.exclude, "--offline": self.offline}
        for name, values in lists.items():
            for value in values:
                yield from (name, value)
        singles = {"--min-gain": self.min_gain, "--min-score": self.min_score, "--dynamic-load": self.load}
        for name, single in singles.items():
            if single is not None:
                yield from (name, str(single))


def _known(names: Collection[str], there: Collection[str], kind: str) -> None:
    for name in names:
        if name not in there:
            raise errors.NotFound(f"there is no {kind} {name!r}")
