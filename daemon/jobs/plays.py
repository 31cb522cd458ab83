"""An opcode that touches nodes: its process started or adopted, and settled when it has ended.

What a failover from a dead node may have lost is kept with its run, and told in the text and the result of its opcode.
The result of such an opcode is `{"possible_loss": {"seconds": S, "last_in_sync": T, "ignored": bool}}`: the writes of
the last S seconds before the source was known to be off may be lost, which are those since the unix time T, when the
pair was last known to be in sync. S and T are null where that is unknown. `ignored` says that the replica was not known
to be in sync, and a person wanted it all the same. A source that confirmed the stop has lost nothing: no result then.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import evidence
from ...plugins.plugin_utils.opcodes import contract, instance_moves
from .. import audit, faults
from . import process, recovery, settling, task_log, values

if TYPE_CHECKING:
    from pathlib import Path

    from ...plugins.module_utils.domain import cluster as clusters
    from ..locks import holders
    from .book import Book
    from .queue import Ports

FILE = "evidence.json"
"""The evidence on which a run started, in its folder."""
_AT_HOSTS = frozenset({"diagnose", "migrate", "outdate_replica", "repair_command", "second_copies"})
_AT_PRIMARY = frozenset({"activate_disks", "failover", "instance_create", "replace_disks", "shutdown", "startup"})
"""The opcodes that succeed only if all their hosts, or the node that then is the primary, have answered."""


@dataclass(frozen=True)
class Loss:
    """The possible loss in words, and as the opcode's result."""

    text: str
    result: dict[str, Any]


async def run(
    ports: Ports,
    book: Book,
    made: contract.PlayKind,
    *,
    job: int,
    index: int,
    owner: holders.Owner,
) -> None:
    """Run an opcode's play under the locks of its owner, or go on with a run of the daemon before this one.

    The facts are checked at the moment when it starts, and the evidence on which it starts is kept with the run: what
    was known before it waited for its slot may not be true any more.

    Raises:
        Refused: the opcode does not fit the cluster as it is now, or a fact is against it; nothing was run.
        StoreFailed: some state could not be written; to call this again goes on where it stopped.
    """
    folder = ports.store.run_folder(job, index)

    def begin() -> None:
        start = None
        if isinstance(made, contract.CheckedKind):
            start = made.check_facts(ports.configuration.current, ports.facts)
        granted = ports.desk.table.locks_of(owner)
        spec = process.run_spec(ports.configuration.current, made, granted=granted, environment=ports.environment)
        if start is not None:
            spec = noted_evidence(spec, start)
            noted = notices(ports.configuration.current, made, start, now=ports.clock())
            audit.notices(noted, by=owner.name)
        if book.jobs[job].opcodes[index].status is not values.Status.RUNNING:
            book.begin(job, index, is_durable=True, run=str(index))
        ports.processes.start(folder, spec)

    opcode, is_canceling = book.jobs[job].opcodes[index], book.jobs[job].canceling
    step = recovery.recover(
        process.traces(folder), status=opcode.status, execution=made.execution, is_canceling=is_canceling
    )
    if step is recovery.Step.START:
        begin()
    await ports.processes.ended(folder)
    await _settle(ports, book, made, job=job, index=index, owner=owner)


def _answered(cluster: clusters.Cluster, made: contract.PlayKind) -> list[str]:
    """The nodes (UUIDs) that an opcode that succeeded has shown to be alive."""
    if made.kind in _AT_HOSTS:
        return made.hosts(cluster)
    if made.kind in _AT_PRIMARY:
        return [cluster.instances[uuid].primary_node for uuid in made.about() if uuid in cluster.instances]
    return []


async def _settle(
    ports: Ports, book: Book, made: contract.PlayKind, *, job: int, index: int, owner: holders.Owner
) -> None:
    folder = ports.store.run_folder(job, index)
    faults.point("before-settling")
    settlement = await settling.settle(folder)
    step = recovery.recover(process.traces(folder))
    refused = await settling.commit(settlement, ports=ports, by=owner.name)
    if settlement.succeeded:
        ports.on_life(_answered(ports.configuration.current, made))
    loss = possible_loss(folder, settlement.value, now=ports.clock()) if settlement.succeeded else None
    text = "; ".join(filter(None, [settlement.text, *([loss.text] if loss is not None else []), *refused]))
    status = values.Status.SUCCESS if settlement.succeeded and not refused else values.Status.ERROR
    if book.jobs[job].canceling and step is not recovery.Step.SETTLE:
        text, status = f"canceled while it ran: {text}", values.Status.CANCELED
    # A play that failed with a value has told what it found itself: nothing is left to look at.
    if not settlement.succeeded and settlement.value is None and step is not recovery.Step.START:
        look = settling.look_after(made, ports.configuration.current)
        if look is not None:
            text += "; " + await settling.carry_out(look, folder=folder / task_log.LOOKUP, ports=ports, owner=owner)
    # Before the end is written: a crash between has it logged twice, never not at all.
    if settlement.value is not None and isinstance(made, contract.NoticeKind):
        audit.notices(made.notices(settlement.value), by=owner.name)
    kept = made.outcome(settlement.value) if isinstance(made, contract.OutcomeKind) else None
    book.end(job, index, status, text, result=loss.result if loss is not None else kept)


def noted_evidence(spec: process.Spec, start: contract.Start) -> process.Spec:
    """The run with its evidence; its play is told that the replica was judged."""
    content = json.dumps(dataclasses.asdict(start))
    variables = {**spec.variables, "step": {**spec.variables["step"], "replica_judged": True}}
    return dataclasses.replace(spec, files={**spec.files, FILE: content}, variables=variables)


def notices(
    cluster: clusters.Cluster, made: contract.PlayKind, start: contract.Start, *, now: float
) -> list[contract.Notice]:
    """What the audit log says of a failover that starts on a replica which could not be compared.

    Nothing where the source is asked: a healthy pair loses nothing.
    """
    if not isinstance(made, instance_moves.Failover) or start.is_asked:
        return []
    name, target = cluster.instance(made.instance).name, cluster.node_name(made.target)
    loss = evidence.loss_text(start.evidence, now=now)
    if start.is_overridden:
        why = f"{start.evidence.reason}; {loss}"
        return [contract.Notice(f"{name} fails over to {target} with ignore_consistency: {why}", is_trouble=True)]
    when = f"whose replica was last known to be in sync at {evidence.clock(start.evidence.last_in_sync)}"
    return [contract.Notice(f"{name} fails over to {target}, {when}; {loss}")]


def possible_loss(folder: Path, value: Any, *, now: float) -> Loss | None:
    """The possible loss of a run that succeeded and left a value.

    None where nothing was judged, or where the source confirmed the stop: both nodes were asked then. What the source
    answered in the run itself is newer than the evidence on which the run started.
    """
    told = value if isinstance(value, dict) else {}
    if told.get("source_stopped") is True:
        return None
    stated, judged = told.get("possible_loss") or {}, _judged(folder)
    if not stated and judged is None:
        return None
    is_ignored = bool(stated.get("ignored"))
    if judged is None or stated.get("last_in_sync"):
        found = evidence.Evidence(last_in_sync=stated["last_in_sync"], seen_off=stated["seen_off"])
    else:
        found, is_ignored = judged[0], is_ignored or judged[1]
    seconds = evidence.loss(found, now=now)
    rounded = None if seconds is None else round(seconds, 3)
    result = {"seconds": rounded, "last_in_sync": found.last_in_sync or None, "ignored": is_ignored}
    text = evidence.loss_text(found, now=now)
    return Loss(f"{text} (consistency was ignored)" if is_ignored else text, {"possible_loss": result})


def _judged(folder: Path) -> tuple[evidence.Evidence, bool] | None:
    """The evidence on which a run started, and whether a person overrode it."""
    try:
        told = json.loads((folder / FILE).read_bytes())
        return evidence.Evidence(**told["evidence"]), bool(told["is_overridden"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
