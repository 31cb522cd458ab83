"""Plans as documents: what a planner found for a cluster, to be kept, shown again, and run if nothing has changed.

A document is a JSON object that begins with its checksum. Its jobs are there to be read: what runs is made again from
its moves. Memory and disk are in GiB, times in seconds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations at run time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from ..module_utils.domain.values import errors
from . import sealed_json
from .disks import possible_loss
from .rounds import digests, moving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cluster import cluster as clusters
    from .placement.balancing.turns import Turn
    from .placement.plan import Move, Plan
    from .placement.score import compared
    from .rounds import work

FORMAT = 1
MEBIBYTES = 1024.0
GENERATION = "format"


@dataclass(frozen=True)
class MoveEntry:
    """The move of one instance, the nodes (names) that it has at the end, and the instances that it waits for."""

    instance: str
    action: str
    primary: str
    secondary: str | None
    data_gib: float
    wave: int
    after: tuple[str, ...]
    start: float
    seconds: float


@dataclass(frozen=True)
class JobEntry:
    """The opcodes of one move, with names in place of UUIDs, and the jobs that it waits for."""

    key: str
    opcodes: tuple[Mapping[str, str], ...]
    after: tuple[str, ...]
    behind: tuple[str, ...]


@dataclass(frozen=True)
class KeptEntry:
    """An instance, or a replica of it, that stays, why, and what would lift that."""

    instance: str
    text: str
    unblock: str = ""


@dataclass(frozen=True)
class Document:
    """A plan: the command that it came from, the cluster (UUID) and the digest of all that was looked at.

    `moves` are in the order of their jobs; `notes` are the failures of nodes that are no longer survived after it, and
    what balancing leaves where it is.
    With `ignore_consistency` its failovers may start replicas that are not known to be in sync, with `max_loss` those
    that may lack the writes of so many seconds.
    """

    format: int
    command: str
    cluster: str
    digest: str
    failover: bool
    initial_score: float
    final_score: float
    components: Mapping[str, Mapping[str, float]]
    moves: tuple[MoveEntry, ...]
    data_gib: float
    waves: tuple[tuple[str, ...], ...]
    seconds: float
    kept: tuple[KeptEntry, ...]
    notes: tuple[str, ...]
    jobs: tuple[JobEntry, ...]
    ignore_consistency: bool = False
    max_loss: Annotated[int, pydantic.Field(ge=0, le=possible_loss.MOST_ACCEPTED)] | None = None


_DOCUMENT = pydantic.TypeAdapter(Document)


def made(
    cluster: clusters.Cluster,
    plan: Plan,
    *,
    scores: compared.Scores,
    jobs: Sequence[work.Job],
    turns: Sequence[Turn],
    command: str,
    failover: bool = False,
    ignore_consistency: bool = False,
    max_loss: int | None = None,
) -> Document:
    """The document of a plan; `jobs` and `turns` are those of its moves, in their order."""
    moves = [_move(turn) for turn in turns]
    waves = [[move.instance for move in moves if move.wave == wave] for wave in sorted({move.wave for move in moves})]
    return Document(
        format=FORMAT,
        command=command,
        cluster=cluster.cluster.uuid,
        digest=digests.digest(cluster),
        failover=failover,
        initial_score=scores.initial,
        final_score=scores.final,
        components={"initial": dict(scores.before), "final": dict(scores.after)},
        moves=tuple(moves),
        data_gib=sum(move.data_gib for move in moves),
        waves=tuple(tuple(wave) for wave in waves),
        seconds=max((move.start + move.seconds for move in moves), default=0.0),
        kept=tuple(KeptEntry(refusal.subject, refusal.reason, refusal.unblock) for refusal in plan.refusals),
        notes=plan.notes,
        jobs=tuple(_job(cluster, job) for job in jobs),
        ignore_consistency=ignore_consistency,
        max_loss=max_loss,
    )


def _move(turn: Turn) -> MoveEntry:
    return MoveEntry(
        instance=turn.move.instance,
        action=turn.move.action,
        primary=turn.primary,
        secondary=turn.secondary or None,
        data_gib=turn.mib / MEBIBYTES,
        wave=turn.wave,
        after=turn.move.after,
        start=turn.start,
        seconds=turn.seconds,
    )


def _job(cluster: clusters.Cluster, job: work.Job) -> JobEntry:
    opcodes = tuple({"kind": opcode.kind, **_named(cluster, opcode)} for opcode in job.opcodes)
    return JobEntry(job.key, opcodes, job.after, job.behind)


def _named(cluster: clusters.Cluster, opcode: work.Opcode) -> dict[str, str]:
    told = {name: value for name, value in opcode.params.items() if isinstance(value, str)}
    return {
        name: cluster.instances[uuid].name if name == "instance" else cluster.node_name(uuid)
        for name, uuid in told.items()
    }


def write(document: Document) -> bytes:
    """The text of a document, with its checksum."""
    return sealed_json.seal(f"{text(document)}\n".encode())


def text(document: Document) -> str:
    """The JSON of a document, without a checksum."""
    return json.dumps(dataclasses.asdict(document), ensure_ascii=False)


def read(data: bytes) -> Document:
    """The document of a text.

    Raises:
        InvalidInput: it is none, was cut off or edited, or is of another format.
    """
    if not sealed_json.is_sealed(data):
        raise errors.InvalidInput("it is no plan")
    try:
        told: Any = json.loads(sealed_json.unseal(data))
        found = told.get(GENERATION)
        if found != FORMAT:
            raise errors.InvalidInput(f"it is a plan of format {found!r}, and {FORMAT} is expected: make it again")
        return _DOCUMENT.validate_python(told)
    except (ValueError, RecursionError) as error:
        # Its checksum fits, so another program has written it.
        raise errors.InvalidInput(f"it is no plan: {_first(error)}") from error


def _first(error: Exception) -> str:
    if not isinstance(error, pydantic.ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'/'.join(str(part) for part in first['loc'])}: {first['msg']}"


def refuse_another(cluster: clusters.Cluster, document: Document) -> None:
    """A plan is run where it was made for.

    Raises:
        Refused: this is another cluster.
    """
    if document.cluster != cluster.cluster.uuid:
        raise errors.Refused(f"this plan (`{document.command}`) was made for another cluster: make one for this")


def run(
    cluster: clusters.Cluster,
    moves: Sequence[Move],
    *,
    digest: str,
    command: str,
    failover: bool,
    ignore_consistency: bool = False,
    max_loss: int | None = None,
) -> tuple[work.Job, ...]:
    """The jobs of a plan with this digest.

    Raises:
        Refused: the cluster has changed since. NotFound, InvalidInput: a move is not possible.
    """
    if digests.digest(cluster) != digest:
        raise errors.Refused(f"the cluster has changed since this plan was made: make it again with `{command}`")
    moving.refuse_misplaced(cluster, moves)
    return moving.Jobs(
        cluster,
        failover=failover,
        ignore_consistency=ignore_consistency,
        max_loss=max_loss,
        reason=f"{command}: moving {{}}",
    ).make_all(moves)
