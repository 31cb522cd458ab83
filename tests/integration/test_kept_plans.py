"""Plans that are kept: what they promise comes true, and they are refused when the cluster has changed since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CROWDED = (("node2", "node1"), ("node2", "node3"), ("node2", "node4"), ("node2", "node1"))


def _places(one: labs.Running) -> dict[str, tuple[str, ...]]:
    cluster = one.cluster()
    return {each.name: tuple(cluster.node_name(uuid) for uuid in each.nodes) for each in cluster.instances.values()}


def _promised(plan: dict[str, list[dict[str, str]]]) -> dict[str, tuple[str, ...]]:
    return {move["instance"]: (move["primary"], move["secondary"]) for move in plan["moves"]}


@pytest.mark.slow
def test_a_plan_puts_instances_where_it_promised_and_is_refused_when_the_cluster_has_changed_since(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=4, pairs=CROWDED)
    first, kept = _places(one), str(tmp_path / "balance.plan")
    plan = json.loads(states.command(one, "balance", "--price", "0", "--save", kept, "-o", "json").stdout)
    stale = str(tmp_path / "stale.plan")
    assert states.command(one, "evacuate", "node2", "--save", stale).returncode == 0
    assert plan["moves"]
    assert _places(one) == first

    done = states.command(one, "plan", "submit", kept)

    assert (done.returncode, done.stderr) == (0, "")
    assert _places(one) == {**first, **_promised(plan)}
    jobs = len(one.get("/2/jobs"))
    refused = states.command(one, "plan", "submit", stale)
    assert (refused.returncode, refused.stderr) == (
        1,
        "roundsman: the cluster has changed since this plan was made: make it again with `roundsman evacuate node2`\n",
    )
    assert len(one.get("/2/jobs")) == jobs + 1
    assert _places(one) == {**first, **_promised(plan)}
    assert one.wrong() == []


@pytest.mark.slow
def test_two_nodes_are_evacuated_at_once_as_it_was_planned(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=5, pairs=(("node2", "node3"), ("node3", "node2"), ("node1", "node3"), ("node4", "node5")))
    first = _places(one)
    plan = json.loads(states.command(one, "evacuate", "node2", "node3", "--plan", "-o", "json").stdout)
    assert _places(one) == first

    done = states.command(one, "evacuate", "node2", "node3")

    assert (done.returncode, done.stderr) == (0, "")
    assert _places(one) == {**first, **_promised(plan)}
    assert all({"node2", "node3"}.isdisjoint(nodes) for nodes in _places(one).values())
    assert one.wrong() == []


@pytest.mark.slow
def test_a_group_is_drained_into_another(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=6, pairs=(("node1", "node2"), ("node3", "node1"), ("node4", "node5")))
    groups = {each["name"]: each["node_list"] for each in one.get("/2/groups?bulk=1")}
    source, target = groups
    done = states.command(one, "group", "drain", source, "--to", target)

    assert (done.returncode, done.stderr) == (0, "")
    assert {node for nodes in _places(one).values() for node in nodes} <= set(groups[target])
    assert one.wrong() == []
