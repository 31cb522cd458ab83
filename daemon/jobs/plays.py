"""An opcode that touches nodes: its process started or adopted, and settled when it has ended.

What a failover from a dead node may have lost is in the value of its run, and told in the text and the result of its
opcode. That result is `{"possible_loss": {"seconds": S, "last_in_sync": T, "ignored": bool}}`: the writes of the last S
seconds before the source was known to be off may be lost, which are those since the unix time T, when the pair was last
known to be in sync. S and T are null where that is unknown. `ignored` says that the replica was not known to be in
sync, and a person wanted it all the same. A source that confirmed the stop has lost nothing: no result then.

A run whose process ended without a result, other than by its time limit, is lost: its opcode's result is `LOST`.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.disks import possible_loss
from ...plugins.plugin_utils.opcodes import contract
from .. import audit, faults
from . import process, recovery, settling, task_log, values

if TYPE_CHECKING:
    from pathlib import Path

    from ..locks import holders
    from .book import Book
    from .ports import Ports


LOST = {"lost": True}


@dataclass(frozen=True)
class Loss:
    """The possible loss in words, and as the opcode's result."""

    text: str
    result: dict[str, Any]


async def run(
    ports: Ports,
    book: Book,
    made: contract.PlayOpcode,
    *,
    job: int,
    index: int,
    owner: holders.Owner,
) -> None:
    """Run an opcode's play under the locks of its owner, or go on with a run of the daemon before this one.

    The facts are checked at the moment when it starts: what was known before it waited for its slot may not be true any
    more.

    Raises:
        Refused: the opcode does not fit the cluster as it is now, or a fact is against it; nothing was run.
        StoreFailed: some state could not be written; to call this again goes on where it stopped.
    """
    folder = ports.store.run_folder(job, index)

    opcode, is_canceling = book.jobs[job].opcodes[index], book.jobs[job].canceling
    step = recovery.recover(
        process.traces(folder), status=opcode.status, execution=made.execution, is_canceling=is_canceling
    )
    if step is recovery.Step.START:
        await _clear(ports, opcode, made)
        spec = _spec(ports, made, owner)
        if opcode.status is not values.Status.RUNNING:
            await book.begin(job, index, is_durable=True, run=str(index))
            # What was known before it waited for the disk may not be true any more.
            spec = _spec(ports, made, owner)
        # One that had begun before may have been canceled while it waited: then it had no process that could be ended.
        if not book.jobs[job].canceling:
            ports.processes.start(folder, spec)
    await ports.processes.ended(folder)
    await _settle(ports, book, made, job=job, index=index, owner=owner)


def _spec(ports: Ports, made: contract.PlayOpcode, owner: holders.Owner) -> process.Spec:
    """What its process is given, by what is known now.

    Raises:
        Refused: a fact is against it.
    """
    start = made.check_facts(ports.configuration.current, ports.facts)
    granted = ports.desk.table.locks_of(owner)
    cluster = contract.observed(ports.configuration.current, ports.facts)
    spec = process.run_spec(cluster, made, granted=granted, environment=ports.environment)
    return spec if start is None else with_source_off(spec, start)


async def _clear(ports: Ports, opcode: values.Opcode, made: contract.PlayOpcode) -> None:
    """Let an opcode that changes instances wait until no step of another controller is at work on them.

    Raises:
        Refused: that cannot be told.
    """
    cluster = ports.configuration.current
    named = [text for value in opcode.params.values() for text in (value if isinstance(value, list) else [value])]
    instances = [text for text in named if isinstance(text, str) and text in cluster.instances]
    if instances:
        await ports.clear(instances, made.hosts(cluster))


async def _settle(
    ports: Ports, book: Book, made: contract.PlayOpcode, *, job: int, index: int, owner: holders.Owner
) -> None:
    folder = ports.store.run_folder(job, index)
    faults.point("before-settling")
    settlement = await settling.settle(folder)
    if not settlement.succeeded:
        ports.failed(settlement.text)
    step = recovery.recover(process.traces(folder))
    refused = await settling.commit(settlement, ports=ports, by=owner.name)
    loss = stated_loss(settlement.value) if settlement.succeeded else None
    text = "; ".join(filter(None, [settlement.text, *([loss.text] if loss is not None else []), *refused]))
    status = values.Status.SUCCESS if settlement.succeeded and not refused else values.Status.ERROR
    if book.jobs[job].canceling and step is not recovery.Step.SETTLE:
        text, status = f"canceled while it ran: {text}", values.Status.CANCELED
    if settlement.needs_look and step is not recovery.Step.START:
        look = settling.look_after(made, ports.configuration.current)
        if look is not None:
            text += "; " + await settling.carry_out(look, folder=folder / task_log.LOOKUP, ports=ports, owner=owner)
    # Before the end is written: a crash between has it logged twice, never not at all.
    if settlement.value is not None:
        audit.notices(made.notices(settlement.value), by=owner.name)
    await book.end(job, index, status, text, result=_result(made, settlement, folder, step=step, loss=loss))


def _result(
    made: contract.PlayOpcode, settlement: settling.Settlement, folder: Path, *, step: recovery.Step, loss: Loss | None
) -> Any:
    """What an opcode leaves beside its text."""
    if step is not recovery.Step.SETTLE and not process.overdue(folder):
        return LOST
    if loss is not None:
        return loss.result
    return made.outcome(settlement.value)


def with_source_off(spec: process.Spec, start: contract.Start) -> process.Spec:
    """The run of a failover, told when its source was first known to be off, in seconds of the controller's uptime.

    `at` is the same as it is on record (unix seconds), by a clock that may have been set since.
    """
    if start.off is None:
        return spec
    at, elapsed = start.off
    off = {"at": at, "uptime": time.clock_gettime(time.CLOCK_BOOTTIME) - elapsed}
    return dataclasses.replace(
        spec, variables={**spec.variables, "step": {**spec.variables["step"], "source_off": off}}
    )


def stated_loss(value: Any) -> Loss | None:
    """The possible loss that the value of a run states; None where it states none."""
    stated = value.get("possible_loss") if isinstance(value, dict) else None
    if not stated:
        return None
    seconds = stated["seconds"]
    rounded = None if seconds is None else round(seconds, 3)
    result = {"seconds": rounded, "last_in_sync": stated["last_in_sync"], "ignored": bool(stated["ignored"])}
    text = possible_loss.text(seconds)
    return Loss(f"{text} (consistency was ignored)" if stated["ignored"] else text, {"possible_loss": result})
