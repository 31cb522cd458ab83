"""Fencing before failover: no second copy is started while the first may run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.slow
def test_a_failover_starts_nothing_until_its_source_confirms_the_stop_or_reads_off(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3)
    labs.report_all(one)
    one.lab.node("node2").silence(is_silent=True)
    labs.drop(one, "r.json", labs.report(one, "node2", '{"status": "evacuate-failover"}'))

    failed = one.until(states.reads("node2", "failed"), "the incident fails")
    one.until(states.at_rest, "nothing is left in the queue")

    assert "instance2 was not started on node3: node2 neither confirmed the stop" in failed["reason"]
    assert "it reads on" in failed["reason"]
    assert one.cluster().instance("instance2").primary_node == one.cluster().node("node2").uuid
    assert one.wrong() == []

    one.lab.node("node2").set_power(False)
    assert one.put(f"/2/incidents/{failed['id']}/ack").is_success
    completed = one.until(states.reads("node2", "completed"), "the second try completes")

    assert completed["id"] != failed["id"]
    started = [entry["instance"] for entry in one.lab.node("node3").journal() if entry["event"] == "started"]
    assert started.count("instance2") == 1
    cluster = one.cluster()
    assert cluster.instance("instance2").primary_node == cluster.node("node3").uuid
    assert cluster.secondaries(cluster.node("node2").uuid) == []
    assert (cluster.node("node2").offline, cluster.node("node2").powered) == (True, False)
    assert one.wrong() == []
