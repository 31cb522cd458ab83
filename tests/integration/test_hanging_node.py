"""A node that hangs ends its own jobs within a minute or so, and keeps no other node from being evacuated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVACUATE = '{"status": "evacuate"}'
PAIRS = (("node4", "node1"), ("node4", "node2"), ("node3", "node1"), ("node3", "node2"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "only_modules"), [("evacuate", False), ("evacuate-failover", False), ("evacuate", True)]
)
def test_a_node_that_hangs_keeps_no_other_from_being_evacuated(
    lab: Callable[..., labs.Running], tmp_path: Path, status: str, *, only_modules: bool
) -> None:
    """It hangs as a whole, or only what would run the modules there."""
    one = lab(nodes=5, pairs=PAIRS, settings={"storm_minimum": 10})
    node4 = one.lab.node("node4")
    if only_modules:
        hanging = tmp_path / "python"
        hanging.write_text("#!/bin/sh\nexec sleep 1200\n")
        hanging.chmod(0o755)
        one.run_modules_with(hanging, node="node4")
    else:
        node4.hang(is_hung=True)
    labs.drop(one, "r4.json", labs.report(one, "node4", f'{{"status": "{status}"}}'))
    one.until(lambda _: one.incident("node4"), "the node that hangs is to be evacuated")
    one.until(lambda _: one.get("/2/jobs"), "its jobs have begun")
    labs.drop(one, "r3.json", labs.report(one, "node3", EVACUATE))

    hung = one.until(one.ended("node4"), "the incident of the node that hangs ends")
    saved = one.until(one.ended("node3"), "the other node is evacuated")

    assert (hung["repair-status"], saved["repair-status"]) == ("failed", "completed")
    assert one.cluster().primaries(one.cluster().node("node3").uuid) == []
    one.until(states.at_rest, "nothing is left in the queue")
    jobs = [one.get(f"/2/jobs/{number}") for number in hung["jobs"]]
    failed = [step for job in jobs for step in job["opcodes"] if step["status"] == "error"]
    assert failed
    told = [step["text"] for step in failed]
    assert all("hang" in text or "did not answer" in text or text.startswith("it depends on job") for text in told), (
        told
    )
    # What it ran runs on there, once each.
    node4.hang(is_hung=False)
    assert one.wrong() == []
