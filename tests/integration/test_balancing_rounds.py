"""Balancing by the rounds of a real daemon: an uneven lab becomes even, and then nothing happens any more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import (
    balancing_step,
    configured,
    rebalancing,
    rounds,
)

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = [("node1", "node2")] * 4
SETTINGS = {"balance": True, "balance_disk_moves": True}


def _is_balanced(one: labs.Running) -> bool:
    """Whether there is nothing left to do for a round."""
    asked = balancing_step.to_balance(one.cluster(), rounds.RoundPlan())
    return states.at_rest(one) and asked is not None and not rebalancing.answer(asked).jobs


@pytest.mark.slow
def test_an_uneven_lab_is_balanced_by_rounds_and_then_there_is_silence(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, pairs=PAIRS, settings=SETTINGS)
    before = oracle.score(configured.model_of(one.cluster()))
    one.until(_is_balanced, "the lab is balanced")
    cluster = one.cluster()
    assert max(len(cluster.primaries(node)) for node in cluster.nodes) == 1
    done = one.get("/1/rounds")
    texts = [job["reason"] for told in done for job in told["plan"]["jobs"]]
    assert texts
    assert all(text.startswith("balancing group1: moving instance") for text in texts)
    labs.drop(one, "ok.json", labs.report(one, "node3", '{"status": "Ok"}'))
    one.until(lambda lab: lab.get("/1/reports")["nodes"]["node3"]["diagnosis"] is not None, "a report wakes the rounds")
    told = json.loads(states.command(one, "plan", "-o", "json").stdout)
    assert told["jobs"] == []
    assert [each["round"] for each in one.get("/1/rounds")] == [each["round"] for each in done]
    assert oracle.score(configured.model_of(one.cluster())) < before / 4
    assert one.wrong() == []
