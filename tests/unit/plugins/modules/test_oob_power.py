from __future__ import annotations

import syslog
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils import basic
from ansible_collections.roundsman.cluster.daemon.lab import chassis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers
from ansible_collections.roundsman.cluster.plugins.modules import oob_power

from tests.unit.daemon.lab import simulated

from . import bmc_modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND = "127.0.9.1", "127.0.9.2"


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


@pytest.fixture
def module(capsys: pytest.CaptureFixture[str], rack: simulated.Rack) -> bmc_modules.Module:
    return bmc_modules.Module(oob_power, capsys, rack)


def test_a_node_is_switched_off_and_shown_before_and_after(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    node = rack.add(FIRST)
    result = module(FIRST, command="off")
    assert (result["changed"], result["unconfirmed"], node.powered()) == (True, [], False)
    assert result["diff"] == {"before": f"{FIRST}: on\n", "after": f"{FIRST}: off\n"}


def test_nothing_changes_when_the_node_is_already_off(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    rack.add(FIRST, on=False)
    result = module(FIRST, command="off")
    assert (result["changed"], result["results"][0]["sent"]) == (False, False)


@pytest.mark.parametrize(("command", "after"), [("off", "off"), ("cycle", "on")])
def test_check_mode_says_what_would_change_and_sends_nothing(
    rack: simulated.Rack, module: bmc_modules.Module, command: str, after: str
) -> None:
    node = rack.add(FIRST)
    result = module(FIRST, command=command, _ansible_check_mode=True)
    assert (result["changed"], result["results"][0]["after"]) == (True, after)
    assert node.history == []


def test_check_mode_fails_where_the_command_would(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    rack.add(FIRST, on=False)
    result = module(FIRST, command="cycle", _ansible_check_mode=True)
    assert (result["failed"], result["changed"], result["unconfirmed"]) == (True, False, [FIRST])


def test_one_unconfirmed_node_fails_the_task_with_all_results(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    rack.add(FIRST, suites=())
    served = rack.add(SECOND)
    result = module(FIRST, SECOND, command="off")
    assert (result["failed"], result["unconfirmed"], served.powered()) == (True, [FIRST], False)
    assert [node["reason"] for node in result["results"]] == ["cipher", None]
    assert result["msg"] == f"power off is not confirmed for {FIRST} (cipher)"


def test_a_silent_bmc_does_not_fail_a_status_but_is_reported(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    rack.add(FIRST, chassis.DEAD)
    result = module(FIRST, command="status", deadline=0.5)
    assert ("failed" in result, result["unconfirmed"]) == (False, [FIRST])
    assert result["results"][0]["after"] == "unknown"


def test_nodes_are_found_in_the_credentials_file(
    rack: simulated.Rack, module: bmc_modules.Module, tmp_path: Path
) -> None:
    first, second = rack.add(FIRST), rack.add(SECOND)
    path = module.credentials(tmp_path / "bmc.json", FIRST, SECOND)
    result = module(command="off", credentials_file=path, nodes=[SECOND])
    assert (result["changed"], first.powered(), second.powered()) == (True, True, False)


def test_a_credentials_file_open_to_others_is_refused(
    rack: simulated.Rack, module: bmc_modules.Module, tmp_path: Path
) -> None:
    node = rack.add(FIRST)
    path = module.credentials(tmp_path / "bmc.json", FIRST, mode=0o640)
    result = module(command="off", credentials_file=path, nodes=[FIRST])
    assert (result["failed"], "open to group or others" in result["msg"]) == (True, True)
    assert node.history == []


def test_targets_and_a_credentials_file_do_not_go_together(module: bmc_modules.Module) -> None:
    assert module(FIRST, command="status", credentials_file="/nowhere", nodes=[FIRST])["failed"]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"address": "bmc1.example"}, "the BMC address 'bmc1.example' is not an IP address"),
        ({"address": ""}, "the BMC address '' is not an IP address"),
        ({"driver": "telepathy"}, "unknown power driver 'telepathy'; known: ipmi, redfish, and the absolute path of"),
        ({"driver": "/nowhere/oob"}, "the helper program /nowhere/oob: No such file or directory"),
        ({"port": 70000}, "70000 is not a port"),
    ],
)
def test_a_node_that_cannot_be_tried_says_why_and_stops_no_other(
    rack: simulated.Rack, module: bmc_modules.Module, wrong: dict[str, Any], text: str
) -> None:
    node = rack.add(FIRST)
    odd = {**module.target(SECOND), **wrong}
    result = module(command="off", targets=[odd, module.target(FIRST)])
    assert (result["failed"], result["unconfirmed"], node.powered()) == (True, [SECOND], False)
    told, other = result["results"]
    assert (told["reason"], told["sent"], other["confirmed"]) == ("unconfigured", False, True)
    assert text in told["text"]
    assert "\n" not in told["text"]


def test_a_node_without_credentials_says_so_and_stops_no_other(
    rack: simulated.Rack, module: bmc_modules.Module, tmp_path: Path
) -> None:
    node = rack.add(FIRST)
    path = module.credentials(tmp_path / "bmc.json", FIRST)
    result = module(command="off", credentials_file=path, nodes=[SECOND, FIRST])
    assert (result["failed"], result["unconfirmed"], node.powered()) == (True, [SECOND], False)
    assert [one["reason"] for one in result["results"]] == ["unconfigured", None]
    assert result["results"][0]["text"] == f"{path} has no entry for {SECOND}"


def test_a_node_without_credentials_does_not_fail_a_status(
    rack: simulated.Rack, module: bmc_modules.Module, tmp_path: Path
) -> None:
    rack.add(FIRST)
    path = module.credentials(tmp_path / "bmc.json", FIRST)
    result = module(command="status", credentials_file=path, nodes=[FIRST, SECOND])
    assert ("failed" in result, [one["after"] for one in result["results"]]) == (False, ["on", "unknown"])


def test_a_node_named_twice_is_refused_before_anything_is_sent(
    rack: simulated.Rack, module: bmc_modules.Module
) -> None:
    node = rack.add(FIRST)
    result = module(FIRST, FIRST, command="off")
    assert (result["failed"], result["msg"], node.history) == (True, f"named twice: {FIRST}", [])


def test_a_soft_off_is_read_back(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    node = rack.add(FIRST)
    result = module(FIRST, command="soft_off")
    assert (result["changed"], result["results"][0]["after"], node.powered()) == (True, "off", False)


def test_a_soft_off_has_minutes_unless_told() -> None:
    assert (drivers.usual_deadline(power.Command.SOFT_OFF), drivers.usual_deadline(power.Command.OFF)) == (600.0, 30.0)


def test_the_reasons_of_five_ways_to_fail_are_told_apart(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    wrong, suite, silent, refusing, stubborn = (f"127.0.9.{number}" for number in range(11, 16))
    rack.add(wrong)
    rack.add(suite, suites=())
    rack.add(silent, chassis.DEAD)
    # It says that it is on, and is not: a node that is off refuses to be cycled.
    rack.add(refusing, chassis.LYING, on=False)
    rack.add(stubborn, chassis.STUBBORN)
    targets = [module.target(wrong, password="a wrong one"), module.target(suite)]
    told = module(command="off", targets=targets)["results"]
    # Both take all of their time, and the last reading of the second has a tenth of it.
    told += module(silent, command="off", deadline=0.5)["results"]
    told += module(stubborn, command="off", deadline=6.0)["results"]
    told += module(refusing, command="cycle")["results"]
    reasons = {one["name"]: one["reason"] for one in told}
    assert reasons == {
        wrong: "auth",
        suite: "cipher",
        silent: "timeout",
        stubborn: "not_off",
        refusing: "refused",
    }
    assert {one["name"]: one["confirmed"] for one in told} == dict.fromkeys(reasons, False)


@pytest.mark.parametrize("password", [simulated.PASSWORD, "a wrong one"])
def test_the_password_is_in_no_result(rack: simulated.Rack, module: bmc_modules.Module, password: str) -> None:
    rack.add(FIRST)
    module(command="status", targets=[module.target(FIRST, password=password)])
    assert password not in module.printed


def test_the_password_of_the_credentials_file_is_in_no_result(
    rack: simulated.Rack, module: bmc_modules.Module, tmp_path: Path
) -> None:
    rack.add(FIRST)
    path = module.credentials(tmp_path / "bmc.json", FIRST)
    module(command="off", credentials_file=path, nodes=[FIRST])
    assert simulated.PASSWORD not in module.printed


def test_the_password_is_in_no_log(
    rack: simulated.Rack, module: bmc_modules.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(syslog, "syslog", lambda *told: said.append(str(told)))
    monkeypatch.setattr(basic, "has_journal", False)
    rack.add(FIRST)
    module(FIRST, command="off")
    assert ("credentials_file" in "".join(said), simulated.PASSWORD in "".join(said)) == (True, False)
