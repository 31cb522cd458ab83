"""Journals written by hand, for the rules of the checker: events at seconds of a clock that starts at 0."""

from __future__ import annotations

from typing import Any

from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import journals, orders, sightings
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

SECOND = 10**9
NAMES = {name: name for name in ("web1", "node1", "node2", "node3", "node4")}


class Journal:
    """The events of a lab whose nodes are polled every `poll` seconds, by their agents if it says so."""

    def __init__(self, *, poll: float = 2.0, has_agents: bool = True) -> None:
        self._events: list[dict[str, Any]] = []
        self._settings = clusters.Settings(diagnose_interval=poll, agent_port=1813 if has_agents else 0)

    @property
    def events(self) -> list[journals.Event]:
        """All events in their order."""
        return sorted(self._events, key=lambda event: event["ns"])

    @property
    def seen(self) -> sightings.Sightings:
        """What a controller that listened had to know."""
        return sightings.read(self.events, self._settings, nodes=4)

    def note(self, at: float, node: str, event: str, *, instance: str = "", **keys: Any) -> None:
        """One event."""
        about = {"instance": instance} if instance else {}
        self._events.append({"ns": int(at * SECOND), "node": node, "event": event, "opcode": "", **about, **keys})

    def web1(self, at: float, node: str, event: str, opcode: str = "", **keys: Any) -> None:
        """One event of the only instance."""
        self.note(at, node, event, instance="web1", opcode=opcode, **keys)

    def report(self, node: str, since: int, until: int, *, alone: bool = False) -> None:
        """A report each second; `alone` says that web1 writes there without its secondary."""
        for second in range(since, until):
            self.note(second + 0.5, node, "reported", alone=["web1"] if alone else [])

    def replica(self, at: float, node: str, role: str, disk: str, peer: str, *, is_connected: bool) -> None:
        """How the replica on a node is from now on."""
        state: dict[str, Any] = {"role": role, "disk": disk, "peer": peer, "is_connected": is_connected}
        self.web1(at, node, "replica", resource="web1-disk0", **state)

    def part(self, at: float, *, primary: str = "node2", secondary: str = "node3") -> None:
        """The pair loses each other."""
        self.replica(at, primary, "Primary", "UpToDate", secondary, is_connected=False)
        self.replica(at, secondary, "Secondary", "UpToDate", primary, is_connected=False)

    def answers(self, at: float, node: str, how: str) -> None:
        """How a node answers from now on."""
        self.note(at, node, "answers", how=how)

    def deaf(self, at: float, *, until: float) -> None:
        """The controller is frozen for a while."""
        self.note(at, "", "controller", why="frozen", is_deaf=True)
        self.note(until, "", "controller", why="frozen", is_deaf=False)


def opcode(kind: str, *, started: float, ended: float = 0.0, result: Any = None, **params: Any) -> values.Opcode:
    """An opcode that ran, by the same clock."""
    status = values.Status.SUCCESS if ended else values.Status.RUNNING
    return values.Opcode(kind, params, status=status, run="0", started=started, ended=ended, result=result)


def ordered(*opcodes: values.Opcode, **known: Any) -> orders.Orders:
    """Orders of jobs of one opcode each, numbered from 1."""
    return orders.Orders({f"{number}/0": one for number, one in enumerate(opcodes, start=1)}, NAMES, **known)
