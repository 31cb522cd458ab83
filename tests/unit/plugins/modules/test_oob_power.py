from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.roundsman.cluster.daemon.lab import chassis
from ansible_collections.roundsman.cluster.plugins.modules import oob_power

from tests.unit.daemon.lab import simulated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND = "127.0.9.1", "127.0.9.2"


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


class Module:
    """Runs the module with arguments and gives what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], rack: simulated.Rack) -> None:
        self._capsys = capsys
        self._rack = rack

    def target(self, address: str, **changes: Any) -> dict[str, Any]:
        login = {"username": simulated.USERNAME, "password": simulated.PASSWORD}
        return {"name": address, "address": address, "port": self._rack.port, **login, **changes}

    def __call__(self, command: str, *addresses: str, **arguments: Any) -> dict[str, Any]:
        if addresses:
            arguments["targets"] = [self.target(address) for address in addresses]
        arguments = {"command": command, "deadline": 20.0, **arguments}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            oob_power.main()
        self.printed = self._capsys.readouterr().out
        result: dict[str, Any] = json.loads(self.printed)
        return result


@pytest.fixture
def module(capsys: pytest.CaptureFixture[str], rack: simulated.Rack) -> Module:
    return Module(capsys, rack)


def credentials(path: Path, module: Module, *addresses: str, mode: int = 0o600) -> str:
    entries = {}
    for address in addresses:
        entries[address] = module.target(address, driver="ipmi")
        del entries[address]["name"]
    path.write_text(json.dumps(entries))
    path.chmod(mode)
    return str(path)


def test_a_node_is_switched_off_and_shown_before_and_after(rack: simulated.Rack, module: Module) -> None:
    node = rack.add(FIRST)
    result = module("off", FIRST)
    assert (result["changed"], result["unconfirmed"], node.powered()) == (True, [], False)
    assert result["diff"] == {"before": f"{FIRST}: on\n", "after": f"{FIRST}: off\n"}


def test_nothing_changes_when_the_node_is_already_off(rack: simulated.Rack, module: Module) -> None:
    rack.add(FIRST, on=False)
    result = module("off", FIRST)
    assert (result["changed"], result["results"][0]["sent"]) == (False, False)


@pytest.mark.parametrize(("command", "after"), [("off", "off"), ("cycle", "on")])
def test_check_mode_says_what_would_change_and_sends_nothing(
    rack: simulated.Rack, module: Module, command: str, after: str
) -> None:
    node = rack.add(FIRST)
    result = module(command, FIRST, _ansible_check_mode=True)
    assert (result["changed"], result["results"][0]["after"]) == (True, after)
    assert node.history == []


def test_check_mode_fails_where_the_command_would(rack: simulated.Rack, module: Module) -> None:
    rack.add(FIRST, on=False)
    result = module("cycle", FIRST, _ansible_check_mode=True)
    assert (result["failed"], result["changed"], result["unconfirmed"]) == (True, False, [FIRST])


def test_one_unconfirmed_node_fails_the_task_with_all_results(rack: simulated.Rack, module: Module) -> None:
    rack.add(FIRST, chassis.STUBBORN)
    served = rack.add(SECOND)
    result = module("off", FIRST, SECOND, deadline=3.0)
    assert (result["failed"], result["unconfirmed"], served.powered()) == (True, [FIRST], False)
    assert [node["reason"] for node in result["results"]] == ["not_off", None]


def test_a_silent_bmc_does_not_fail_a_status_but_is_reported(rack: simulated.Rack, module: Module) -> None:
    rack.add(FIRST, chassis.DEAD)
    result = module("status", FIRST, deadline=0.5)
    assert ("failed" in result, result["unconfirmed"]) == (False, [FIRST])
    assert result["results"][0]["after"] == "unknown"


def test_nodes_are_found_in_the_credentials_file(rack: simulated.Rack, module: Module, tmp_path: Path) -> None:
    first, second = rack.add(FIRST), rack.add(SECOND)
    path = credentials(tmp_path / "bmc.json", module, FIRST, SECOND)
    result = module("off", credentials_file=path, nodes=[SECOND])
    assert (result["changed"], first.powered(), second.powered()) == (True, True, False)


def test_a_credentials_file_open_to_others_is_refused(rack: simulated.Rack, module: Module, tmp_path: Path) -> None:
    node = rack.add(FIRST)
    path = credentials(tmp_path / "bmc.json", module, FIRST, mode=0o640)
    result = module("off", credentials_file=path, nodes=[FIRST])
    assert (result["failed"], "open to group or others" in result["msg"]) == (True, True)
    assert node.history == []


def test_targets_and_a_credentials_file_do_not_go_together(module: Module) -> None:
    assert module("status", FIRST, credentials_file="/nowhere", nodes=[FIRST])["failed"]


def test_an_address_that_is_a_name_fails_with_its_node(module: Module) -> None:
    result = module("status", targets=[module.target("bmc1.example")])
    assert (result["failed"], "bmc1.example" in result["msg"]) == (True, True)


@pytest.mark.parametrize("password", [simulated.PASSWORD, "a wrong one"])
def test_the_password_is_in_no_result(rack: simulated.Rack, module: Module, password: str) -> None:
    rack.add(FIRST)
    module("status", targets=[module.target(FIRST, password=password)])
    assert password not in module.printed


def test_the_password_of_the_credentials_file_is_in_no_result(
    rack: simulated.Rack, module: Module, tmp_path: Path
) -> None:
    rack.add(FIRST)
    path = credentials(tmp_path / "bmc.json", module, FIRST)
    module("off", credentials_file=path, nodes=[FIRST])
    assert simulated.PASSWORD not in module.printed
