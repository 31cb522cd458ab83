"""What a run made true: what a finished one left in its files, and a look at what is true after a lost one.

After a lost run an instance is looked for on all its nodes, and the power of a node is read at its BMC, so that the
configuration says what is true. A look only reads, so one that breaks off is repeated; nothing that the lost run was to
do is.

Of a job whose file was damaged nobody knows any more which opcode it was at: its processes end, what they had made true
is kept, and nothing of it goes on. Its locks tell whether it was at work: only then its last run is settled like a lost
one, for the runs before were settled before their locks were given back, and what others did since must not be undone.
The instances that it held alone are looked for, as after any lost run, and the power of nodes that it held alone is
read.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import connection_tries, run_records
from ...plugins.plugin_utils.cluster import changes
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.cluster.locks import Mode
from ...plugins.plugin_utils.opcodes import contract, instance_looks, node_power, time_limits
from . import process, recovery, task_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..locks import holders
    from .ports import Ports

LOG = logging.getLogger(__name__)
TRIES = connection_tries.TRIES
"""How often a look that breaks off is begun, as often as a node is tried that cannot be reached."""


@dataclass(frozen=True)
class Settlement:
    """How a run ended: whether it succeeded, what it says, what it recorded, and what of that cannot be read.

    `value` is the JSON value that its play left, or None. `is_unknown` says that the disk failed while it recorded.
    """

    succeeded: bool
    text: str
    recorded: list[changes.Change]
    unreadable: list[str]
    value: Any = None
    is_unknown: bool = False

    @property
    def needs_look(self) -> bool:
        """Whether what is true must be read: a play that failed with a value has told what it found itself."""
        return self.is_unknown or (not self.succeeded and self.value is None)


async def settle(run: Path) -> Settlement:
    """Read how a run ended; one that began and left no readable result is lost, and nothing of it is repeated."""
    step = recovery.recover(process.traces(run))
    # What is left of the run, such as a module whose play was killed, may still act and record: it ends first.
    await process.end_run(run)
    told = _result(run, step)
    recorded = run_records.recorded(run, expected=told["changes"])
    # A play that went on after its record failed has not succeeded.
    succeeded = told["status"] == "success" and not recorded.is_unknown
    return Settlement(
        succeeded, told["text"], recorded.changes, recorded.unreadable, told["value"], recorded.is_unknown
    )


def value(run: Path) -> Any:
    """The value that a run left, of as many nodes as it was about: it stays in its folder, and in no list of jobs."""
    try:
        return run_records.result(run)["value"]
    except (FileNotFoundError, errors.InvalidInput):
        return None


async def commit(settlement: Settlement, *, ports: Ports, by: str) -> list[str]:
    """Commit what a run recorded, for whom; returns what of it could not be read, or does not fit any more.

    Raises:
        StoreFailed: it could not be written; to call this again is harmless.
    """
    refused: list[str] = []

    def applicable(cluster: clusters.Cluster) -> list[changes.Change]:
        accepted, others = changes.sort_out(cluster, settlement.recorded, now=ports.clock())
        refused[:] = others
        return accepted

    await ports.configuration.commit(applicable, by=by)
    return [*settlement.unreadable, *refused]


def _result(run: Path, step: recovery.Step) -> dict[str, Any]:
    bad: dict[str, Any] = {"status": "error", "changes": None, "value": None}
    if step is recovery.Step.START:
        return {**bad, "text": f"the opcode's process exited during start-up {_output(run)}"}
    try:
        result = run_records.result(run)
    except FileNotFoundError:
        why = process.overdue(run) or "its process ended without a result"
        return {**bad, "text": f"{why}: it is lost, and not repeated"}
    except errors.InvalidInput as error:
        return {**bad, "text": f"{error}: it counts as lost, and is not repeated"}
    # Halves of characters come from a node's connection, and no job file can hold them.
    return {**result, "text": result["text"].encode(errors="replace").decode()}


def _output(run: Path) -> str:
    try:
        lines = (run / "output").read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    return f"with the output: {lines[-1][:500]}" if lines else "without output"


@dataclass(frozen=True)
class FindPower(contract.LookOpcode):
    """Read the power of nodes at their BMCs, which are sent no command, and record it."""

    kind: ClassVar[str] = "find_power"
    role: ClassVar[str] = "node"
    nodes: tuple[str, ...]

    def time_limit(self, _cluster: clusters.Cluster) -> int:
        return time_limits.limit(time_limits.bmcs(len(self.nodes)))

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.power_of(self.nodes, contract.EXCLUSIVE)

    def hosts(self, _cluster: clusters.Cluster) -> list[str]:
        return []

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        return {"targets": [node_power.bmc_variables(cluster, cluster.node(uuid)) for uuid in self.nodes]}

    def about(self) -> tuple[str, ...]:
        return self.nodes

    def told(self, cluster: clusters.Cluster) -> str:
        found = [cluster.node(uuid) for uuid in self.nodes]
        return ", ".join(f"{node.name} is {'on' if node.powered else 'off'}" for node in found)


def look_after(lost: contract.PlayOpcode, cluster: clusters.Cluster) -> contract.LookOpcode | None:
    """What to look at after an opcode was lost; None when there is nothing, or it is not in the cluster any more."""
    subjects = lost.about()
    if len(subjects) == 1 and subjects[0] in cluster.instances:
        return instance_looks.opcode(cluster, subjects[0], beside=lost.hosts(cluster))
    return power_look(cluster, subjects)


def power_look(cluster: clusters.Cluster, nodes: Sequence[str]) -> contract.LookOpcode | None:
    """Read the power of those of these nodes (UUIDs) that are there, and have a BMC."""
    there = [cluster.nodes[uuid] for uuid in nodes if uuid in cluster.nodes]
    found = [node.uuid for node in there if clusters.parameter(cluster, node, "oob_program") is not None]
    return FindPower(tuple(found)) if found else None


async def carry_out(look: contract.LookOpcode, *, folder: Path, ports: Ports, owner: holders.Owner) -> str:
    """Look, under the locks of an owner; returns a sentence with what was found.

    Raises:
        StoreFailed, OSError: some state could not be written; to call this again looks again.
    """
    # The daemon before this one may have begun to look, and what it saw may not be seen again.
    await ports.processes.ended(folder)
    if process.traces(folder).has_begun:
        await commit(await settle(folder), ports=ports, by=owner.name)
    reason = ""
    for count in range(1, TRIES + 1):
        try:
            await _clear(look, ports)
            reason, text = await _tried(look, folder=folder, ports=ports, owner=owner)
        except errors.StoreFailed:
            raise
        except errors.Refused as refusal:
            reason, text = str(refusal), ""
        if not reason:
            return text
        task_log.note(folder, f"the look at what is true broke off, try {count} of {TRIES}: {reason}")
    told = look.told(ports.configuration.current)
    text = f"nobody could look ({TRIES} tries: {reason}): that {told} is what was known before, and may be wrong"
    LOG.warning("%s: %s", owner.name, text)
    return text


async def _clear(look: contract.LookOpcode, ports: Ports) -> None:
    """Wait until no step of another controller is at work on what is looked at: it would make false what is found.

    Raises:
        Refused: that cannot be told.
    """
    cluster = ports.configuration.current
    if instances := [uuid for uuid in look.about() if uuid in cluster.instances]:
        await ports.clear(instances, look.hosts(cluster))


async def _tried(look: contract.LookOpcode, *, folder: Path, ports: Ports, owner: holders.Owner) -> tuple[str, str]:
    """Look once; returns why it broke off, or '' and what was found."""
    await process.end_run(folder)
    await asyncio.to_thread(_empty, folder)
    granted = ports.desk.table.locks_of(owner)
    spec = process.run_spec(ports.configuration.current, look, granted=granted, environment=ports.environment)
    ports.processes.start(folder, spec)
    await ports.processes.ended(folder)
    found = await settle(folder)
    refused = await commit(found, ports=ports, by=owner.name)
    if not found.succeeded:
        return found.text, ""
    return "; ".join(refused), found.text or look.told(ports.configuration.current)


def _empty(folder: Path) -> None:
    """Remove the files of a look that has ended, except the log that somebody may follow."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != task_log.NAME:
            entry.unlink()


async def clear_up(ports: Ports, job: int, owner: holders.Owner) -> str:
    """End what a lost job has left at work, commit what it recorded, look for its instances; returns what was found.

    To be called again after a crash is harmless.
    """
    runs = ports.store.runs(job)
    for run in runs:
        await process.end_run(run)
        if (run / "livelock").exists():
            await ports.processes.ended(run)
    held = ports.desk.table.locks_of(owner)
    if not held or not runs:
        return ""
    return await _settled(ports, runs[-1], held, owner)


async def _settled(ports: Ports, run: Path, held: Mapping[str, Mode], owner: holders.Owner) -> str:
    settlement = await settle(run)
    refused = await commit(settlement, ports=ports, by=owner.name)
    told = [f"its last run: {settlement.text or 'success'}", *refused]
    if not settlement.succeeded:
        looks = _looks(ports.configuration.current, held)
        told += [await carry_out(look, folder=run / task_log.LOOKUP, ports=ports, owner=owner) for look in looks]
    return "; ".join(told)


def _looks(cluster: clusters.Cluster, held: Mapping[str, Mode]) -> list[contract.LookOpcode]:
    instances = [
        instance for instance in _named(held, "instance", only=Mode.EXCLUSIVE) if instance in cluster.instances
    ]
    looks = [instance_looks.opcode(cluster, instance, beside=_named(held, "node")) for instance in instances]
    alone = [name for level in ("node", "node-res") for name in _named(held, level, only=Mode.EXCLUSIVE)]
    power = power_look(cluster, list(dict.fromkeys(alone)))
    return [*looks, power] if power is not None else [*looks]


def _named(held: Mapping[str, Mode], level: str, *, only: Mode | None = None) -> list[str]:
    return [
        lock.partition("/")[2] for lock, mode in held.items() if lock.startswith(f"{level}/") and only in {None, mode}
    ]
