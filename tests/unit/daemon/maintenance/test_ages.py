"""What was known too long ago is not known: nowhere does it read as health."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.api import snapshots, views
from ansible_collections.roundsman.cluster.daemon.cli import wording
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, roles

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

OK = '{"status":"Ok"}'
EVACUATE = '{"status":"evacuate"}'


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, diagnose_interval=2.0)


def hear(lab: world.Lab, monkeypatch: pytest.MonkeyPatch, said: str = OK) -> service.Service:
    """A service that has heard node2, and all others say Ok."""
    running, _ = twins.assemble(lab, monkeypatch)
    for name in ("node1", "node2", "node3", "node4"):
        twins.report(lab, running, name, said if name == "node2" else OK)
    asyncio.run(running.intake.take_all())
    return running


def health(running: service.Service) -> dict[str, str]:
    """The word of each node, the same in all places that show it."""
    cluster = running.configuration.current
    told: list[dict[str, Any]] = views.nodes(snapshots.Snapshot(cluster), running.intake)
    reported = views.reports(cluster, running.intake, poll_problem="")["nodes"]
    assert {one["name"]: one["health"] for one in told} == {name: one["health"] for name, one in reported.items()}
    return {one["name"]: wording.health(one) for one in told}


def later(running: service.Service, seconds: float) -> None:
    running.intake._clock = lambda: time.time() + seconds


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_health_that_is_too_old_or_from_the_future_is_unknown(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    running = hear(lab, monkeypatch)
    assert set(health(running).values()) == {"Ok"}
    later(running, seconds)
    assert set(health(running).values()) == {"unknown"}


def test_the_age_of_what_is_known_survives_a_restart(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    running = hear(lab, monkeypatch)
    node = running.configuration.current.node("node3")
    old = time.time() - 3600
    os.utime(running.where.reports / f"{node.uuid}.json", (old, old))
    again, _ = twins.assemble(lab, monkeypatch)
    assert health(again) == {"node1": "Ok", "node2": "Ok", "node3": "unknown", "node4": "Ok"}


def test_a_node_without_power_is_off_and_an_offline_one_unknown_whatever_they_said(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = hear(lab, monkeypatch)
    cluster = running.configuration.current
    dark, offline = cluster.node("node3"), cluster.node("node4")
    asyncio.run(
        running.configuration.commit(
            lambda head: [changes.NodePowered(dark.uuid, powered=False), *roles.change(head, offline, offline=True)]
        )
    )
    assert health(running) == {"node1": "Ok", "node2": "Ok", "node3": "off", "node4": "unknown"}


def test_an_ok_that_is_too_old_is_no_ok_of_a_node_that_comes_back(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = hear(lab, monkeypatch)
    node = running.configuration.current.node("node2").uuid
    assert running.intake.reported_ok_since(node, time.time() - 60)
    later(running, 3600)
    assert not running.intake.reported_ok_since(node, time.time() - 60)


def test_an_incident_stays_as_it_is_when_its_report_grows_old(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    running = hear(lab, monkeypatch, EVACUATE)

    async def scenario() -> None:
        await running.rounds.step()
        before = running.configuration.current.maintenance.incidents
        assert [one.action.value for one in before] == ["evacuate"]
        later(running, 3600)
        await running.rounds.step()
        after = running.configuration.current.maintenance.incidents
        assert [one.uuid for one in after] == [one.uuid for one in before]
        await running.queue.stop()

    asyncio.run(scenario())
    assert health(running)["node2"] == "unknown"
