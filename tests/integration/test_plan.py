"""The plan is shown before it is done, changes nothing by being shown, and is what is done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = (("node3", "node1"), ("node2", "node3"))


def _substance(plan: dict[str, Any]) -> str:
    """What a plan says shall be done and what not, without how it is shown."""
    return json.dumps({key: plan[key] for key in ("jobs", "refusals", "completed", "failed", "notes")})


@pytest.mark.slow
def test_a_plan_changes_nothing_and_is_what_the_next_round_does(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=6, pairs=PAIRS)
    assert states.command(one, "queue", "drain").returncode == 0
    labs.drop(one, "second.json", labs.report(one, "node3", '{"status": "evacuate"}'))
    one.until(states.reads("node3", "noted"), "node3 is noted while the queue takes no jobs")
    before = states.whole_state(one)
    shown = one.get("/1/plan")
    told = states.command(one, "plan")
    as_json = json.loads(states.command(one, "plan", "-o", "json").stdout)
    one.get("/1/explain/node3")
    assert states.whole_state(one) == before
    assert states.command(one, "queue", "undrain").returncode == 0
    one.until(one.ended("node3"), "the plan is carried out")
    one.until(states.at_rest, "nothing is left in the queue")

    assert not shown["waits_for_round"]
    assert _substance(as_json) == _substance(shown)
    assert told.returncode == 0
    newest = one.get("/1/rounds")[0]
    assert _substance(newest["plan"]) == _substance(shown)
    jobs = [one.get(f"/2/jobs/{job}") for job in newest["jobs"]]
    done = [[(step["kind"], step["params"], step["status"]) for step in job["opcodes"]] for job in jobs]
    planned = [[(step["kind"], step["params"], "success") for step in job["opcodes"]] for job in shown["jobs"]]
    assert done == planned
    assert [len(steps) for steps in planned] == [1, 2, 1, 2]
    assert one.wrong() == []
