"""What the planner's commands share: the cluster they are about, and the forms in which they answer."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import plan_documents
from ...plugins.plugin_utils.placement.models import text_format
from ...plugins.plugin_utils.rounds import as_cluster, configured, moving, rounds
from . import client, configuration

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ...plugins.plugin_utils.placement.models import model
    from ...plugins.plugin_utils.placement.plan import Plan
    from ...plugins.plugin_utils.placement.score import compared

Parsed = TypeVar("Parsed")


class Format(Enum):
    """How a plan is printed."""

    TABLE = "table"
    JSON = "json"
    COMMANDS = "commands"


Output = Annotated[
    Format,
    typer.Option("--output", "-o", help="Print a table for people, JSON, or commands to a shell."),
]
Text = Annotated[
    Path | None,
    typer.Option(
        "--text", metavar="FILE", help="A cluster in the text format of Ganeti's htools; without it the running one."
    ),
]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Keep the plan in a file, for `roundsman plan`, and do not run it."),
]
OnlyPlan = Annotated[bool, typer.Option("--plan", help="Only show what would be done.")]
Submit = Annotated[bool, typer.Option("--submit", help="Run it: print the job's number and do not wait for its end.")]
Failover = Annotated[
    bool, typer.Option("--failover", help="Stop instances and start them on their new nodes, no live migration.")
]
STANDARD_INPUT = Path("-")


@dataclass(frozen=True)
class Source:
    """The cluster that a command is about, as both kinds of planners read it; `text` is the file that it is from."""

    model: model.Model
    cluster: clusters.Cluster
    text: Path | None

    @property
    def troubled(self) -> frozenset[str]:
        """The nodes (names) that an incident is about: nothing is moved there."""
        return frozenset(self.cluster.node_name(uuid) for uuid in rounds.no_targets(self.cluster))

    @property
    def fixed(self) -> frozenset[str]:
        """The instances (names) that run and can never be migrated: only who asks for a failover moves them."""
        return frozenset(instance.name for instance in self.cluster.instances.values() if instance.is_bound)

    def command(self, *words: str) -> str:
        """The command that makes the same plan again."""
        return shlex.join(["roundsman", *words, *(["--text", str(self.text)] if self.text else [])])


def source(ctx: typer.Context, text: Path | None) -> Source:
    """The cluster that a command is about, of a text or as it is configured here.

    Raises:
        InvalidInput: as with `cluster`.
    """
    if text is None:
        running = _running(ctx)
        return Source(configured.model_of(running), running, text)
    found = cluster(ctx, text)
    return Source(found, as_cluster.cluster_of(found), text)


@dataclass(frozen=True)
class Asked:
    """What shall be done with a plan: kept, run, waited for, and how it is shown."""

    save: Path | None
    runs: bool
    submit: bool
    form: Format


def asked(*, plan: bool, text: Path | None, save: Path | None, submit: bool, form: Format) -> Asked:
    """What a command does with its plan; it runs nothing where that is only to be shown or kept.

    Raises:
        BadParameter: it shall run it, and shall not.
    """
    if text is not None and submit:
        raise typer.BadParameter("--text is no running cluster: give it without --submit")
    if plan and submit:
        raise typer.BadParameter("give --plan, which runs nothing, or --submit")
    return Asked(save, submit or not (plan or text or save), submit, form)


def document(
    source: Source,
    plan: Plan,
    scores: compared.Scores,
    *,
    command: str,
    failover: bool = False,
    ignore_consistency: bool = False,
    max_loss: int | None = None,
) -> plan_documents.Document:
    """The document of a plan that changes the scores of the cluster so."""
    from ...plugins.plugin_utils.rounds import schedules  # noqa: PLC0415 - NumPy, for those who need it

    jobs = moving.Jobs(
        source.cluster, failover=failover, ignore_consistency=ignore_consistency, max_loss=max_loss
    ).make_all(plan.moves)
    return plan_documents.made(
        source.cluster,
        plan,
        scores=scores,
        jobs=jobs,
        turns=schedules.expected(source.cluster, plan.moves, jobs),
        command=command,
        failover=failover,
        ignore_consistency=ignore_consistency,
        max_loss=max_loss,
    )


def scores(source: Source, plan: Plan) -> compared.Scores:
    """The scores of the cluster before and after a plan."""
    from ...plugins.plugin_utils.placement.score import compared  # noqa: PLC0415 - NumPy, for those who need it

    ends = zip((move.instance for move in plan.moves), moving.ends(source.cluster, plan.moves), strict=True)
    return compared.scores(source.model, dict(ends))


def cluster(ctx: typer.Context, text: Path | None) -> model.Model:
    """The cluster that a command is about: of a text, or as it is configured here.

    Raises:
        InvalidInput: the text is not in the format; with the file's name, line and field.
    """
    if text is None:
        return configured.model_of(_running(ctx))
    source = sys.stdin.read if text == STANDARD_INPUT else text.read_text
    return parsed(text, source, text_format.read)


def parsed(file: Path, text: Callable[[], str], read: Callable[[str], Parsed]) -> Parsed:
    """What the text of a file says.

    Raises:
        InvalidInput: it is no text, or not what is to be read; with the file's name.
    """
    try:
        return read(text())
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{file}: {error}") from error
    except UnicodeDecodeError as error:
        raise errors.InvalidInput(f"{file}: it is no text: {error.reason} at byte {error.start}") from error


def _running(ctx: typer.Context) -> clusters.Cluster:
    return configuration.observed(client.find_daemon(ctx))
