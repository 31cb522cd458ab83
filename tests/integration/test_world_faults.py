"""Each fault of a lab is seen by the product: what it makes of it is the matter of other tests."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import standing_faults

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

PAIRS = (("node2", "node3"), ("node2", "node3"), ("node3", "node2"))


def impatient(cluster: clusters.Cluster) -> clusters.Cluster:
    """A cluster whose guests get a second for a soft stop."""
    instances = {
        uuid: dataclasses.replace(instance, hvparams={**instance.hvparams, "shutdown_timeout": "1"})
        for uuid, instance in cluster.instances.items()
    }
    return dataclasses.replace(cluster, instances=instances)


def end(one: labs.Running, node: str, instance: str) -> str:
    """Why an instance ended on a node when it last did, by the node's journal."""
    found = [entry for entry in one.lab.node(node).journal() if entry.get("instance") == instance]
    why: str = [entry["why"] for entry in found if entry["event"] == "stopped"][-1]
    return why


def do(one: labs.Running, path: str, **body: Any) -> dict[str, Any]:
    """Ask for a job, and wait for its end."""
    answer = one.put(path, body or None)
    assert answer.is_success, answer.text
    job = answer.json()
    return states.job_ended(one, job if isinstance(job, int) else job["id"])


def break_(one: labs.Running, *words: str) -> None:
    """Use `roundsman lab break` as a person does."""
    done = states.command(one, "lab", "break", *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_guests_end_in_every_way_and_what_ended_is_started_again(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIRS, edit=impatient)

    break_(one, "node2", "--ignore-stop", "instance1", "--slow-stop", "instance2=0.2")
    assert do(one, "/2/instances/instance1/shutdown")["status"] == "success"
    assert do(one, "/2/instances/instance2/shutdown")["status"] == "success"
    ends = [end(one, "node2", name) for name in ("instance1", "instance2")]
    assert ends == ["destroy", "stop"]
    for name in ("instance1", "instance2"):
        assert do(one, f"/2/instances/{name}/startup")["status"] == "success"

    break_(one, "node2", "--crash", "instance1", "--user-shutdown", "instance2")
    for name, why in (("instance1", "crash"), ("instance2", "user")):
        assert end(one, "node2", name) == why
        assert f"{name} runs on [] in truth" in one.wrong()
        assert do(one, f"/2/instances/{name}/startup")["status"] == "success"
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_that_reboots_is_away_and_has_lost_what_ran_there(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIRS)
    node, boot = one.lab.node("node2"), one.lab.node("node2").boot_id()

    break_(one, "node2", "--reboot", "--boot-seconds", "3600")
    assert node.boot_id() not in {"", boot}
    away = one.play("diagnose.yml", "--limit", "node2")
    assert "node2 does not answer in 3 tries" in away.stdout
    assert standing_faults.fix(node, "reboot")
    back = one.play("diagnose.yml", "--limit", "node2")
    assert back.returncode == 0, back.stdout
    assert [end(one, "node2", name) for name in ("instance1", "instance2")] == ["reboot"] * 2
    assert {"instance1 runs on [] in truth", "instance2 runs on [] in truth"} <= set(one.wrong())
    for name in ("instance1", "instance2"):
        assert do(one, f"/2/instances/{name}/startup")["status"] == "success"
    assert one.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "runs_on", "said"),
    [
        ("before", "node2", "the target node does not answer"),
        ("during", "node2", "it still runs here"),
        ("after", "node3", "before its end was confirmed"),
        ("paused", "", "paused"),
    ],
)
def test_a_migration_fails_in_each_phase(lab: Callable[..., labs.Running], phase: str, runs_on: str, said: str) -> None:
    one = lab(nodes=3, pairs=PAIRS)
    break_(one, "node2", "--migration", phase)

    ended = do(one, "/2/instances/instance1/migrate", mode="live")

    assert said in json.dumps(ended), ended
    places = [
        node.name for node in one.lab.nodes() if (node.root / "var/lib/roundsman/fake/running/instance1.json").exists()
    ]
    assert places == ([runs_on] if runs_on else [])


@pytest.mark.slow
def test_a_node_answers_garbage_late_or_not_at_all(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIRS)

    break_(one, "node2", "--garbage", "instead")
    assert "failed=1" in one.play("diagnose.yml", "--limit", "node2").stdout
    break_(one, "node2", "--garbage", "before", "--late", "0.5")
    assert one.play("diagnose.yml", "--limit", "node2").returncode == 0
    break_(one, "node2", "--silent")
    assert "node2 does not answer in 3 tries" in one.play("diagnose.yml", "--limit", "node2").stdout
    assert states.command(one, "lab", "fix", "node2").returncode == 0
    assert one.play("diagnose.yml", "--limit", "node2").returncode == 0
    assert one.wrong() == []


@pytest.mark.slow
def test_a_bmc_errs_in_each_way(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, instances=0, pairs=())
    for node, fault in (("node2", "stale-off"), ("node3", "late=2"), ("node4", "lying")):
        break_(one, node, "--bmc", fault)

    rows = {
        row["name"]: row["after"]
        for row in do(one, "/2/power", command="status", nodes=["node2", "node3", "node4"])["results"][0]
    }

    assert rows == {"node2": "off", "node3": "on", "node4": "off"}
    assert all(node.is_powered() for node in one.lab.nodes())
