"""What happens to the lab while it is being killed: reports, jobs, cancels, and changes of the configuration."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from tests.integration import labs

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


@dataclass
class Storm:
    """Random events against a lab, all from one seed; an event that is refused is an event too."""

    lab: labs.Running
    chance: random.Random
    broken: dict[str, str] = field(default_factory=dict)
    told: int = 0
    refused: int = 0

    def blow(self) -> None:
        """Let one thing happen."""
        events: list[Callable[[], None]] = [
            self._break,
            self._break,
            self._mend,
            self._cancel_incident,
            self._cancel_job,
            self._drain,
            self._power,
            self._tag,
            self._pause,
        ]
        # The daemon may be dead, or about to be: then nothing was asked.
        with contextlib.suppress(httpx.HTTPError, OSError):
            self.chance.choice(events)()

    def calm(self) -> None:
        """Mend every node, and let the rounds go on."""
        for node in list(self.broken):
            self._report(node, '{"status": "Ok"}')
        self.broken.clear()
        self._put("/2/pause", {"reason": ""})

    def _node(self) -> str:
        return f"node{self.chance.randint(2, len(self.lab.lab.nodes()))}"

    def _report(self, node: str, text: str) -> None:
        self.told += 1
        labs.drop(self.lab, f"{self.told}.json", labs.report(self.lab, node, text))

    def _put(self, path: str, body: Any = None) -> httpx.Response:
        answer = self.lab.put(path, body)
        self.refused += answer.is_client_error
        assert not answer.is_server_error, f"PUT {path}: {answer.status_code} {answer.text}"
        return answer

    def _break(self) -> None:
        node = self._node()
        if node in self.broken or len(self.broken) < MOST_BROKEN:
            self.broken[node] = self.chance.choice(DIAGNOSES)
            self._report(node, self.broken[node])

    def _mend(self) -> None:
        incidents = self.lab.get("/1/status")
        for one in incidents:
            if one["repair-status"] in {"completed", "failed", "canceled"}:
                self._report(one["node_name"], '{"status": "Ok"}')
                self.broken.pop(one["node_name"], None)
                if one["repair-status"] != "canceled":
                    self._put(f"/2/incidents/{one['id']}/ack")
                self._put(f"/2/nodes/{one['node_name']}/role?force=1", "online")
                return

    def _cancel_incident(self) -> None:
        if incidents := self.lab.get("/1/status"):
            self._put(f"/2/incidents/{self.chance.choice(incidents)['id']}/cancel")

    def _cancel_job(self) -> None:
        jobs = [one["id"] for one in self.lab.get("/1/jobs") if one["status"] not in {"success", "error", "canceled"}]
        if jobs and self.chance.random() < 0.3:
            self.lab.delete(f"/2/jobs/{self.chance.choice(jobs)}")

    def _drain(self) -> None:
        role = self.chance.choice(("drained", "undrained", "offline", "online"))
        node = self._node()
        if role != "offline" or not any(one["name"] == node and one["primaries"] for one in self.lab.get("/1/nodes")):
            self._put(f"/2/nodes/{node}/role?force={int(self.chance.random() < 0.5)}", role)

    def _power(self) -> None:
        self._put(f"/2/nodes/{self._node()}/power", {"command": self.chance.choice(("status", "on"))})

    def _tag(self) -> None:
        self._put(f"/2/nodes/{self._node()}/tags?tag=storm{self.chance.randint(1, 9)}")

    def _pause(self) -> None:
        self._put("/2/pause", {"reason": self.chance.choice(("", "", "the storm blows"))})
