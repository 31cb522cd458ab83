from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, known_off

from tests.unit import small_cluster

from .running import Bmcs, Modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .running import Controller

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN
STATES = {"node2": ON, "node3": ON, "node10": OFF}
UUIDS = {"node2": "n2", "node3": "n3", "node10": "n10"}
TARGETS = [{"name": name, "uuid": uuid, "driver": "/bin/oob"} for name, uuid in UUIDS.items()]


def command(controller: Controller, command: str, *, is_check: bool = False, **options: Any) -> dict[str, Any]:
    """The result of one command to all three nodes, which the play holds."""
    controller.run("hold", nodes=dict.fromkeys(UUIDS.values(), "exclusive"))
    given: dict[str, Any] = {"targets": TARGETS, "credentials_file": "/none", **options}
    return controller.run("power_command", is_check=is_check, command=command, **given)


def _always(answer: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    return lambda _: answer


def powered(controller: Controller) -> dict[str, bool]:
    return {change.node: change.powered for change in controller.recorded if isinstance(change, changes.NodePowered)}


def lines(*parts: str, names: Iterable[str] = UUIDS) -> list[str]:
    return [f"{name}: {part}" for name, part in zip(names, parts, strict=True)]


def test_who_has_only_the_power_of_the_nodes_records_what_is_read(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the look after a lost fence, which has what that one was granted."""
    Bmcs(monkeypatch, STATES)
    controller.grant(dict.fromkeys([f"node/{uuid}" for uuid in UUIDS.values()], "exclusive"))
    controller.run("hold", power=dict.fromkeys(UUIDS.values(), "exclusive"))
    options: dict[str, Any] = {"targets": TARGETS, "credentials_file": "/none"}
    result = controller.run("power_command", command="status", record_read=True, **options)
    assert not result.get("failed")
    assert powered(controller) == {"n2": True, "n3": True, "n10": False}
    assert {change.node for change in controller.recorded if isinstance(change, changes.NodeLived)} == {"n2", "n3"}


@pytest.mark.parametrize(
    ("given", "told", "recorded"),
    [
        ("off", ["off, confirmed", "off, confirmed", "off, already off"], {"n2": False, "n3": False, "n10": False}),
        ("on", ["on, already on", "on, already on", "on, confirmed"], {"n2": True, "n3": True, "n10": True}),
        ("status", ["on", "on", "off"], {}),
    ],
)
def test_what_was_commanded_and_read_back_is_recorded(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, given: str, told: list[str], recorded: dict[str, bool]
) -> None:
    bmcs = Bmcs(monkeypatch, STATES)
    result = command(controller, given)
    assert (result.get("failed"), result["changed"]) == (None, given != "status")
    assert (result["told"], result["unconfirmed"]) == (lines(*told), [])
    assert [found["name"] for found in result["results"]] == list(UUIDS)
    assert powered(controller) == recorded
    assert bmcs.sent == [(given, list(UUIDS))]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("off", ["on, would be off", "on, would be off", "off, nothing to do"]),
        ("on", ["on, nothing to do", "on, nothing to do", "off, would be on"]),
        ("cycle", ["on, would be off and on again", "on, would be off and on again", "off, would not be done"]),
        ("status", ["on", "on", "off"]),
    ],
)
def test_in_check_mode_nothing_is_recorded_and_all_say_what_would_be(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, given: str, told: list[str]
) -> None:
    bmcs = Bmcs(monkeypatch, STATES)
    result = command(controller, given, is_check=True, looks={"node10": {"unreachable": True}})
    assert result["summary"].startswith("nothing is sent; it would be: ")
    assert (result["changed"], result["told"]) == (given != "status", lines(*told))
    assert bmcs.states == STATES
    command(controller, given, is_check=True, looks={"node3": {"unreachable": True}})
    assert controller.recorded == []


def test_a_bmc_that_does_not_do_it_is_told_and_its_record_stays(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bmcs(monkeypatch, {**STATES, "node10": UNKNOWN}, "node3")
    result = command(controller, "off")
    assert [line.partition(":")[0] for line in result["unconfirmed"]] == ["node3", "node10"]
    assert "it reads on" in result["unconfirmed"][0]
    assert powered(controller) == {"n2": False}
    assert {change.node for change in controller.recorded if isinstance(change, changes.NodeLived)} == {"n2", "n3"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"refused": {"node3": "node3 is the master"}}, "node3 is the master"),
        ({"looks": {"node3": {"running": ["web1"]}}}, "node3 still runs web1"),
        ({"looks": {"node3": {"failed": True, "msg": "no libvirt"}}}, "node3 could not be looked at: no libvirt"),
        ({"looks": {"node3": {"unreachable": True}}}, "node3 does not answer, and does not read off at its BMC"),
        ({"alive": {"node3": {"alive": "", "accepts": "its SSH port"}}}, "not fenced for its silence: its SSH port"),
        ({"alive": {"node3": {"failed": True, "msg": "no key"}}}, "not fenced for its silence: not known: no key"),
    ],
)
def test_a_node_that_is_to_keep_its_power_is_commanded_nothing(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], why: str
) -> None:
    bmcs = Bmcs(monkeypatch, STATES)
    result = command(controller, "off", **options)
    (line,) = result["unconfirmed"]
    assert line.startswith("node3: ")
    assert why in line
    assert bmcs.states["node3"] is ON
    assert ("off", ["node2", "node10"]) in bmcs.sent
    assert powered(controller) == {"n2": False, "n10": False}


@pytest.mark.parametrize("look", [{"unreachable": True}, {"running": []}, {"running": None}])
def test_a_node_that_runs_nothing_or_is_unreachable_and_reads_off_is_commanded(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, look: dict[str, Any]
) -> None:
    bmcs = Bmcs(monkeypatch, {**STATES, "node3": OFF if "unreachable" in look else ON})
    assert command(controller, "off", looks={"node3": look})["unconfirmed"] == []
    assert ("off", list(UUIDS)) in bmcs.sent


def test_with_a_delay_nodes_are_powered_on_a_batch_at_a_time_and_without_together(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for delay, sent in ((0.001, [["node2", "node3"], ["node10"]]), (0.0, [list(UUIDS)])):
        bmcs = Bmcs(monkeypatch, dict.fromkeys(UUIDS, OFF))
        command(controller, "on", delay=delay, batch=2)
        assert bmcs.sent == [("on", names) for names in sent]


def test_after_a_lost_command_whatever_is_read_is_recorded_and_doubts_are_told(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bmcs(monkeypatch, {**STATES, "node3": UNKNOWN})
    result = command(controller, "status", record_read=True, expected="on")
    assert "node3 reads unknown at its BMC, and what is recorded of its power may be wrong" in result["summary"]
    assert powered(controller) == {"n2": True, "n10": False}
    assert result["unconfirmed"][-1] == (
        "node10 reads off at its BMC, and should be on: run `roundsman node power on node10` first"
    )


def test_a_record_that_is_refused_fails_the_task_with_the_nodes_that_it_is_about(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bmcs(monkeypatch, STATES)
    controller.run("hold", nodes={"n10": "exclusive"})
    options: dict[str, Any] = {"command": "off", "targets": TARGETS[1:], "credentials_file": "/none"}
    said = controller.refusal("power_command", **options)
    assert said == "the power of node3, node10 could not be recorded: node/n3 is not held: run the play again"
    assert controller.recorded == []


def test_a_module_that_gives_no_results_confirms_nothing(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[str, Any]] = [{"failed": True, "msg": "no pyghmi\x1b[2J"}, {"results": ["off"]}, {}]
    texts = ["no pyghmi\\x1b[2J", "oob_power: the answer of the module is not as documented", "gave no results"]
    for answer, text in zip(answers, texts, strict=True):
        Modules(monkeypatch, _always(answer))
        result = command(controller, "off")
        assert [text in line for line in result["unconfirmed"]] == [True] * 3
        assert not any(found["confirmed"] for found in result["results"])
    assert controller.recorded == []


def test_who_answers_instead_of_being_fenced_is_recorded_as_alive(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    bmcs = Bmcs(monkeypatch, STATES)
    result = command(controller, "fence", alive={"node3": {"alive": "it runs programs"}, "node2": {"alive": ""}})
    assert bmcs.sent == [("fence", ["node2", "node10"])]
    assert [found["name"] for found in result["results"] if found["confirmed"]] == ["node2", "node10"]
    alive = [change.node for change in controller.recorded if isinstance(change, changes.NodeLived)]
    assert alive == ["n3", "n2"]


def test_who_has_the_address_of_a_node_that_reads_off_does_not_keep_it_from_being_confirmed(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    bmcs = Bmcs(monkeypatch, dict.fromkeys(STATES, power.State.OFF))
    told = {"alive": "", "accepts": "its SSH port accepts connections"}
    command(controller, "confirm_off", alive={"node2": told, "node3": {"alive": "it runs programs"}})
    assert bmcs.sent == [("confirm_off", ["node2", "node10"])]
    assert [change.node for change in controller.recorded if isinstance(change, changes.NodeLived)] == ["n3"]


def test_a_forced_off_goes_to_a_node_that_reads_off_and_what_its_bmc_took_ends_a_statement(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    bmcs = Bmcs(monkeypatch, STATES)
    result = command(controller, "off", forced=True)
    assert bmcs.sent == [("emergency_off", list(UUIDS))]
    assert result["told"] == lines("off, confirmed", "off, confirmed", "off, confirmed")
    assert {found["command"] for found in result["results"]} == {"off"}
    (off,) = [one for one in controller.recorded if isinstance(one, changes.NodePowered) and one.node == "n10"]
    assert off == changes.NodePowered("n10", powered=False, confirms=True, commanded=True)
    stated: list[changes.Change] = [changes.NodeOffConfirmed("n10", 100.0, by="alice")]
    for before in (stated, [*stated, changes.NodeLived("n10", 150.0)]):
        cluster = changes.apply_all(small_cluster.make(), before, now=150.0)
        known = changes.apply_all(cluster, [off], now=200.0).nodes["n10"]
        assert (known_off.stated_by(known), known_off.is_known_off(known), known.off_since) == ("", True, 200.0)


def test_a_forced_off_that_changes_nothing_is_no_change_and_one_that_is_not_taken_is_a_reading(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = dict.fromkeys(STATES, OFF)
    Bmcs(monkeypatch, off)
    foreseen = command(controller, "off", forced=True, is_check=True)
    assert (foreseen["changed"], foreseen["told"]) == (False, lines(*["off, off would be sent once more"] * 3))
    assert command(controller, "off", forced=True)["changed"] is False
    rejecting = power.judge(
        power.Command.EMERGENCY_OFF,
        name="node2",
        before=OFF,
        seen=[OFF],
        attempts=[power.Attempt(power.Answer.REJECTED)],
        seconds=1.0,
    )
    Modules(monkeypatch, _always({"results": [rejecting.as_dict()]}))
    result = command(controller, "off", forced=True, targets=TARGETS[:1])
    assert result["told"] == ["node2: off, already off, and its BMC took no command"]
    assert controller.recorded[-1] == changes.NodePowered("n2", powered=False, confirms=True, commanded=False)
    assert command(controller, "on", forced=True, targets=TARGETS[:1])["results"][0]["command"] == "on"
