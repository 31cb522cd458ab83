"""A person who looks after a lab: brings back nodes, starts instances, and repairs pairs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import left_replicas

from tests.chaos import scenes, stage
from tests.integration import states

if TYPE_CHECKING:
    from tests.chaos.doors import Doors
    from tests.chaos.faults import Faults
    from tests.integration import labs

LOOK = 5.0
"""Seconds between two looks."""
MOST_JOBS = 6
"""Jobs that have not ended: with as many nobody asks for more."""
PATIENCE = 12.0
"""Seconds between two requests about the same thing."""


class Caretaker:
    """Asks for the next thing about whatever is not well; nodes of a scene are left alone."""

    def __init__(self, lab: labs.Running, doors: Doors, faults: Faults) -> None:
        self._lab, self._doors, self._faults = lab, doors, faults
        self._looked = 0.0
        self._asked: dict[str, float] = {}
        self._times: dict[str, int] = {}

    def tend(self) -> None:
        """Look around, now and then."""
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        jobs = [job for job in self._doors.get("/1/jobs") or [] if job["status"] not in states.FINAL]
        if len(jobs) >= MOST_JOBS:
            return
        busy = {uuid for job in jobs for uuid in job["names"]}
        for incident in self._doors.get("/1/status") or []:
            if incident["repair-status"] in {"completed", "failed"}:
                self._ask("ack", "PUT", f"/2/incidents/{incident['id']}/ack")
        cluster = self._lab.cluster()
        for uuid, node in cluster.nodes.items():
            if uuid not in busy and node.name not in self._away():
                self._bring_back(node)
        for uuid, one in cluster.instances.items():
            nodes = {cluster.node_name(node) for node in one.nodes}
            if not busy & {uuid, *one.nodes} and not nodes & self._away():
                self._look_after(cluster, one)

    def _away(self) -> set[str]:
        return {*self._faults.reserved, *(fault.node for fault in self._faults.standing)}

    def _bring_back(self, node: clusters.Node) -> None:
        if node.off_confirmed:
            self._ask("confirm off", "PUT", f"/2/nodes/{node.name}/confirm-off?undo=true")
        elif not node.powered or not self._lab.lab.node(node.name).is_powered():
            self._ask("power on", "PUT", f"/2/nodes/{node.name}/power", {"command": "on"})
        elif node.offline or node.drained:
            force = int(self._times.get(f"/2/nodes/{node.name}/role?force=0", 0) % 3 == 2)
            self._ask("online", "PUT", f"/2/nodes/{node.name}/role?force={force}", "online")

    def _look_after(self, cluster: clusters.Cluster, one: clusters.Instance) -> None:
        primary, *others = (self._lab.lab.node(cluster.node_name(uuid)) for uuid in one.nodes)
        if one.name not in fake.Driver(primary.root, opcode="").running():
            self._start(one)
        elif made := left_replicas.being_made(cluster, one.uuid):
            body = {"mode": "replace_new_secondary", "remote_node": cluster.node_name(made[0].node)}
            self._ask("replace disks", "POST", f"/2/instances/{one.name}/replace-disks", body)
        elif others and not stage.is_in_sync(one.name, primary):
            path = f"/2/instances/{one.name}/repair-disks"
            # A person looks twice before writes are given up.
            body = {"discard": others[0].name} if self._times.get(path, 0) % 3 == 2 else {}
            self._ask("repair disks", "PUT", path, body)
        else:
            self._forget(one.name)

    def _start(self, one: clusters.Instance) -> None:
        """Start an instance; if that does not help stop what is left of it, or fail it over."""
        path = f"/2/instances/{one.name}"
        times = self._times.get(f"{path}/startup", 0)
        if times % 3 == 2:
            scenes.end_paused(self._lab.lab.nodes(), one.name)
        for kind in ("startup",) if times % 3 < 2 else ("shutdown", "startup", "failover"):
            self._ask(kind, "PUT", f"{path}/{kind}", {}, is_urgent=times % 3 == 2 and kind != "shutdown")

    def _ask(self, what: str, method: str, path: str, body: Any = None, *, is_urgent: bool = False) -> None:
        now = time.monotonic()
        if now - self._asked.get(path, -PATIENCE) >= PATIENCE or is_urgent:
            self._asked[path] = now
            self._times[path] = self._times.get(path, 0) + 1
            self._doors.ask(what, method, path, body, door="socket")

    def _forget(self, instance: str) -> None:
        """Nothing has to be done about an instance: what was tried does not count any more."""
        for path in [path for path in self._times if path.startswith(f"/2/instances/{instance}/")]:
            del self._times[path]
