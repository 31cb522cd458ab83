"""The daemon is killed, again and again: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import collections
import itertools
import random
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from ansible_collections.roundsman.cluster.daemon import faults
from ansible_collections.roundsman.cluster.daemon.lab import processes

from tests import crash_points

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world

pytestmark = pytest.mark.slow
SEED = 20261120
KILLS = 20


class Mortal(labs.Running):
    """A lab whose daemon can be told to die at a named point; `deaths` counts them by name."""

    def __init__(self, lab: world.Lab, environment: Mapping[str, str], folder: Path) -> None:
        super().__init__(lab, environment)
        self.deaths: collections.Counter[str] = collections.Counter()
        self._folder = folder
        self.start()

    def start(self) -> None:
        super().start()
        (self._folder / "daemon.pid").write_text((self.where.pid_file).read_text())

    def die_after(self, events: int) -> None:
        """Kill the daemon after so many changes of its state, or as soon as nothing changes for a moment."""
        number = self.get("/1/news?after=-1&seconds=0")["number"]
        end = number + events
        while number < end:
            before, number = number, self.get(f"/1/news?after={number}&seconds=0.5")["number"]
            if number == before:
                break
        self.kill()
        self.deaths["anywhere"] += 1
        self.start()

    def die_at(self, point: str, *, node: str) -> bool:
        """Let the daemon die at a point; returns whether it did so before the node's incident ended."""
        (self._folder / point).touch()
        end = time.monotonic() + labs.LIMIT
        number = -1
        while processes.is_running(self.lab, "daemon") and time.monotonic() < end:
            try:
                number = self.get(f"/1/news?after={number}&seconds=5")["number"]
                if self.ended(node)(self) and states.at_rest(self) and (self._folder / point).exists():
                    (self._folder / point).unlink()
                    return False
            except (httpx.HTTPError, FileNotFoundError):
                continue
        hit = self._folder / f"{point}.hit"
        assert hit.exists(), f"the daemon died, and not at {point}\n{self.told()}"
        hit.unlink()
        self.deaths[point] += 1
        self.start()
        return True


def _break(one: Mortal, node: str, kills: list[str], chance: random.Random) -> None:
    """Break a node, and kill the daemon while the node is evacuated."""
    labs.drop(one, f"{node}.json", labs.report(one, node, '{"status": "evacuate"}'))
    one.until(lambda _: one.incident(node), f"{node} is noted")
    while kills and not one.ended(node)(one):
        if (kind := kills.pop()) == "anywhere":
            one.die_after(chance.randint(1, 4))
        elif not one.die_at(kind, node=node):
            kills.insert(0, kind)
    one.until(one.ended(node), f"{node} is evacuated")


def _mend(one: Mortal, node: str) -> None:
    """Acknowledge, mend, and bring the node back."""
    incident = one.incident(node)
    assert incident is not None
    assert one.put(f"/2/incidents/{incident['id']}/ack").is_success
    labs.drop(one, "ok.json", labs.report(one, node, '{"status": "Ok"}'))
    job = one.put(f"/2/nodes/{node}/role?force=1", "online").json()
    assert states.job_ended(one, job)["status"] == "success"
    one.until(states.forgotten(node), f"{node} is forgotten")


def test_a_killed_daemon_loses_nothing_and_does_nothing_twice(lab: Callable[..., labs.Running], tmp_path: Path) -> None:
    folder = tmp_path / "faults"
    environment, settings = crash_points.make(folder), {"power_off_evacuated": False}
    made = lab(nodes=6, instances=12, migration_seconds=0.3, settings=settings, environment=environment)
    one = Mortal(made.lab, environment, folder)
    chance = random.Random(SEED)
    kills = [*faults.POINTS, *["anywhere"] * (KILLS - len(faults.POINTS))]
    chance.shuffle(kills)

    for node in itertools.cycle(("node2", "node5", "node3", "node6")):
        _break(one, node, kills, chance)
        incident = one.incident(node)
        assert incident is not None
        assert (incident["repair-status"], incident["reason"]) == ("completed", "")
        assert one.cluster().node(node).tags == (f"maintd:repairready:{incident['id']}",)
        one.until(states.at_rest, "the round has ended")
        assert one.wrong() == []
        if not kills:
            break
        _mend(one, node)

    assert set(one.deaths) == {*faults.POINTS, "anywhere"}
    assert one.deaths.total() >= KILLS
    assert {job["status"] for job in one.get("/1/jobs")} == {"success"}
    assert one.wrong() == []
