"""What happens to the lab while it is being killed: reports, jobs, cancels, and changes of the configuration."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.integration import labs, states

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


DIAGNOSES = (
    '{"status": "evacuate", "details": {"disk": "sdb"}}',
    '{"status": "evacuate"}',
    '{"status": "evacuate-failover"}',
    '{"status": "live-repair", "command": "lab-repair"}',
    '{"status": "live-repair"}',
)
MOST_BROKEN = 2
NO_ROOM = "No space left on device"


@dataclass
class Storm:
    """Random events against a lab, all from one seed; an event that is refused is an event too.

    `seen` counts what was asked for and accepted, by kind, and what was refused. While `is_full` the daemon may refuse
    for want of room, and only then.
    """

    lab: labs.Running
    chance: random.Random
    broken: dict[str, str] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    is_full: bool = False

    def blow(self) -> None:
        """Let one thing happen."""
        events: tuple[Callable[[], None], ...] = (
            *(self._break, self._break, self._mend, self._cancel_incident),
            *(self._move, self._move, self._move, self._evacuate, self._power),
            *(self._cancel_job, self._cancel_job),
            *(self._drain, self._tag, self._modify, self._pause),
        )
        self.chance.choice(events)()

    def calm(self) -> None:
        """Mend every node, and let the rounds go on."""
        for node in list(self.broken):
            self._report(node, '{"status": "Ok"}')
        self.broken.clear()
        self._ask("pause", "PUT", "/2/pause", {"reason": ""})

    def _node(self) -> str:
        return f"node{self.chance.randint(2, len(self.lab.lab.nodes()))}"

    def _instance(self) -> str:
        return str(self.chance.choice(self.lab.get("/2/instances"))["id"])

    def _report(self, node: str, text: str) -> None:
        try:
            labs.drop(self.lab, f"{self.seen['report']}.json", labs.report(self.lab, node, text))
        except OSError:
            assert self.is_full, f"there is no room for a report of {node}"
            self.seen["no room"] += 1
        else:
            self.seen["report"] += 1

    def _ask(self, kind: str, method: str, path: str, body: Any = None) -> bool:
        answer = self.lab.ask(method, path, body)
        told = f"{method} {path}: {answer.status_code} {answer.text}"
        if answer.status_code == 507:
            assert self.is_full, told
            assert NO_ROOM in answer.json()["detail"], told
            self.seen["no room"] += 1
        else:
            assert not answer.is_server_error, told
            self.seen[kind if answer.is_success else "refused"] += 1
        return answer.is_success

    def _break(self) -> None:
        node = self._node()
        if node in self.broken or len(self.broken) < MOST_BROKEN:
            self.broken[node] = self.chance.choice(DIAGNOSES)
            self._report(node, self.broken[node])

    def _mend(self) -> None:
        for one in self.lab.get("/1/status"):
            if one["repair-status"] in {"completed", "failed", "canceled"}:
                self._report(one["node_name"], '{"status": "Ok"}')
                self.broken.pop(one["node_name"], None)
                if one["repair-status"] != "canceled":
                    self._ask("ack", "PUT", f"/2/incidents/{one['id']}/ack")
                self._ask("power", "PUT", f"/2/nodes/{one['node_name']}/power", {"command": "on"})
                self._ask("role", "PUT", f"/2/nodes/{one['node_name']}/role?force=1", "online")
                return

    def _cancel_incident(self) -> None:
        if incidents := self.lab.get("/1/status"):
            self._ask("cancel incident", "PUT", f"/2/incidents/{self.chance.choice(incidents)['id']}/cancel")

    def _cancel_job(self) -> None:
        jobs = [one["id"] for one in self.lab.get("/1/jobs") if one["status"] not in states.FINAL]
        if jobs:
            self._ask("cancel job", "DELETE", f"/2/jobs/{self.chance.choice(jobs)}")

    def _move(self) -> None:
        path, mode = f"/2/instances/{self._instance()}", {"mode": "replace_new_secondary"}
        self.chance.choice(
            (
                functools.partial(self._ask, "migrate", "PUT", f"{path}/migrate"),
                functools.partial(self._ask, "failover", "PUT", f"{path}/failover"),
                functools.partial(self._ask, "replace disks", "POST", f"{path}/replace-disks", mode),
            )
        )()

    def _evacuate(self) -> None:
        if self.chance.random() < 0.5:
            path = f"/2/nodes/{self._node()}"
            self._ask("evacuate", "POST", f"{path}/{self.chance.choice(('evacuate', 'migrate'))}")

    def _power(self) -> None:
        command = self.chance.choice(("status", "on", "on", "off", "cycle"))
        self._ask("power", "PUT", f"/2/nodes/{self._node()}/power", {"command": command})

    def _drain(self) -> None:
        role = self.chance.choice(("drained", "undrained", "offline", "online"))
        node = self._node()
        if role != "offline" or not any(one["name"] == node and one["primaries"] for one in self.lab.get("/1/nodes")):
            self._ask("role", "PUT", f"/2/nodes/{node}/role?force={int(self.chance.random() < 0.5)}", role)

    def _tag(self) -> None:
        path = self.chance.choice((f"/2/nodes/{self._node()}/tags", f"/2/instances/{self._instance()}/tags", "/2/tags"))
        tag = f"storm{self.chance.randint(1, 9)}"
        self._ask("tag", self.chance.choice(("PUT", "PUT", "DELETE")), f"{path}?tag={tag}")

    def _modify(self) -> None:
        limit = self.chance.randint(2, 8)
        group = self.chance.choice(self.lab.get("/2/groups"))["name"]
        self.chance.choice(
            (
                functools.partial(self._ask, "modify", "PUT", "/2/modify", {"moves_per_node": limit}),
                functools.partial(self._ask, "modify", "PUT", f"/2/groups/{group}/modify", {"oob_program": "ipmi"}),
                functools.partial(
                    self._ask, "modify", "POST", f"/2/nodes/{self._node()}/modify", {"ctotal": 32 + limit}
                ),
            )
        )()

    def _pause(self) -> None:
        self._ask("pause", "PUT", "/2/pause", {"reason": self.chance.choice(("", "", "", "the storm blows"))})
