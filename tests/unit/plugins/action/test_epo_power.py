from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from .running import Bmcs

if TYPE_CHECKING:
    from .running import Controller

ON, OFF = power.State.ON, power.State.OFF
UUIDS = {"node3": "n3", "node10": "n10", "node2": "n2"}
BATCHES = [
    [{"name": name, "uuid": UUIDS[name], "driver": "/bin/oob"} for name in names]
    for names in (("node3", "node10"), ("node2",))
]
STOPPED: dict[str, Any] = {"changed": True}


def emergency(
    controller: Controller, command: str, *, steps: dict[str, Any] | None = None, is_check: bool = False, **more: Any
) -> dict[str, Any]:
    """The result of the command to all nodes; `steps` are what their last task, that stopped instances, gave."""
    if not is_check:
        controller.run("hold", nodes=dict.fromkeys(UUIDS.values(), "exclusive"))
    hostvars = {name: {"epo_step": steps[name]} if steps and name in steps else {} for name in UUIDS}
    options = {"batches": BATCHES, "credentials_file": "/none", **more}
    return controller.run("epo_power", is_check=is_check, variables={"hostvars": hostvars}, command=command, **options)


def powered(controller: Controller) -> dict[str, bool]:
    return {change.node: change.powered for change in controller.recorded if isinstance(change, changes.NodePowered)}


@pytest.mark.parametrize(("command", "state"), [("emergency_off", OFF), ("on", ON)])
def test_batches_are_powered_one_after_the_other_and_recorded(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, command: str, state: power.State
) -> None:
    bmcs = Bmcs(monkeypatch, {"node3": ON, "node10": OFF, "node2": ON})
    result = emergency(controller, command)
    assert (result["missed"], result["kept"], result["changed"]) == ([], {}, True)
    assert result["confirmed"] == list(UUIDS)
    assert set(bmcs.states.values()) == {state}
    assert bmcs.sent == [(command, ["node3", "node10"]), (command, ["node2"])]
    assert powered(controller) == dict.fromkeys(UUIDS.values(), state is ON)


def test_in_check_mode_nothing_is_recorded(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    bmcs = Bmcs(monkeypatch, dict.fromkeys(UUIDS, OFF))
    assert emergency(controller, "on", is_check=True)["missed"] == []
    assert set(bmcs.states.values()) == {OFF}
    assert controller.recorded == []


def test_a_node_that_does_not_confirm_stops_no_other(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    bmcs = Bmcs(monkeypatch, dict.fromkeys(UUIDS, ON), "node3")
    result = emergency(controller, "emergency_off")
    assert result["confirmed"] == ["node10", "node2"]
    (line,) = result["missed"]
    assert line.startswith("node3: ")
    assert bmcs.states == {"node3": ON, "node10": OFF, "node2": OFF}
    assert powered(controller) == {"n10": False, "n2": False}


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ({}, "nobody knows what runs there"),
        ({"node3": {"failed": True, "msg": "web1 did not stop"}}, "web1 did not stop"),
        ({"node3": {"unreachable": True, "msg": "no route"}}, "no route"),
        (
            {"node3": {"failed": True, "timedout": {"period": 9}}},
            "it did not report within 9 s that its instances are stopped",
        ),
    ],
)
def test_a_node_whose_instances_did_not_stop_keeps_its_power_until_failures_are_ignored(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, steps: dict[str, Any], why: str
) -> None:
    bmcs = Bmcs(monkeypatch, dict.fromkeys(UUIDS, ON))
    told = {"node2": STOPPED, **steps}
    stopping: dict[str, Any] = {"stopping": ["node3", "node2"], "timeouts": {"node3": 9}}
    first = emergency(controller, "emergency_off", steps=told, **stopping)
    line = f"node3 keeps its power: {why}; --ignore-failures powers it off all the same"
    assert first["kept"] == {"node3": line}
    assert bmcs.states == {"node3": ON, "node10": OFF, "node2": OFF}
    assert "n3" not in powered(controller)

    bmcs.calls.clear()
    again = emergency(controller, "emergency_off", steps=told, before=first, **stopping)
    assert (bmcs.calls, again["kept"]) == ([], {"node3": line})
    forced = emergency(controller, "emergency_off", steps=told, before=again, ignore_failures=True, **stopping)
    assert (bmcs.sent, forced["kept"]) == ([("emergency_off", ["node3"])], {})
    assert powered(controller)["n3"] is False


def test_what_was_missed_before_stays_told_and_a_record_that_fails_is_missed_too(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bmcs(monkeypatch, dict.fromkeys(UUIDS, ON))
    before = {"kept": {"node2": "node2 keeps its power"}, "missed": ["node10: the BMC did not answer"]}
    controller.run("hold", nodes={"n3": "exclusive"})
    hostvars = {"node2": {"epo_step": STOPPED}}
    result = controller.run(
        "epo_power",
        variables={"hostvars": hostvars},
        command="emergency_off",
        batches=BATCHES,
        credentials_file="/none",
        before=before,
    )
    unrecorded = "the power of node2 could not be recorded: node/n2 is not held: run the play again"
    assert result["missed"] == [*before["missed"], unrecorded]


@pytest.mark.parametrize(
    ("left_out", "reason"),
    [
        ({"node3": "it is somebody's"}, "it is somebody's"),
        (
            {},
            "it is not in the inventory that this play began with: run the play again, or add it there",
        ),
    ],
)
def test_a_node_that_plays_leave_out_keeps_its_power_with_the_reason(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, left_out: dict[str, str], reason: str
) -> None:
    bmcs = Bmcs(monkeypatch, dict.fromkeys(UUIDS, ON))
    controller.run("hold", nodes=dict.fromkeys(UUIDS.values(), "exclusive"))
    variables = {"hostvars": {"node2": {"epo_step": STOPPED}}, "roundsman_left_out": left_out}
    options: dict[str, Any] = {"batches": BATCHES, "credentials_file": "/none", "stopping": ["node3", "node2"]}
    result = controller.run("epo_power", variables=variables, command="emergency_off", **options)
    assert result["kept"] == {
        "node3": f"node3 keeps its power: node3 is left out of plays: {reason}; "
        "--ignore-failures powers it off all the same"
    }
    assert bmcs.states == {"node3": ON, "node10": OFF, "node2": OFF}
