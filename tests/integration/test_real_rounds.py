"""Rounds on real hosts: a QEMU that counts leaves a node that reports itself broken, whatever is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.testbed import building, counter

from . import counting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(900)]


class Round(counting.Counting):
    """A daemon at work for the containers, and one instance on node1."""

    def ended(self, node: str) -> dict[str, Any]:
        """The incident of a node, at its end."""
        found: dict[str, Any] = self.hand.until(self.hand.ended(node), f"the incident of {node} ends")
        return found

    def start(self) -> None:
        self.hand.start()
        assert self.hand.put(f"/2/instances/{counting.NAME}/startup").status_code == 200
        self.hand.until(lambda _: self.disk.exists() and self.running() == ["node1"], "it runs")
        self.await_more()


@pytest.fixture
def at_work(containers: beds.Bed) -> Iterator[Callable[..., Round]]:
    """Makes a round's world for one test; after it the containers are empty and the configuration is as it was."""
    empty, made = store.read(containers.where.config), []

    def make(**hvparams: str) -> Round:
        one = Round(containers, counting.instance(empty, admin_state="down", **hvparams))
        made.append(one)
        one.start()
        return one

    yield make
    for one in made:
        processes.down(one.hand.lab)
    counting.leave_empty(containers, empty)
    building.start_bmcs(containers)


def assert_left(one: Round, incident: dict[str, Any]) -> str:
    """node1 is empty, offline and tagged, and one copy runs where the configuration says; gives that node."""
    cluster = one.hand.cluster()
    node = cluster.node("node1")
    assert (incident["repair-status"], cluster.primaries(node.uuid)) == ("completed", [])
    assert (node.offline, node.tags) == (True, (f"maintd:repairready:{incident['id']}",))
    [where] = one.running()
    assert cluster.instance(counting.NAME).primary_node == cluster.node(where).uuid
    assert where != "node1"
    return where


def test_it_counts_on_while_a_round_takes_it_from_a_node_that_reports_evacuate(
    at_work: Callable[..., Round],
) -> None:
    one = at_work()
    one.bed.say("node1", {"status": "evacuate", "details": {"disk": "sda"}})
    assert_left(one, one.ended("node1"))
    one.await_more()
    counter.check(one.counts(), boots=1)


def test_it_is_started_elsewhere_when_a_node_reports_evacuate_failover(at_work: Callable[..., Round]) -> None:
    one = at_work()
    one.bed.say("node1", {"status": "evacuate-failover"})
    assert_left(one, one.ended("node1"))
    one.await_more()
    counter.check(one.counts(), boots=2)
    assert one.counts()[-1].boots == 2


def test_it_runs_once_though_daemon_and_play_are_killed_while_it_moves(at_work: Callable[..., Round]) -> None:
    one = at_work(migration_bandwidth="2")
    one.bed.say("node1", {"status": "evacuate"})
    one.await_moving()
    one.hand.kill()
    one.hand.start()
    assert_left(one, one.ended("node1"))
    one.await_more()
    counter.check(one.counts(), boots=1)
