"""The plan is shown before it is done, changes nothing by being shown, and is what is done."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = (("node3", "node1"), ("node2", "node3"))
LIVE_REPAIR = '{"status": "live-repair", "command": "lab-repair"}'


def _substance(plan: dict[str, Any]) -> str:
    """What a plan says shall be done and what not, without how it is shown."""
    return json.dumps({key: plan[key] for key in ("jobs", "refusals", "completed", "failed", "notes")})


@pytest.mark.slow
def test_a_plan_changes_nothing_and_is_what_the_next_round_does(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=6, pairs=PAIRS)
    # The lab's repair command reads this pipe and goes on when somebody has written to it.
    pipe = one.lab.node("node5").root / "lab/repair-seconds"
    os.mkfifo(pipe)
    labs.drop(one, "first.json", labs.report(one, "node5", LIVE_REPAIR))
    with pipe.open("w") as repair:
        labs.drop(one, "second.json", labs.report(one, "node3", '{"status": "evacuate"}'))
        one.until(states.reads("node3", "noted"), "node3 is noted while node5 is repaired")
        before = states.whole_state(one)
        shown = one.get("/1/plan")
        told = states.command(one, "plan")
        as_json = json.loads(states.command(one, "plan", "-o", "json").stdout)
        one.get("/1/explain/node3")
        assert states.whole_state(one) == before
        repair.write("0\n")
    one.until(one.ended("node3"), "the plan is carried out")
    one.until(states.at_rest, "nothing is left in the queue")

    assert shown["waits_for_round"]
    assert _substance(as_json) == _substance(shown)
    assert told.returncode == 0
    assert "This waits for the round at work" in told.stdout
    newest = one.get("/1/rounds")[0]
    assert _substance(newest["plan"]) == _substance(shown)
    jobs = [one.get(f"/2/jobs/{job}") for job in newest["jobs"]]
    done = [[(step["kind"], step["params"], step["status"]) for step in job["opcodes"]] for job in jobs]
    planned = [[(step["kind"], step["params"], "success") for step in job["opcodes"]] for job in shown["jobs"]]
    assert done == planned
    assert [len(steps) for steps in planned] == [1, 2, 1, 2]
    assert one.wrong() == []
