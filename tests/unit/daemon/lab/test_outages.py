"""An instance that went down with its node runs elsewhere within the stated time, unless the world was against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import outages, world
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit.daemon.lab import written

if TYPE_CHECKING:
    from collections.abc import Callable

DIED = 300.0
LONG = DIED + 2 + 5 * outages.QUESTION + outages.LIMIT + 1
"""Later than a poll, five questions of five seconds and the time that is allowed after them."""
POLICY: dict[str, Any] = {
    "dead_after": 5,
    "dead_node_policy": "failover",
    "diagnose_interval": 2.0,
    "agent_port": 1813,
}
CALM = (
    "web1 was down for 208 s since node2 died, though node3 has its data and nothing was against a failover for 208 s"
)


def died(*, why: str = "power", parted: float = DIED) -> written.Journal:
    """A pair that was in sync until it parted; web1 went down with node2, whose power is off."""
    journal = written.Journal()
    for node, peer, role in (("node2", "node3", "Primary"), ("node3", "node2", "Secondary")):
        journal.replica(1, node, role, "UpToDate", peer, is_connected=True)
        journal.replica(parted, node, role, "UpToDate", peer, is_connected=False)
    journal.web1(2, "node2", "started", counter=0)
    journal.web1(DIED, "node2", "stopped", "power off", why=why, counter=1500)
    if why == "power":
        journal.note(DIED, "node2", "powered off", ran=["web1"], by="power cut")
    journal.answers(DIED, "node2", "not")
    return journal


def found(
    journal: written.Journal,
    *opcodes: values.Opcode,
    now: float = LONG,
    limit: float = 120.0,
    wanted: tuple[str, ...] = ("web1",),
    is_held: bool = False,
    emergencies: tuple[tuple[float, float], ...] = (),
    **settings: Any,
) -> list[str]:
    policy = outages.Policy(clusters.Settings(**{**POLICY, **settings}), {"web1": limit}, is_held=is_held)
    orders = written.ordered(*opcodes, emergencies=emergencies)
    return list(outages.wrong(journal.events, orders, journal.seen, policy, now=now * written.SECOND, wanted=wanted))


def test_an_instance_that_could_run_elsewhere_is_not_down_for_longer_than_the_stated_time() -> None:
    (wrong,) = found(died())
    assert wrong == f"{CALM} (at most 207 s are allowed)"
    assert found(died(), now=LONG - 2) == []
    journal = died()
    journal.web1(DIED + 100, "node3", "started", "1/0", counter=1500)
    assert found(journal) == []
    late = died()
    late.web1(LONG, "node3", "started", "1/0", counter=1500)
    assert found(late, now=LONG + 500) == [f"{CALM} (at most 207 s are allowed)"], "it came up, and too late"


def test_a_node_that_panicked_is_fenced_and_its_instances_run_elsewhere_where_the_policy_says_so() -> None:
    assert found(died(why="panic"), dead_node_policy="fence") == [f"{CALM} (at most 207 s are allowed)"]
    assert found(died(why="panic")) == [], "its power is on, and nobody may take it"


@pytest.mark.parametrize(
    "settings",
    [{"dead_after": 0}, {"dead_node_policy": "none"}, {"agent_port": 0}, {"diagnose_interval": 0.0}, {"paused": "x"}],
)
def test_where_nobody_may_fail_over_nothing_is_asked_for(settings: dict[str, Any]) -> None:
    assert found(died(), **settings) == []


def replica(disk: str) -> Callable[[written.Journal], None]:
    return lambda journal: journal.replica(DIED + 20, "node3", "Secondary", disk, "node2", is_connected=False)


AGAINST: dict[str, Callable[[written.Journal], None]] = {
    "the node answers": lambda journal: journal.answers(DIED + 20, "node2", "well"),
    "its power came back": lambda journal: journal.note(DIED + 20, "node2", "powered on"),
    "its BMC errs": lambda journal: journal.note(DIED + 20, "node2", world.BMC_FAULTS, faults=["dead"]),
    "the target does not answer well": lambda journal: journal.answers(DIED + 20, "node3", "badly"),
    "another node is away too": lambda journal: journal.answers(DIED + 20, "node4", "not"),
    "the target has booted": lambda journal: journal.note(DIED + 20, "node3", "rebooted", ran=[], by="x"),
    "the controller hears nothing": lambda journal: journal.deaf(DIED + 20, until=LONG),
    "its replica was outdated": replica("Outdated"),
    "its replica is gone": replica(""),
}


@pytest.mark.parametrize("what", AGAINST)
def test_nothing_is_asked_for_while_the_world_is_against_it(what: str) -> None:
    journal = died()
    AGAINST[what](journal)
    assert found(journal) == []
    assert found(journal, now=LONG + 20) == []


def test_what_is_over_gives_the_whole_time_once_more() -> None:
    journal = died()
    journal.answers(DIED + 20, "node4", "not")
    journal.answers(DIED + 40, "node4", "well")
    assert found(journal, now=LONG + 38) == []
    assert len(found(journal, now=LONG + 41)) == 1


def test_a_loss_over_the_limit_waits_for_a_person() -> None:
    assert len(found(died(parted=DIED - 60))) == 1
    assert found(died(parted=DIED - 61)) == [], "60 s until it is known to be off are lost, too"
    assert found(died(), limit=59) == []


def test_a_node_that_said_that_it_wrote_alone_waits_for_a_person() -> None:
    journal = died(parted=DIED - 20)
    journal.report("node2", int(DIED) - 20, int(DIED), alone=True)
    assert found(journal) == []


def test_a_pair_that_was_never_in_sync_waits_for_a_person() -> None:
    journal = written.Journal()
    journal.part(1)
    journal.web1(DIED, "node2", "stopped", "power off", why="power", counter=1500)
    journal.note(DIED, "node2", "powered off", ran=["web1"], by="power cut")
    journal.answers(DIED, "node2", "not")
    assert found(journal) == []


def test_what_a_person_or_an_emergency_took_down_stays_down() -> None:
    assert found(died(), wanted=()) == []
    assert found(died(), is_held=True) == []
    assert found(died(), emergencies=((DIED - 5, DIED + 50),)) == []
    for order in (
        written.opcode("node_role", started=DIED + 5, ended=DIED + 6, node="node2", offline=True),
        written.opcode("power", started=DIED - 5, ended=DIED, node="node2", command="off", force=True),
    ):
        assert found(died(), order) == []
    stopped = written.Journal()
    stopped.web1(DIED, "node2", "stopped", "1/0", why="stop", counter=5)
    assert found(stopped) == []


def test_a_fence_excuses_nothing_and_a_job_that_failed_is_tried_again() -> None:
    fence = written.opcode("power", started=DIED + 10, ended=DIED + 20, node="node2", command="fence")
    assert len(found(died(), fence)) == 1
    failed = values.Opcode(
        "failover",
        {"instance": "web1", "source": "node2", "target": "node3"},
        status=values.Status.ERROR,
        run="0",
        started=DIED + 30,
        ended=DIED + 50,
    )
    assert found(died(), failed, now=LONG + 48) == []
    assert len(found(died(), failed, now=LONG + 51)) == 1
