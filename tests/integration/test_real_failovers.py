"""Failovers that nobody orders, on two real machines with agents: how much is lost is counted from outside.

The machines are guests of QEMU; what an instance had counted before its node was cut off is compared with what its
replica says. Each test begins and ends with an instance whose replicas are in sync.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.testbed import building, counter, guests, nodes, wires

from . import counting_guests, states
from .counting_guests import LIMIT, NAME, SERIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.testbed import beds

    from . import labs

pytestmark = [pytest.mark.slow, pytest.mark.guests, pytest.mark.timeout(1800)]
PORT = 1815
UNIT = "/etc/systemd/system/roundsman-agent.service"
LIMIT_OF_LOSS = 120
SETTINGS = (f"agent_port={PORT}", "diagnose_interval=10", "dead_after=3", f"failover_max_loss={LIMIT_OF_LOSS}")


class Story(counting_guests.Story):
    """Where the instance runs, what it lost, and how a node comes back."""

    def other(self, node: str) -> str:
        return "node2" if node == "node1" else "node1"

    def await_both(self) -> str:
        """Wait until both agents have reported the replicas in sync; the primary."""
        (primary,) = self.running()
        self.assert_healthy(primary)
        in_sync = "Connected, UpToDate/UpToDate, reported"

        def are_heard() -> bool:
            known = {node["name"]: node["health"] for node in self.daemon.get("/1/nodes")}
            return known["node1"] == known["node2"] == "Ok" and in_sync in self.command("explain", NAME)

        self.until(are_heard, "both agents answer, and the primary reports its replica in sync")
        return primary

    def await_failover(self, to: str, *, boots: int) -> int:
        """Wait until it runs there, booted so often; how far it had counted in the replica that it began with."""
        self.until(lambda: self.running() == [to], f"it runs on {to}")
        self.until(lambda: boots in [count.boots for count in self.boots(to)], "it tells that it has booted")
        return next(count.count for count in self.boots(to) if count.boots == boots)

    def boots(self, node: str) -> list[counter.Count]:
        """What it told first after each boot on a node."""
        told = counter.told(self.bed.run(node, f"cat {SERIAL}", check=False).stdout)
        return [next(group) for _, group in itertools.groupby(told, key=lambda count: count.boots)]

    def take_back(self, node: str, *discard: str) -> None:
        """A person gives a node power, has it back in service, and its replica repaired."""
        if node not in nodes.running(self.bed):
            self.command("node", "power", "on", node)
        building.await_node(self.bed, node, seconds=building.BOOT)
        incident = self.daemon.until(states.reads(node, "completed"), f"{node} answers", seconds=LIMIT)
        self.command("incident", "ack", incident["id"])
        self.command("node", "online", node, "--force")
        self.command("instance", "repair-disks", NAME, *discard, *(["--yes"] if discard else []))
        self.assert_healthy(self.other(node))


@pytest.fixture(scope="module")
def story(guests: beds.Bed) -> Iterator[Story]:
    """The daemon, the instance, and an agent on each node."""
    known = store.read(guests.where.config)
    try:
        with counting_guests.at_work(guests) as one:
            made = Story(one.bed, one.daemon)
            # The guests have no network beyond this machine; what the role would install is there.
            options = {"node_agent_packages": [], "node_agent_cluster_key": str(guests.where.hmac_key)}
            made.command("cluster", "modify", *SETTINGS)
            made.play("node_agent.yml", "--limit", "node1:node2", "-e", json.dumps(options))
            yield made
    finally:
        for node in nodes.running(guests):
            guests.run(node, f"systemctl disable --now roundsman-agent; rm -f {UNIT}", check=False)
        store.write(guests.where.config, known)


def test_after_a_power_cut_it_runs_elsewhere_with_all_that_it_had_written(story: Story) -> None:
    primary = story.await_both()
    story.command("cluster", "modify", "dead_node_policy=failover")
    known = story.await_more(primary)
    guests.set_power(story.bed, primary, on=False)
    begun = story.await_failover(story.other(primary), boots=known.boots + 1)
    assert begun > known.count
    story.take_back(primary)


def refused(text: str) -> Callable[[labs.Running], bool]:
    """Whether a round would not move the instance, for a reason with a text."""

    def look(one: labs.Running) -> bool:
        reasons = [refusal["reason"] for refusal in one.get("/1/plan")["refusals"] if refusal["subject"] == NAME]
        return any(text in reason for reason in reasons)

    return look


def test_a_primary_that_wrote_alone_waits_for_a_person_who_gives_up_what_it_wrote(story: Story) -> None:
    primary = story.await_both()
    other = story.other(primary)
    story.command("cluster", "modify", "dead_node_policy=failover")
    known = story.disk(primary)
    wires.cut(story.bed, primary, "secondary", is_cut=True)
    try:
        alone = known.count + math.ceil((LIMIT_OF_LOSS + 60) * counter.PER_SECOND)
        story.until(lambda: story.disk(primary).count > alone, "it writes alone for longer than the limit")
        last = story.disk(primary)
        guests.set_power(story.bed, primary, on=False)
        story.daemon.until(refused(f"on {other} is Outdated"), "it waits for a person", seconds=LIMIT)
        assert story.running() == []
    finally:
        wires.cut(story.bed, primary, "secondary", is_cut=False)
    story.command("instance", "failover", NAME, "--ignore-consistency", "--yes")
    begun = story.await_failover(other, boots=known.boots + 1)
    assert begun < last.count, "what it wrote alone is not there: that is what was asked"
    story.take_back(primary, "--discard", primary)


def test_a_node_that_panicked_is_fenced_before_it_is_failed_over(story: Story) -> None:
    primary = story.await_both()
    story.command("cluster", "modify", "dead_node_policy=fence")
    known = story.await_more(primary)
    story.bed.run(primary, "sysctl -q kernel.panic=0 kernel.sysrq=1")
    story.bed.run(primary, "(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &")
    story.until(lambda: nodes.running(story.bed) == {story.other(primary)}, "it is powered off")
    begun = story.await_failover(story.other(primary), boots=known.boots + 1)
    assert begun > known.count
    story.take_back(primary)
