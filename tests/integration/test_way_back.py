"""The way back: acknowledged, mended, powered on, online."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable


def _role(one: labs.Running) -> str:
    found: str = next(node["role"] for node in one.get("/1/nodes") if node["name"] == "node2")
    return found


def _back(one: labs.Running) -> dict[str, Any]:
    return states.job_ended(one, one.put("/2/nodes/node2/role", "online").json())


def _powered_on(one: labs.Running) -> dict[str, Any]:
    answer = one.put("/2/nodes/node2/power", {"command": "on"})
    assert answer.status_code == 202
    return states.job_ended(one, answer.json()["id"])


@pytest.mark.slow
def test_a_mended_node_comes_back_only_with_power_and_a_fresh_ok(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=(("node1", "node3"),))
    before = _role(one)
    one.lab.node("node2").break_with({"status": "evacuate"})
    one.diagnose()
    incident = one.until(one.ended("node2"), "node2 is evacuated")
    assert (_role(one), one.lab.node("node2").is_powered()) == ("offline", False)

    assert one.put(f"/2/incidents/{incident['id']}/ack").is_success
    one.until(states.forgotten("node2"), "the acknowledged incident is forgotten")
    assert one.cluster().node("node2").tags == ()

    dark = _back(one)
    assert (dark["status"], _role(one)) == ("error", "offline")
    assert "reads off at its BMC" in dark["text"]

    assert _powered_on(one)["status"] == "success"
    assert (one.lab.node("node2").is_powered(), one.cluster().node("node2").powered) == (True, True)
    broken = _back(one)
    assert (broken["status"], _role(one)) == ("error", "offline")
    assert "has not reported Ok" in broken["text"]

    one.lab.node("node2").break_with({"status": "Ok"})
    assert _back(one)["status"] == "success"
    assert (_role(one), before) == ("candidate", "candidate")
    assert one.get("/1/status") == []
    assert one.wrong() == []
