from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import guards, rounds, unfinished, work
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from . import tables

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Refusal

EIGHT = "\n".join(f"node{k} 9000 9000" for k in range(1, 9))
THREE = "\n".join(f"incident a{k} node{k} evacuate noted 100" for k in range(1, 4))


def _storm(table: str) -> bool:
    cluster = tables.read(table)
    return guards.storm(cluster, cluster.maintenance.incidents[0]) is not None


def test_a_pause_holds_everybody_with_its_text() -> None:
    cluster = tables.read("node1 9 9\nincident a1 node1 live-repair noted 1\nsettings paused=audit")
    refusal = guards.paused(cluster, cluster.maintenance.incidents[0])
    assert refusal is not None
    assert (refusal.subject, refusal.reason, refusal.permanent) == (
        "node1",
        "maintenance is paused: audit",
        False,
    )


def test_without_a_text_nothing_is_paused() -> None:
    cluster = tables.read("node1 9 9\nincident a1 node1 live-repair noted 1")
    assert guards.paused(cluster, cluster.maintenance.incidents[0]) is None


def test_three_of_eight_nodes_asking_are_a_storm_and_the_cure_is_named() -> None:
    cluster = tables.read(f"{EIGHT}\n{THREE}")
    refusal = guards.storm(cluster, cluster.maintenance.incidents[0])
    assert refusal is not None
    assert refusal.reason == "storm: 3 of 8 nodes ask for evacuation; the fault may be elsewhere"
    assert refusal.unblock == "at most 2 nodes asking: cancel incidents, or raise storm_fraction or storm_minimum"
    assert (refusal.subject, refusal.incident, refusal.permanent) == ("node1", "a1", False)


def test_a_fraction_that_is_reached_but_not_exceeded_is_no_storm() -> None:
    twelve = EIGHT + "".join(f"\nnode{k} 9 9" for k in range(9, 13))
    assert not _storm(f"{twelve}\n{THREE}")
    assert _storm(f"{twelve.replace('node12 9 9', '')}\n{THREE}")


def test_fewer_nodes_than_the_minimum_are_no_storm() -> None:
    assert not _storm(f"node1 9 9\nnode2 9 9\n{THREE.rsplit(chr(10), 1)[0]}")


def test_a_node_that_asks_twice_counts_once() -> None:
    assert not _storm(f"{EIGHT}\n{THREE.replace('node3', 'node2')}")


def test_live_repairs_and_finished_incidents_ask_for_no_evacuation() -> None:
    assert not _storm(f"{EIGHT}\n{THREE.replace('a3 node3 evacuate', 'a3 node3 live-repair')}")
    assert not _storm(f"{EIGHT}\n{THREE.replace('a3 node3 evacuate noted', 'a3 node3 evacuate failed')}")


def test_offline_and_incapable_nodes_do_not_count_among_all_unless_they_ask() -> None:
    many = EIGHT + "".join(f"\nnode{k} 9 9 offline\nnode{k + 10} 9 9 incapable" for k in range(9, 13))
    assert _storm(f"{many}\n{THREE}")
    asking_offline = many.replace("node1 9000 9000", "node1 9000 9000 offline")
    cluster = tables.read(f"{asking_offline}\n{THREE}")
    refusal = guards.storm(cluster, cluster.maintenance.incidents[0])
    assert refusal is not None
    assert "3 of 8" in refusal.reason


def test_the_limits_are_settings() -> None:
    assert not _storm(f"{EIGHT}\n{THREE}\nsettings storm_minimum=4")
    assert not _storm(f"{EIGHT}\n{THREE}\nsettings storm_fraction=0.5")


def test_a_node_is_not_drained_before_what_is_failed_over_to_it_has_started_there() -> None:
    cluster = tables.read(
        "node1 9 9 unpowered\nnode2 9 9\nnode3 9 9\ninstance1 drbd 1 1 node1 node2\nincident b1 node2 evacuate noted 2"
    )
    (incident,) = cluster.maintenance.incidents
    params = {"instance": "u-instance1", "source": "u-node1", "target": "u-node2"}
    coming = unfinished.Job(7, (work.Opcode("failover", params),))
    refusal = guards.awaited(cluster, incident, unfinished.claims(cluster, [coming]))
    assert refusal is not None
    assert refusal.reason == "waits: job 7 fails an instance over to it"
    assert refusal.unblock == "the end of job 7"
    elsewhere = work.Opcode("failover", {**params, "target": "u-node3"})
    off_a_node_that_answers = work.Opcode("failover", {**params, "source": "u-node3"})
    others = [unfinished.Job(7, (elsewhere,)), unfinished.Job(8, (off_a_node_that_answers,))]
    assert guards.awaited(cluster, incident, unfinished.claims(cluster, others)) is None


def test_a_node_that_left_the_cluster_asks_for_nothing() -> None:
    cluster = tables.read(f"{EIGHT}\n{THREE}")
    nodes = {uuid: one for uuid, one in cluster.nodes.items() if uuid != "u-node3"}
    left = dataclasses.replace(cluster, nodes=nodes)
    assert guards.storm(left, left.maintenance.incidents[0]) is None


FIVE = "".join(f"node{k} 8192 3100\n" for k in range(1, 6))
"""Three replicas of the standard size (1024 MiB of disk) fit on each node."""
ONE = "incident a1 node1 evacuate noted 100\ninstance1 drbd 128 1024 node1 node2\n"


def _reserve(table: str, count: int, begun: tuple[str, ...] = ()) -> Refusal | None:
    cluster = tables.read(f"{table}settings capacity_reserve={count}\n")
    nodes = frozenset(tables.u(name) for name in begun)
    return guards.capacity(cluster, cluster.maintenance.incidents[0], begun=nodes, avoid=nodes)


def test_an_evacuation_waits_where_too_few_instances_would_fit_after_it() -> None:
    assert _reserve(FIVE + ONE, 5) is None
    refusal = _reserve(FIVE + ONE, 6)
    assert refusal is not None
    assert refusal.reason == (
        "capacity: 5 instances of 128 MiB of memory and 1024 MiB of disk would fit after it, and 6 shall"
    )
    assert refusal.unblock == "room for 1 more, or a capacity_reserve of at most 5"
    assert (refusal.subject, refusal.incident, refusal.permanent) == ("node1", "a1", False)


def test_what_has_begun_is_not_held_for_capacity_but_counts_for_the_next() -> None:
    assert _reserve(FIVE + ONE.replace("noted", "pending"), 6) is None
    assert _reserve(FIVE + ONE, 3, begun=("node5",)) is None
    assert _reserve(FIVE + ONE, 4, begun=("node5",)) is not None


def test_no_reserve_holds_up_what_is_down_on_a_node_that_is_off() -> None:
    cluster = tables.read(f"{FIVE}{ONE}settings capacity_reserve=6\n")
    incident = cluster.maintenance.incidents[0]
    off = clusters.with_node(cluster, dataclasses.replace(cluster.nodes[incident.node], powered=False))
    assert guards.capacity(cluster, incident, begun=(), avoid=()) is not None
    assert guards.capacity(off, incident, begun=(), avoid=()) is None


def test_without_a_reserve_no_capacity_is_counted() -> None:
    cluster = tables.read(FIVE + ONE)
    unknown = dataclasses.replace(cluster.instances["u-instance1"], disk_template="tape")
    unread = dataclasses.replace(cluster, instances={unknown.uuid: unknown})
    assert guards.capacity(unread, unread.maintenance.incidents[0], begun=(), avoid=()) is None


def test_capacity_is_counted_under_the_limits_that_are_set() -> None:
    cluster = tables.read(f"{FIVE}{ONE}settings capacity_reserve=5\n")
    own = dataclasses.replace(cluster.cluster, max_disk_usage=0.9)
    limited = dataclasses.replace(cluster, cluster=own)
    incident = cluster.maintenance.incidents[0]
    assert guards.capacity(cluster, incident, begun=(), avoid=()) is None
    assert guards.capacity(limited, incident, begun=(), avoid=()) is not None


@pytest.mark.parametrize(
    ("ndparams", "off"),
    [
        ({"oob_program": "ipmi"}, "power it off with `roundsman node power off node2 --force`"),
        ({}, "power it off on site, and run `roundsman node confirm-off node2`"),
    ],
)
def test_a_dead_node_that_lived_since_it_was_known_to_be_off_waits_until_it_is_confirmed_again(
    ndparams: dict[str, str], off: str
) -> None:
    cluster = tables.read("node1 9 9\nnode2 9 9")
    node = dataclasses.replace(cluster.nodes[tables.u("node2")], powered=False, off_since=10.0)
    node = dataclasses.replace(node, ndparams=ndparams)
    incident = incidents.note(dead_nodes.report(node), node=node.uuid, uuid="a1", now=10.0)
    assert guards.unconfirmed(clusters.with_node(cluster, node), incident) is None
    lived = clusters.with_node(cluster, dataclasses.replace(node, alive_at=20.0))
    refusal = guards.unconfirmed(lived, incident)
    assert refusal is not None
    assert "it showed that it lives, after it was known to be off" in refusal.reason
    assert off in refusal.unblock
    assert ("`roundsman node power" in refusal.unblock) is bool(ndparams), "nothing commands what has no BMC"
    again = clusters.with_node(cluster, dataclasses.replace(node, off_since=21.0, alive_at=20.0))
    assert guards.unconfirmed(again, incident) is None


def test_each_guard_holds_an_evacuation() -> None:
    failed_over = {"instance": "u-instance1", "source": "u-node1", "target": "u-node2"}
    coming = unfinished.Job(7, (work.Opcode("failover", failed_over),))
    table = "node1 9000 9000 unpowered\nnode2 9000 9000\nnode3 9000 9000\ninstance1 drbd 1 1 node1 node2\n"
    asks = "incident a1 node2 evacuate noted 1\nsettings storm_minimum=99 "

    def held(settings: str, *jobs: unfinished.Job) -> str:
        cluster = tables.read(table + asks + settings)
        refusal = guards.held(
            cluster, cluster.maintenance.incidents[0], begun=(), avoid=(), claims=unfinished.claims(cluster, jobs)
        )
        return "" if refusal is None else refusal.reason.split(":")[0]

    assert held("") == ""
    assert held("storm_minimum=1 storm_fraction=0.1") == "storm"
    assert held("", coming) == "waits"
    assert held("capacity_reserve=99") == "capacity"
    cluster = tables.read(table + asks)
    died = incidents.note(dead_nodes.report(cluster.node("node2")), node="u-node2", uuid="d1", now=2.0)
    refusal = guards.held(cluster, died, begun=(), avoid=(), claims=unfinished.Claims())
    assert refusal is not None
    assert "it may run its instances" in refusal.reason


def test_each_guard_is_asked() -> None:
    """A rule that is written in `guards.py` and that neither `held` nor a round asks holds nothing."""
    tree = ast.parse(inspect.getsource(guards))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    rules = {
        name
        for name, node in functions.items()
        if not name.startswith("_") and node.returns is not None and ast.unparse(node.returns) == "Refusal | None"
    }
    in_held = {node.id for node in ast.walk(functions["held"]) if isinstance(node, ast.Name)} & rules
    in_rounds = {name for name in rules if f"guards.{name}(" in inspect.getsource(rounds)}
    assert in_rounds >= {"held", "paused", "preceded"}
    assert rules - in_held - in_rounds == set()
    assert in_held == {"unconfirmed", "storm", "awaited", "capacity"}, "add it to the test of each guard above, too"


NOT_IN_A_HURRY = {
    "awaited": "it holds nodes that can be contacted, and what is hurried is down on one that cannot",
    "capacity": "what has begun is never held",
}
"""Guards of `held` that hold nothing back of a dead node whose jobs are at work, each with the reason."""


def test_each_guard_is_asked_in_a_hurry_or_has_a_reason_not_to() -> None:
    """`_Draft.hurry` asks some guards one by one: a new one of `held` would not hold it."""
    named = re.compile(r"guards\.(\w+)\(")
    asked = set(named.findall(inspect.getsource(rounds._Draft.hurry)))
    in_held = set(re.findall(r"(\w+)\(cluster", inspect.getsource(guards.held)))
    assert asked == in_held - NOT_IN_A_HURRY.keys() != set()
