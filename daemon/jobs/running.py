"""An opcode that touches nodes: its process started or adopted, and settled when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.plugin_utils.opcodes import contract
from .. import audit, faults
from . import lookup, possible_loss, process, settling, values
from .runs import run_spec

if TYPE_CHECKING:
    from ...plugins.module_utils.domain import cluster as clusters
    from ..locks import holders
    from .book import Book
    from .ports import Ports


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
        spec = run_spec(ports.configuration.current, made, granted=granted, environment=ports.environment)
        if start is not None:
            spec = possible_loss.noted(spec, start)
            noted = possible_loss.notices(ports.configuration.current, made, start, now=ports.clock())
            audit.notices(noted, by=owner.name)
        if book.jobs[job].opcodes[index].status is not values.Status.RUNNING:
            book.begin(job, index, is_durable=True, run=str(index))
        ports.processes.start(folder, spec)

    if is_to_begin(ports, book, job=job, index=index):
        begin()
    await ports.processes.ended(folder)
    await _settle(ports, book, made, job=job, index=index, owner=owner)


def is_to_begin(ports: Ports, book: Book, *, job: int, index: int) -> bool:
    """Whether an opcode's run has not begun: not yet, or the daemon ended between its record and its process."""
    if book.jobs[job].opcodes[index].status is not values.Status.RUNNING:
        return True
    stands = process.standing(ports.store.run_folder(job, index))
    return stands is process.Standing.NEVER_RAN and not book.jobs[job].canceling


_AT_HOSTS = frozenset({"diagnose", "migrate", "outdate_replica", "repair_command", "second_copies"})
_AT_PRIMARY = frozenset({"activate_disks", "failover", "instance_create", "replace_disks", "shutdown", "startup"})
"""The opcodes that succeed only if all their hosts, or the node that then is the primary, have answered."""


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
    settlement, standing = await settling.settle(folder), process.standing(folder)
    refused = await settling.commit(settlement, ports=ports, by=owner.name)
    if settlement.succeeded:
        ports.on_life(_answered(ports.configuration.current, made))
    loss = possible_loss.read(folder, settlement.value, now=ports.clock()) if settlement.succeeded else None
    text = "; ".join(filter(None, [settlement.text, *([loss.text] if loss is not None else []), *refused]))
    status = values.Status.SUCCESS if settlement.succeeded and not refused else values.Status.ERROR
    if book.jobs[job].canceling and standing is not process.Standing.ENDED:
        text, status = f"canceled while it ran: {text}", values.Status.CANCELED
    # A play that failed with a value has told what it found itself: nothing is left to look at.
    if not settlement.succeeded and settlement.value is None and standing is not process.Standing.NEVER_RAN:
        look = lookup.after(made, ports.configuration.current)
        if look is not None:
            text += "; " + await lookup.carry_out(look, folder=folder / "lookup", ports=ports, owner=owner)
    # Before the end is written: a crash between has it logged twice, never not at all.
    if settlement.value is not None and isinstance(made, contract.NoticeKind):
        audit.notices(made.notices(settlement.value), by=owner.name)
    kept = made.outcome(settlement.value) if isinstance(made, contract.OutcomeKind) else None
    book.end(job, index, status, text, result=loss.result if loss is not None else kept)
