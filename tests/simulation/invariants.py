"""What must hold: at each moment at which the daemon waits, at each start, and when all has settled.

In the end the faults stop, users repair all nodes and lift all holds, and within twelve hours of virtual time every job
has ended, no lock is held, no process is left, no part fails, no incident is open without a refusal that says why, what
was recorded is on record, each instance that runs does so where the configuration says, and its replicas are in sync,
or the repair that a person ordered says why not.

What heals later is judged before: an opcode whose run was lost ends only once somebody has looked for its instance.

What is about one act is judged where it is done: a run begins once, alone, and under locks that the disk has
(`processes.py`); no instance runs twice (`acts.py`); some replica has all acknowledged writes, and one that is started
lacks only those that a failover has stated (`disks.py`); no node does what an earlier epoch orders than it has said
that it follows (`followers.py`), and no two controllers are at work on an instance (`modules.py`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import plays, submission, values
from ansible_collections.roundsman.cluster.daemon.locks import holders
from ansible_collections.roundsman.cluster.daemon.maintenance import outcomes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.incidents import RepairStatus
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.service import Service

    from tests.simulation.world import World

READ_BEFORE = 130.0
"""Seconds after which a daemon knows no more that a BMC read off."""
ANSWERED_BEFORE = 15.0
"""Seconds for which a daemon may take the answers of nodes for those of now, and submit a job."""

RUNS = frozenset({"migrate", "failover", "startup", "shutdown"})
"""The kinds of opcodes that have an instance run elsewhere, or not any more."""


class Watch:
    """Looks at one daemon after the other, and remembers what those before have acknowledged."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._service: Service | None = None
        self._submitted: dict[int, tuple[str, ...]] = {}
        self._ended: dict[int, tuple[values.Status, float]] = {}
        self._canceled: set[int] = set()
        self._seen: dict[int, values.Job] = {}
        self._listed: list[values.Job] = []
        self._promised: dict[int, str] = {}
        self._looked = -1
        self._known: clusters.Cluster | None = None
        self._seen_ended: dict[int, float] = {}
        self._imports: set[str] = set()
        self._acknowledged_imports: set[str] = set()
        self._imported_at = -1.0
        self._fences: set[int] = set()
        self._isolated_since = -1.0
        self._reachable: set[str] = set()
        self._last_off: dict[str, float] = {}
        self._readings: dict[str, float] = {}
        self._signs: dict[str, tuple[float, int]] = {}
        self._verdicts: object = None
        self._judged = 0
        self.stopping = asyncio.Event()

    @property
    def service(self) -> Service | None:
        """The daemon that answers now."""
        return self._service

    @property
    def settled(self) -> int:
        """How many jobs have ended."""
        return len(self._ended)

    @property
    def last_end(self) -> float:
        """When a job was last seen to end, 0 for never."""
        return max(self._seen_ended.values(), default=0.0)

    def acknowledge(self, jobs: Sequence[values.Job]) -> None:
        """A client was told that its jobs are there."""
        for job in jobs:
            kinds = tuple(opcode.kind for opcode in job.opcodes)
            if self._submitted.setdefault(job.id, kinds) != kinds:
                self._world.violated(f"two jobs got the number {job.id}")
            self._world.tell("acknowledged: job", job.id, *kinds)

    def acknowledge_cancel(self, job: values.Job) -> None:
        self._canceled.add(job.id)

    def note_reading(self, node: str) -> None:
        """The daemon, or a job of it, has the word of a node's BMC."""
        self._readings[node] = self._world.now

    def expect_import(self, mark: str) -> None:
        """A configuration that has this tag is an imported one."""
        self._imports.add(mark)

    def acknowledge_import(self, mark: str) -> None:
        self._acknowledged_imports.add(mark)
        self._world.tell("acknowledged:", mark)

    def begin(self, service: Service) -> None:
        """A daemon has loaded its state: nothing that was acknowledged is gone."""
        self._service, self._looked, self._signs = service, -1, {}
        self.stopping = asyncio.Event()
        current = service.configuration.current
        if self._known is not None and current.serial_no < self._known.serial_no:
            self._world.violated(f"version {self._known.serial_no} of the configuration is gone after a restart")
        if (
            self._known is not None
            and current.serial_no == self._known.serial_no
            and _text(current) != _text(self._known)
        ):
            self._world.violated(f"version {current.serial_no} of the configuration is another one after a restart")
        self._look_at_acknowledged(service)
        self._look_at_records(service)

    def end(self) -> None:
        """The daemon is no more."""
        self._service = None

    def look(self) -> None:
        """The daemon waits: look at its locks, its jobs and its configuration."""
        service = self._service
        if service is None or service.read_only.is_uncertain:
            return
        if service.configuration.current is not self._known:
            before, self._known = self._known, service.configuration.current
            self._world.known = self._known
            self._reachable = {
                uuid for uuid, node in self._known.nodes.items() if clusters.reachable(self._known, node)
            }
            self._world.tell("configuration", self._known.serial_no)
            if new := self._imports & {*self._known.cluster.tags}:
                self._imports -= new
                self._take_import(before, self._known)
            else:
                self._look_at_offline(before, self._known)
            self._look_at_incidents(service, before, self._known)
            self._note_signs(before, self._known)
        self._look_at_ends(service)
        self._look_at_reach()
        self._look_at_readings(service)
        # Before it goes on with its jobs a daemon has the locks that were written down last; one whose disk has failed
        # ends with them.
        if self._looked != self._world.trace.count and not (service.read_only.reason or durable_files._DISK.failure):
            self._looked = self._world.trace.count
            self._look_at_locks(service)
            self._look_at_plays(service)
            self._look_at_power(service)

    def _take_import(self, before: clusters.Cluster | None, now: clusters.Cluster) -> None:
        """What was recorded and tagged after its export is dropped, as it says; where instances run, too."""
        world, self._imported_at = self._world, self._world.now
        for uuid, field in world.recorded:
            world.recorded[uuid, field] = getattr(now.instances[uuid], field)
        for uuid, instance in now.instances.items():
            if before is not None and instance.nodes != before.instances[uuid].nodes:
                world.misplaced.add(uuid)
                world.tell(world.names[uuid], "is misplaced by an import")

    def _look_at_acknowledged(self, service: Service) -> None:
        for number, kinds in self._submitted.items():
            job = service.queue._book.find(number)
            if job is None:
                self._world.violated(f"job {number} was acknowledged, and is gone")
            elif tuple(opcode.kind for opcode in job.opcodes) != kinds:
                self._world.violated(f"job {number} was acknowledged, and is another one")
            elif number in self._ended and self._ended[number] != (job.status, job.ended):
                before, now = self._ended[number][0].value, job.status.value
                self._world.violated(f"job {number} had ended in {before}, and is {now} after a restart")
            elif number in self._canceled and not (job.canceling or job.is_final):
                self._world.violated(f"the cancelation of job {number} is forgotten")

    def _look_at_records(self, service: Service) -> None:
        """What a play was told to be recorded is there until its opcode has ended."""
        for run, lines in self._world.lines.items():
            job = service.queue._book.find(int(run.parent.name))
            if job is None or job.is_final or (run.name.isdecimal() and _has_ended(job, int(run.name))):
                continue
            path = run / run_records.CHANGES
            is_there = path.is_file() and path.read_bytes().startswith(lines)
            if not is_there and (run.name.isdecimal() or not self._is_committed(service, run)):
                self._world.violated(f"what run {run.parent.name}/{run.name} recorded is lost")

    def _is_committed(self, service: Service, look: Path) -> bool:
        """Whether the configuration has what a look has said: its files are removed before it is repeated."""
        instances = service.configuration.current.instances
        return all(
            getattr(instances[uuid], field) == value for (uuid, field), value in self._world.said.get(look, {}).items()
        )

    def _look_at_promised(self, service: Service) -> None:
        """The numbers that an opcode has promised are those of the jobs that it has submitted, and of no others."""
        for number, source in self._promised.items():
            job = service.queue._book.find(number)
            if job is None or not any(source in entry.text for entry in job.reason):
                self._world.violated(f"{source} promised job {number}, which is {'gone' if job is None else 'another'}")
        self._look_at_submitted(service.queue.jobs)

    def _look_at_submitted(self, jobs: Mapping[int, values.Job]) -> None:
        """What an opcode has submitted is what its result names: it has planned once, whatever was killed meanwhile."""
        named: dict[int, str] = {}
        for job in jobs.values():
            named |= _promises(job)
        plans = {_plan(job, index) for job in jobs.values() for index in _succeeded(job)}
        for number, job in jobs.items():
            told = [entry.text for entry in job.reason if entry.text.startswith("job=")]
            sources = [text for text in told if not text.startswith(f"job={number};")]
            if sources and sources[-1] in plans and named.get(number) != sources[-1]:
                self._world.violated(f"{sources[-1]} has submitted job {number}, and its result does not name it")

    def _look_at_ends(self, service: Service) -> None:
        if self._listed == (listed := [*service.queue.jobs.values()]):
            return
        self._listed = listed
        for number, job in service.queue.jobs.items():
            if job is self._seen.get(number):
                continue
            self._look_at_runs(service, self._seen.get(number), job)
            self._seen[number] = job
            self._promised |= _promises(job)
            if job.is_final:
                # A plan that was refused, as by a drained queue, promises nothing any more; one that succeeded has kept
                # each promise that it has ever made.
                refused = {_plan(job, index) for index, each in enumerate(job.opcodes) if not _has_succeeded(each)}
                self._promised = {at: by for at, by in self._promised.items() if by not in refused}
            if job.is_final and number not in self._ended:
                self._ended[number] = (job.status, job.ended)
                self._seen_ended[number] = self._world.now
                for opcode in job.opcodes:
                    if opcode.kind == "power":
                        self.note_reading(opcode.params["node"])
                self._world.tell("job", number, "ended in", job.status.value, job.text[:60])

    def _look_at_runs(self, service: Service, before: values.Job | None, job: values.Job) -> None:
        """After a run that does not say what it has done, its opcode ends only once somebody has looked.

        Then it is on record where the instance runs, unless the look broke off. The daemon looks later, too, once the
        nodes of an unfinished migration answer: until then nobody knows.
        """
        world = self._world
        opcodes_before = before.opcodes if before is not None else ()
        ended_before = {index for index, opcode in enumerate(opcodes_before) if opcode.status in values.FINAL}
        for index, opcode in enumerate(job.opcodes):
            run = service.queue._ports.store.run_folder(job.id, index)
            process = world.processes.get(run)
            if index in ended_before or not _has_ended(job, index) or process is None or not process.leaves_unknown:
                continue
            is_judged = opcode.kind in RUNS and len(world.controllers) == 1 and process.instance not in world.misplaced
            if is_judged and world.looks.get(run, True) and not self._is_on_record(service, process.instance):
                what = "was looked for" if run in world.looks else "was not looked for"
                world.violated(
                    f"{process.instance} {what} after run {job.id}/{index}, and it is not on record where it runs"
                )

    def _is_on_record(self, service: Service, uuid: str) -> bool:
        """Whether it is on record where an instance runs, if it runs."""
        instance, nodes = service.configuration.current.instances[uuid], self._world.guests[uuid]
        return not nodes or (nodes == {instance.primary_node} and not instance.moving)

    def _look_at_incidents(self, service: Service, before: clusters.Cluster | None, now: clusters.Cluster) -> None:
        """No incident fails because moves were lost, or refused before they began, unless that was too often."""
        open_before = (
            {incident.uuid for incident in before.maintenance.incidents if incident.is_open} if before else set()
        )
        for incident in now.maintenance.incidents:
            if incident.uuid not in open_before or incident.repair_status is not RepairStatus.FAILED:
                continue
            if missing := [number for number in incident.jobs if service.queue._book.find(number) is None]:
                self._world.violated(f"an incident fails because its jobs {missing} were never in the queue")
            jobs = [service.queue.jobs[number] for number in incident.jobs if number in service.queue.jobs]
            failed = [job for job in jobs if job.is_final and job.status is not values.Status.SUCCESS]
            spared = [job for job in failed if any(_is_lost(opcode) or _is_refused(opcode) for opcode in job.opcodes)]
            if len(jobs) == len(incident.jobs) and failed == spared and 0 < len(spared) <= outcomes.RETRIES:
                told = f"{len(spared)} moves were lost or refused"
                self._world.violated(f"an incident fails because {told}: {incident.reason}")

    def _look_at_offline(self, before: clusters.Cluster | None, now: clusters.Cluster) -> None:
        """A node that a round takes out of service has been emptied, and one that is known to be off is off."""
        for uuid, node in now.nodes.items():
            known = before.nodes.get(uuid) if before is not None else None
            found = {guest for guest, nodes in self._world.guests.items() if uuid in nodes} - self._world.misplaced
            here = sorted(self._world.names[guest] for guest in found)
            if known is not None and node.offline and not known.offline and here:
                self._world.violated(f"{node.name} is taken offline while {', '.join(here)} runs there")

    def _look_at_locks(self, service: Service) -> None:
        for lock, owners in sorted(service.desk.table.held.items()):
            names = sorted(owner.name for owner in owners)
            if Mode.EXCLUSIVE in owners.values() and len(names) > 1:
                self._world.violated(f"{lock} is held alone, and by {' and '.join(names)}")
            for owner in owners:
                number = int(owner.name.rpartition(" ")[2]) if owner.name.startswith("job ") else 0
                job = service.queue.jobs.get(number)
                if number and (job is None or number in self._ended):
                    self._world.violated(f"{lock} is held by job {number}, which is no more")

    def _look_at_plays(self, service: Service) -> None:
        """A play by hand that was given a lock has it until it ends."""
        for play in self._world.plays.values():
            owner = holders.Owner(play.name, str(play.livelock))
            if play.controller is not self._world.here:
                continue
            if play.is_holding and not play.is_over and not service.desk.table.locks_of(owner):
                self._world.violated(f"{play.name} has lost the lock that it was given")

    def _look_at_reach(self) -> None:
        """Since when less than half of the nodes answer that may be on, by their record and by their BMCs of late."""
        world, now = self._world, self._world.now
        voting = answering = 0
        for uuid, node in world.nodes.items():
            if node.read_power() is power.State.OFF:
                self._last_off[uuid] = now
            elif uuid in self._reachable and now - self._last_off.get(uuid, -READ_BEFORE) >= READ_BEFORE:
                voting, answering = voting + 1, answering + node.answers
        if 2 * answering >= voting:
            self._isolated_since = -1.0
        elif self._isolated_since < 0:
            self._isolated_since = now

    def _note_signs(self, before: clusters.Cluster | None, now: clusters.Cluster) -> None:
        for uuid, node in now.nodes.items():
            if before is not None and uuid in before.nodes and before.nodes[uuid].alive_at != node.alive_at:
                self._signs[uuid] = self._world.now, self._judged

    def _look_at_readings(self, service: Service) -> None:
        """What a BMC said before a sign of life of its node counts no more, once silent nodes are judged anew."""
        if service.dead.verdicts is not self._verdicts:
            # The first of two may have been begun before the sign of life.
            self._verdicts, self._judged = service.dead.verdicts, self._judged + 1
        for uuid, (at, judged) in self._signs.items():
            is_judged_anew = self._judged >= judged + 2
            # Unknown is what it says that reads them, where it fails.
            is_said = service.readings.state(uuid) in {power.State.ON, power.State.OFF}
            if is_judged_anew and self._readings.get(uuid, at) < at and is_said:
                self._world.violated(f"what the BMC of {uuid} said before a sign of life still counts")

    def _look_at_power(self, service: Service) -> None:
        """Silent nodes are commanded by one job at a time each, and by none where less than half of all answer."""
        commanded: dict[str, int] = {}
        for number in sorted(service.queue.jobs.keys() - self._ended.keys()):
            job = service.queue.jobs[number]
            opcode = job.opcodes[0]
            if opcode.kind != "power" or opcode.params["command"] not in {"fence", "confirm_off"}:
                continue
            other = commanded.setdefault(opcode.params["node"], number)
            if other != number:
                self._world.violated(f"jobs {other} and {number} both command {opcode.params['node']} off")
            is_own = any(entry.source == submission.ROUNDS for entry in job.reason)
            is_isolated = 0 <= self._isolated_since < self._world.now - ANSWERED_BEFORE
            if is_own and is_isolated and number not in self._fences:
                self._world.violated(f"job {number} commands a node off, and less than half of the nodes answer")
            self._fences.add(number)

    def look_at_plan(self, service: Service) -> None:
        """A plan of a round that was kept is what a new one is."""
        cluster, rounds = service.configuration.current, service.rounds
        kept = [rounds._plan(cluster, as_if_resumed=resumed) for resumed in (False, True)]
        rounds._plans.clear()
        if kept != [rounds._plan(cluster, as_if_resumed=resumed) for resumed in (False, True)]:
            self._world.violated("a plan was kept that is not what would be planned now")

    def check_settled(self, service: Service) -> None:
        """The faults have stopped and nothing is left to do: what is on record is what is true."""
        cluster = service.configuration.current
        for number in self._submitted:
            job = service.queue._book.find(number)
            if job is None or not job.is_final:
                self._world.violated(f"job {number} has not ended")
        if service.desk.table.owners() or service.desk.table.waiting:
            self._world.violated("locks are held or awaited though nothing is at work")
        living = (*self._world.processes.values(), *self._world.plays.values())
        if running := [process.name for process in living if not process.is_over]:
            self._world.violated(f"processes are left: {', '.join(running)}")
        # What a report brings may be committed just now, and be in the file alone.
        if service.configuration._writer is None and _text(store.read(service.where.config)) != _text(cluster):
            self._world.violated("the file of the configuration is not what the daemon has")
        self._check_incidents(service, cluster)
        self._check_parts(service)
        self._look_at_promised(service)
        self._check_recorded(cluster)
        for mark in sorted(self._acknowledged_imports & self._imports):
            self._world.violated(f"the configuration {mark} was taken over, and nobody has seen it")
        self._check_guests(cluster)
        self._check_tags(service, cluster)

    def _check_incidents(self, service: Service, cluster: clusters.Cluster) -> None:
        """Those that are open say why, and all of their jobs are, or were, in the queue."""
        for number in sorted({number for incident in cluster.maintenance.incidents for number in incident.jobs}):
            if service.queue._book.find(number) is None:
                self._world.violated(f"an incident names job {number}, which was never in the queue")
        refusals = service.rounds.preview().refusals
        refused = {refusal.subject for refusal in refusals} | {refusal.incident for refusal in refusals}
        for incident in cluster.maintenance.incidents:
            if incident.is_open and not {self._world.names[incident.node], incident.node, incident.uuid} & refused:
                self._world.violated(f"an incident of {self._world.names[incident.node]} is open: {incident.original}")
            if incident.is_open and incident.is_of_a_dead_node and not incident.returned_at:
                self._world.violated(f"{self._world.names[incident.node]} is back, and its incident goes on")

    def _check_parts(self, service: Service) -> None:
        for failure in service.failures.listed():
            self._world.violated(f"{failure['part']} still fails: {failure['text']}")
        if service.readings._in_flight:
            self._world.violated("BMCs are still waited for that nobody reads")
        self.look_at_plan(service)

    def _check_recorded(self, cluster: clusters.Cluster) -> None:
        for (uuid, field), value in self._world.recorded.items():
            if getattr(cluster.instances[uuid], field) != value:
                name = cluster.instances[uuid].name
                self._world.violated(f"it was recorded that the {field} of {name} is {value}, and that is lost")

    def _check_guests(self, cluster: clusters.Cluster) -> None:
        for uuid, nodes in self._world.guests.items():
            instance = cluster.instances[uuid]
            told = cluster.node_name(instance.primary_node)
            found = sorted(cluster.node_name(node) for node in nodes)
            if found and found != [told] and uuid not in self._world.misplaced:
                self._world.violated(f"{instance.name} runs on {', '.join(found)}, and {told} is on record")

    def _check_tags(self, service: Service, cluster: clusters.Cluster) -> None:
        wanted: dict[tuple[str, str], set[bool]] = {}
        last: dict[tuple[str, str], float] = {}
        # Those too of which no client was told, because the daemon was killed before.
        # By the order in which they were seen to end: clocks may jump. Of two at one moment either may be the last.
        for job in sorted(service.queue.jobs.values(), key=lambda job: (self._seen_ended.get(job.id, 0.0), job.ended)):
            seen = self._seen_ended.get(job.id, 0.0)
            if seen <= self._imported_at:
                continue
            for opcode in job.opcodes:
                is_of_instance = opcode.kind in {"tags_set", "tags_del"} and opcode.params["of"] == "instance"
                if is_of_instance and opcode.status is values.Status.SUCCESS:
                    key = opcode.params["object"], opcode.params["tags"][0]
                    among = wanted.get(key, set()) if last.get(key) == seen else set()
                    wanted[key], last[key] = {*among, opcode.kind == "tags_set"}, seen
        for (uuid, tag), found in wanted.items():
            if (tag in cluster.instances[uuid].tags) not in found:
                self._world.violated(f"the tag {tag} is {'lost' if True in found else 'back'}")


def _has_ended(job: values.Job, index: int) -> bool:
    return job.opcodes[index].status in values.FINAL


def _is_lost(opcode: values.Opcode) -> bool:
    """Whether a move ended with the controller; one that a person canceled has not."""
    is_move = opcode.kind in outcomes.MOVES
    return is_move and opcode.status is values.Status.ERROR and opcode.result == plays.LOST


def _is_refused(opcode: values.Opcode) -> bool:
    """Whether a move ended before it began, though nobody canceled it."""
    return opcode.kind in outcomes.MOVES and opcode.status is values.Status.ERROR and not opcode.started


def _has_succeeded(opcode: values.Opcode) -> bool:
    return opcode.status is values.Status.SUCCESS


def _succeeded(job: values.Job) -> list[int]:
    return [index for index, opcode in enumerate(job.opcodes) if _has_succeeded(opcode)]


def _plan(job: values.Job, index: int) -> str:
    """The opcode as the reasons of the jobs that it submits name it."""
    return f"job={job.id};index={index}"


def _promises(job: values.Job) -> dict[int, str]:
    return {
        number: _plan(job, index)
        for index, opcode in enumerate(job.opcodes)
        if isinstance(opcode.result, dict)
        for _, number in opcode.result.get("jobs", ())
    }


def _text(cluster: clusters.Cluster) -> bytes:
    return document.seal(cluster)
