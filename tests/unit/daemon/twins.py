"""A daemon without processes: a whole service on a lab's folder, whose opcodes "run" as files that a twin writes."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon import service
from ansible_collections.roundsman.cluster.daemon.jobs import opcodes, values
from ansible_collections.roundsman.cluster.daemon.lab import building, world
from ansible_collections.roundsman.cluster.daemon.locks import desk
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power, power_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership, recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    import pytest
    from ansible_collections.roundsman.cluster.daemon.jobs import process

LIMIT = 60.0
assembled: list[service.Service] = []
"""The services whose queues start nothing more once the loop that is at work, or the next one, ends (conftest.py)."""
CHANGES_POWER = frozenset({"on", "off", "fence", "confirm_off"})
RECORDED: dict[str, Callable[[str], changes.Change]] = {
    "instance_create": membership.InstanceMade,
    "instance_remove": membership.InstanceGone,
    "startup": lambda uuid: changes.InstanceState(uuid, "up"),
    "shutdown": lambda uuid: changes.InstanceState(uuid, "down"),
}


class Processes:
    """The twin of `jobs.process.Processes`: a run ends as `outcomes` says of its kind of opcode.

    Outcomes are success (the default), error, lost (began, no result), dead (not even began) and held (until `finish`);
    of several words the next run of the kind takes the next, and the last one stays. `powered` is how nodes read at
    their BMCs: a lost run has sent its command. `values` are what plays leave, by their kind; of a function what it
    makes of the variables.
    """

    def __init__(self, outcomes: Mapping[str, str] | None = None) -> None:
        self.outcomes = dict(outcomes or {})
        self.ran: list[str] = []
        self.specs: dict[Path, process.Spec] = {}
        self.powered: dict[str, bool] = {}
        self.values: dict[str, Any] = {}
        self.most_at_once = 0
        self.started = asyncio.Event()
        self._over: dict[Path, asyncio.Event] = {}

    def start(self, run: Path, spec: process.Spec) -> None:
        run.mkdir(parents=True, exist_ok=True)
        (run / "livelock").touch()
        for name, text in spec.files.items():
            (run / name).write_text(text)
        kind = spec.kind
        self.ran.append(f"{kind} {run.parent.name}/{run.name}")
        self.specs[run] = spec
        self._over[run] = asyncio.Event()
        self.started.set()
        self.most_at_once = max(self.most_at_once, sum(not one.is_set() for one in self._over.values()))
        told = self.outcomes.get(kind, "success").split()
        outcome = told[min(len(told), sum(one.startswith(f"{kind} ") for one in self.ran)) - 1]
        if outcome == "dead":
            self._over[run].set()
            return
        (run / "began").touch()
        if outcome != "held":
            self.finish(run, outcome)

    async def ended(self, run: Path) -> None:
        if run in self._over:
            await self._over[run].wait()
        else:
            await desk.ended(run / "livelock")

    def finish(self, run: Path, outcome: str = "success", *, text: str = "the twin was told to fail") -> None:
        spec = self.specs[run]
        if spec.kind == "power" and spec.variables["step"]["command"] in CHANGES_POWER:
            for one in spec.variables["step"]["targets"]:
                self.powered[one["uuid"]] = spec.variables["step"]["command"] == "on"
        value = self.values.get(spec.kind)
        value = value(spec.variables) if callable(value) else value
        for one in [*_lived(spec, value), *(self._recorded(spec) if outcome == "success" else [])]:
            run_records.append(run, recording.encode(one))
        if outcome != "lost":
            result = {"status": outcome, "text": "" if outcome == "success" else text}
            run_records.conclude(run, {**result, "value": value})
        self._over[run].set()

    def _recorded(self, spec: process.Spec) -> list[changes.Change]:
        if spec.kind == "find_power":
            nodes = [one["uuid"] for one in spec.variables["step"]["targets"]]
            read = {node: self.powered.get(node, True) for node in nodes}
            return [
                *(changes.NodeLived(node) for node, powered in read.items() if powered),
                *(
                    changes.NodePowered(node, powered=powered, confirms=False, commanded=False)
                    for node, powered in read.items()
                ),
            ]
        return _recorded(spec)

    def held(self) -> list[Path]:
        """The runs that have not ended."""
        return [run for run, over in self._over.items() if not over.is_set()]


def _lived(spec: process.Spec, value: Any) -> list[changes.Change]:
    """The signs of life that a power command's play records, also one that fails."""
    if spec.kind != "power" or not isinstance(value, list):
        return []
    alive = {one["name"] for one in value if power_record.lived(power.parse_outcome(one))}
    return [changes.NodeLived(one["uuid"]) for one in spec.variables["step"]["targets"] if one["name"] in alive]


def _recorded(spec: process.Spec) -> list[changes.Change]:
    kind, told = spec.kind, spec.variables.get("step", {})
    if kind in {"migrate", "failover"}:
        target, others = told["target"]["uuid"], tuple(told["secondaries"])
        return [changes.InstanceNodes(told["instance"]["uuid"], target, others)]
    if kind == "replace_disks":
        primary, new = told["primary"]["uuid"], told["new"]["uuid"]
        moved = changes.InstanceNodes(told["instance"]["uuid"], primary, (new,))
        return [moved, *(recording.decode(one) for one in told["given_up"])]
    if kind in RECORDED:
        return [RECORDED[kind](told["instance"]["uuid"])]
    if kind == "power" and told["command"] in CHANGES_POWER:
        powered, confirms = told["command"] == "on", told["command"] != "confirm_off"
        return [changes.NodePowered(one["uuid"], powered=powered, confirms=confirms) for one in told["targets"]]
    return []


def lab(
    folder: Path, *, nodes: int = 4, instances: int = 4, pairs: Sequence[tuple[str, str]] | None = None, **settings: Any
) -> world.Lab:
    """The folder of a new lab; nothing of it runs."""
    return building.build(
        folder / "lab",
        nodes=nodes,
        instances=instances,
        pairs=pairs,
        ports={"http": 1, "bmc": 2},
        settings=clusters.Settings(**settings),
    )


def assemble(
    one: world.Lab, monkeypatch: pytest.MonkeyPatch, *, limit: int = 8, outcomes: Mapping[str, str] | None = None
) -> tuple[service.Service, Processes]:
    """A service on a lab's folder as after a start of the daemon, and the twin that runs its opcodes."""
    twin = Processes(outcomes)
    monkeypatch.setattr(service, "Processes", lambda **_: twin)
    monkeypatch.setattr(opcodes, "RETRY_SECONDS", 0.001)
    running = service.assemble(tree.Tree(one.controller), limit=limit)
    assembled.append(running)
    return running, twin


def lab_of(running: service.Service) -> world.Lab:
    """The lab on whose folder a service stands."""
    return world.Lab(running.where.root.parent)


async def settle(one: service.Service) -> None:
    """Work until there is nothing more to do."""
    while await one.rounds.step() or await jobs_end(one):
        pass


async def jobs_end(one: service.Service) -> bool:
    """Wait for all jobs; returns whether there was one."""
    unfinished = one.queue.unfinished(one.queue.jobs)
    for job in unfinished:
        await asyncio.wait_for(one.queue.wait(job, seconds=LIMIT), LIMIT)
        assert one.queue.jobs[job].is_final, f"job {job} did not end"
    return bool(unfinished)


async def until_held(twin: Processes, count: int = 1) -> list[Path]:
    """Wait until so many runs are held."""
    async with asyncio.timeout(LIMIT):
        while len(twin.held()) < count:
            twin.started.clear()
            await twin.started.wait()
    return twin.held()


def replica_facts(
    cluster: clusters.Cluster, node: clusters.Node, *, lost: Collection[str] = (), **changed: Any
) -> replicas.NodeFacts:
    """What a node whose replicas are all in sync reports of them; those of `lost` (instances) have lost their peer.

    `changed` are fields of these last facts.
    """
    found = []
    for one in (*cluster.primaries(node.uuid), *cluster.secondaries(node.uuid)):
        role = Role.PRIMARY if one.primary_node == node.uuid and one.is_up else Role.SECONDARY
        for name in replica_evidence.resources(one):
            fact = replicas.ReplicaFact(name, 0, role, Connection.CONNECTED, Disk.UP_TO_DATE, Disk.UP_TO_DATE, 16, 0)
            if one.name in lost:
                apart: dict[str, Any] = {"connection": Connection.CONNECTING, "peer_disk": Disk.UNKNOWN}
                fact = dataclasses.replace(fact, **{**apart, **changed})
            found.append(fact)
    return replicas.NodeFacts("", tuple(found))


def envelope(
    one: world.Lab,
    node: clusters.Node,
    said: str,
    *,
    age: float = 0.0,
    problem: str = "",
    facts: replicas.NodeFacts = replicas.UNKNOWN,
) -> bytes:
    """The report that a node would send."""
    key = (one.node(node.name).root / "var/lib/roundsman/node.key").read_bytes()
    moment = time.time() - age
    message = reports.message(
        node_uuid=node.uuid,
        timestamp_ns=int(moment * 1e9),
        data=None if problem else said,
        problem=reports.problem(problem, text="no more is known") if problem else None,
        facts=facts,
    )
    return signing.sign(message, key=key, now=int(moment)).encode()


def report(one: world.Lab, running: service.Service, name: str, said: str = "", **options: Any) -> None:
    """Put a report of a node into the spool; its replicas are in sync unless other `facts` are given."""
    node = running.configuration.current.node(name)
    options.setdefault("facts", replica_facts(running.configuration.current, node))
    data = envelope(one, node, said, **options)
    (running.where.spool / f"{name}-{time.time_ns()}.json").write_bytes(data)


def job(number: int, *opcodes: values.Opcode, depends: tuple[values.Dependency, ...] = ()) -> values.Job:
    """A job as somebody submits it."""
    return values.Job(id=number, opcodes=opcodes, depends=depends, received=1.0)


def statuses(running: service.Service) -> dict[int, str]:
    """The statuses of all jobs."""
    return {number: one.status.value for number, one in running.queue.jobs.items()}
