"""What must hold at the end: by the nodes' journals, the queue, the locks, the incidents and the logs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import store as job_store
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import checker, journals
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_world

from tests.chaos import scenes
from tests.chaos.assaults import KILLS
from tests.chaos.faults import KINDS
from tests.chaos.victims import Victim
from tests.integration import states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.roundsman.cluster.daemon.lab import world
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.chaos.chronicle import Chronicle
    from tests.chaos.doors import Doors
    from tests.chaos.victims import Victims
    from tests.integration import labs

DEFECTS = ("this is a defect", "was never retrieved", "was destroyed but it is pending", "Exception in thread")
LIMIT = 600.0
"""Seconds within which a lab settles of which nothing is broken any more."""
PAUSE = 2.0
OPEN = frozenset({"noted", "pending"})
STRAYS = 15.0
"""Seconds for which what nobody works on may differ from the configuration."""
LINGERING = 60.0
"""Seconds within which a process that is at work has ended."""
TRIES = 3
"""How often each operator command is tried for an instance that is down."""


def expected(*, has_agents: bool) -> dict[str, set[str]]:
    """What a run may make by chance, by the kinds that are counted; without agents theirs have nothing to act on."""
    of_agents = {"agent", "loss", "lies"}
    kills = {kind.value for kind in KILLS} - (set() if has_agents else {Victim.AGENT.value})
    return {
        "faults": set(KINDS) - (set() if has_agents else of_agents),
        "kills": kills | {"whole controller"},
        "stops": kills | {"opcodes beyond their time limit"},
        "scenes": set(scenes.Scenes.names()),
        "phases": {"storm", "scenes", "emergency"},
        "unattended": {"fence", "failover", "replace_disks"} if has_agents else set(),
    }


class Settling:
    """A person who brings everything back once nothing is broken any more, and waits until all is at rest."""

    def __init__(
        self,
        lab: labs.Running,
        doors: Doors,
        chronicle: Chronicle,
        *,
        tend: Callable[[], None],
        seconds: float = LIMIT,
    ) -> None:
        self._lab, self._doors, self._chronicle, self._tend = lab, doors, chronicle, tend
        self._seconds = seconds
        self._tries: dict[str, int] = {}

    def settle(self) -> list[str]:
        """Bring all back; returns what did not settle within the limit."""
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            self._tend()
            if self._is_at_rest() and not self._bring_back():
                return []
            self._chronicle.report()
            time.sleep(PAUSE)
        what = ", ".join(self._unsettled()) or "something goes on"
        return [f"after {self._seconds:g} s not everything has settled: {what}"]

    def _is_at_rest(self) -> bool:
        jobs, incidents, plan = (self._doors.get(path) for path in ("/1/jobs", "/1/status", "/1/plan"))
        if jobs is None or incidents is None or plan is None or self._doors.pids():
            return False
        if any(job["status"] not in states.FINAL for job in jobs):
            return False
        return not (any(one["repair-status"] in OPEN for one in incidents) and plan["jobs"])

    def _bring_back(self) -> bool:
        """Do the next thing that a person does; returns whether there was one."""
        steps = (
            self._acknowledge,
            self._end_second_copies,
            self._bring_nodes_back,
            self._finish_replacements,
            self._start_instances,
        )
        return any(step() for step in steps)

    def _acknowledge(self) -> bool:
        ended = [one for one in self._doors.get("/1/status") or [] if one["repair-status"] not in OPEN]
        acknowledged = [self._ask("PUT", f"/2/incidents/{one['id']}/ack", key=one["id"]) for one in ended]
        return any(acknowledged)

    def _end_second_copies(self) -> bool:
        """What a node started by itself is ended there, as the refusal to bring it online says.

        A scene that was broken off leaves it.
        """
        ended = False
        for one in self._lab.cluster().instances.values():
            primary = self._lab.cluster().node_name(one.primary_node)
            for node in self._lab.lab.nodes():
                if node.name != primary and one.name in node.running() and started_by_itself(node, one.name):
                    self._chronicle.note(f"{one.name} is ended on {node.name}, which started it by itself")
                    ended = scenes.end_copy(node, one.name) or ended
        return ended

    def _bring_nodes_back(self) -> bool:
        asked = []
        for node in self._doors.get("/1/nodes") or []:
            name = node["name"]
            if node["off_confirmed"]:
                asked.append(self._ask("PUT", f"/2/nodes/{name}/confirm-off?undo=true", key=f"confirm {name}"))
            if not self._lab.lab.node(name).is_powered() or node["powered"] is False:
                asked.append(self._ask("PUT", f"/2/nodes/{name}/power", {"command": "on"}, key=f"power {name}"))
            elif node["offline"] or node["drained"]:
                asked.append(self._ask("PUT", f"/2/nodes/{name}/role", "online", key=f"online {name}"))
        return any(asked)

    def _finish_replacements(self) -> bool:
        """A replacement that broke off is done again, as `explain` says.

        If that is refused, a person gives up what the old secondary wrote: the refusal names that command.
        """
        asked = []
        cluster = self._lab.cluster()
        for one in cluster.maintenance.left_behind:
            if one.is_new:
                name = one.instance.name
                path = f"/2/instances/{name}"
                if self._tries.get(f"replace {name}"):
                    given_up = {"discard": cluster.node_name(cluster.instance(name).secondary_nodes[0])}
                    asked.append(self._ask("PUT", f"{path}/repair-disks", given_up, key=f"discard {name}"))
                body = {"mode": "replace_new_secondary", "remote_node": cluster.node_name(one.node)}
                asked.append(self._ask("POST", f"{path}/replace-disks", body, key=f"replace {name}"))
        return any(asked)

    def _start_instances(self) -> bool:
        asked = []
        for name in self._down():
            tries = self._tries.get(f"startup {name}", 0)
            if tries == 1:
                # What is paused in a migration is to be ended first, as the refused start says.
                scenes.end_paused(self._lab.lab.nodes(), name)
                asked.append(self._ask("PUT", f"/2/instances/{name}/shutdown", {}, key=f"shutdown {name}"))
            if tries < TRIES:
                asked.append(self._ask("PUT", f"/2/instances/{name}/startup", {}, key=f"startup {name}"))
            else:
                asked.append(self._ask("PUT", f"/2/instances/{name}/failover", {}, key=f"failover {name}"))
        return any(asked)

    def _ask(self, method: str, path: str, body: Any = None, *, key: str) -> bool:
        if self._tries.get(key, 0) >= TRIES:
            return False
        self._tries[key] = self._tries.get(key, 0) + 1
        if number := self._doors.submit("settling", method, path, body):
            self._wait(number)
        return True

    def _wait(self, job: int) -> None:
        end = time.monotonic() + LIMIT / 4
        while time.monotonic() < end:
            found = self._doors.get(f"/2/jobs/{job}")
            if found is not None and found["status"] in states.FINAL:
                self._chronicle.note(f"job {job} {found['status']}: {found['text']}")
                return
            self._tend()
            time.sleep(0.5)

    def _down(self) -> list[str]:
        running = {name for node in self._lab.lab.nodes() for name in fake.Driver(node.root, opcode="").running()}
        return sorted(one.name for one in self._lab.cluster().instances.values() if one.name not in running)

    def _unsettled(self) -> Iterator[str]:
        for job in self._doors.get("/1/jobs") or []:
            if job["status"] not in states.FINAL:
                yield f"job {job['id']} is {job['status']}"
        for one in self._doors.get("/1/status") or []:
            if one["repair-status"] in OPEN:
                yield f"incident {one['id']} of {one['node_name']} is {one['repair-status']}"
        yield from (f"{name} is down" for name in self._down())


class Strays:
    """Instances and replicas that are elsewhere than the configuration says, while nobody works on them.

    What a job has done is on record when it ends, or found out a moment later. So what is seen in several looks, by a
    daemon that answers, was forgotten. What a node started by itself is nobody's fault,
    and a replacement that failed says so.
    """

    def __init__(self, lab: labs.Running) -> None:
        self._lab = lab
        self._seen: dict[str, float] = {}

    def look(self, jobs: list[dict[str, Any]] | None, *, hands: list[int]) -> list[str]:
        """What has been elsewhere for too long, one sentence each; `jobs` is None while the daemon does not answer."""
        now = time.monotonic()
        found = list(self._found(jobs)) if jobs is not None and not hands else []
        self._seen = {sentence: self._seen.get(sentence, now) for sentence in found}
        return [f"{sentence}, and no job is about it" for sentence, since in self._seen.items() if now - since > STRAYS]

    def _found(self, jobs: list[dict[str, Any]]) -> Iterator[str]:
        nodes = [node for node in self._lab.lab.nodes() if node.answers()]
        runs = {node.name: fake.Driver(node.root, opcode="").running() for node in nodes}
        copies = {node.name: simulated_world.instances(node.root) for node in nodes}
        # Read last: what has just been recorded is on the nodes already.
        cluster = self._lab.cluster()
        busy = {uuid for job in jobs if job["status"] not in states.FINAL for uuid in job["names"]}
        left = {(one.instance.uuid, cluster.node_name(one.node)) for one in cluster.maintenance.left_behind}
        left |= self._failed(cluster)
        for uuid, one in cluster.instances.items():
            if uuid in busy or not {cluster.node_name(node) for node in one.nodes} <= runs.keys():
                continue
            primary = cluster.node_name(one.primary_node)
            running = [name for name, names in runs.items() if one.name in names]
            own = [name for name in running if not started_by_itself(self._lab.lab.node(name), one.name)]
            if own and own != [primary]:
                yield f"{one.name} runs on {', '.join(own)}, its primary is {primary}"
            known = {cluster.node_name(node) for node in one.nodes}
            for name, names in copies.items():
                if one.name in names and name not in known and (uuid, name) not in left:
                    yield f"a replica of {one.name} is on {name}, which is on no record"

    def _failed(self, cluster: clusters.Cluster) -> set[tuple[str, str]]:
        """The instances (UUIDs) and the nodes (names) where a replacement that failed may have left a replica."""
        kept = job_store.Store(self._lab.where.queue)
        jobs = [*kept.load().values(), *kept.newest_archived(kept.highest_id())]
        return {
            (opcode.params["instance"], cluster.node_name(opcode.params[key]))
            for job in jobs
            for opcode in job.opcodes
            if opcode.kind == "replace_disks" and opcode.status is not values.Status.SUCCESS
            for key in ("old", "new")
        }


def started_by_itself(node: world.LabNode, instance: str) -> bool:
    """Whether a node itself was the last to start an instance there."""
    last = [entry for entry in node.journal() if entry.get("instance") == instance and entry["event"] in fake.ARRIVALS]
    return bool(last) and last[-1]["opcode"] == journals.BY_ITSELF


def wrong(lab: labs.Running, victims: Victims) -> list[str]:
    """Everything that is wrong in a lab at rest, one sentence each."""
    found = checker.check(lab.lab, explain=lambda node: lab.get(f"/1/explain/{node}"))
    return [*found, *_down(lab), *_being_made(lab), *_left_over(lab, victims), *_power(lab), *defects(lab)]


def seconds_of_opcodes(lab: labs.Running) -> list[float]:
    """How long each opcode took that succeeded."""
    kept = job_store.Store(lab.where.queue)
    jobs = [*kept.load().values(), *kept.newest_archived(kept.highest_id())]
    opcodes = (opcode for job in jobs for opcode in job.opcodes)
    return [
        opcode.ended - opcode.started for opcode in opcodes if opcode.status is values.Status.SUCCESS and opcode.started
    ]


def _down(lab: labs.Running) -> Iterator[str]:
    """After everything was repaired and started, nothing may be down: an explanation alone is not enough."""
    running = {name for node in lab.lab.nodes() for name in fake.Driver(node.root, opcode="").running()}
    for one in lab.cluster().instances.values():
        if one.is_up and one.name not in running:
            told = [
                step["text"]
                for job in lab.get("/1/jobs")
                for step in job["opcodes"]
                if step["text"] and one.uuid in job["names"]
            ]
            yield f"{one.name} cannot be started though nothing is broken any more: {' | '.join(told[-2:])}"


def _being_made(lab: labs.Running) -> Iterator[str]:
    """A replacement that broke off comes to its end when it is done again and nothing is broken any more."""
    cluster = lab.cluster()
    for one in cluster.maintenance.left_behind:
        if one.is_new:
            yield f"the replica of {one.instance.name} on {cluster.node_name(one.node)} is being made for ever"


def _left_over(lab: labs.Running, victims: Victims) -> Iterator[str]:
    for lock in lab.get("/2/locks"):
        yield from (f"{lock['name']} is held by {one['owner']}" for one in lock["owners"])
        yield from (f"{lock['name']} is waited for by {one['owner']}" for one in lock["waiting"])
    for kind in (Victim.OPCODE, Victim.GUARD):
        yield from (f"process {pid} of the {kind.value} is left" for pid in _staying(victims, kind))


def _staying(victims: Victims, kind: Victim) -> list[int]:
    """The processes of a kind that do not end: a poll may be at work at any moment, and ends."""
    left, end = set(victims.alive(kind)), time.monotonic() + LINGERING
    while left and time.monotonic() < end:
        time.sleep(PAUSE)
        left &= set(victims.alive(kind))
    return sorted(left)


def _power(lab: labs.Running) -> Iterator[str]:
    for one in lab.cluster().nodes.values():
        if one.powered != lab.lab.node(one.name).is_powered():
            yield f"{one.name} is recorded as powered {'on' if one.powered else 'off'}, and is not"


def defects(lab: labs.Running) -> list[str]:
    """What the daemon's log says of its own defects."""
    lines = (lab.where.log / "daemon.log").read_text(errors="replace").splitlines()
    return [f"the daemon says: {line}" for line in lines if any(defect in line for defect in DEFECTS)]
