from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import sensors
from ansible_collections.roundsman.cluster.plugins.modules import oob_health

from tests.unit.daemon.lab import simulated

from . import bmc_modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND, THIRD = "127.0.10.1", "127.0.10.2", "127.0.10.3"


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


@pytest.fixture
def module(capsys: pytest.CaptureFixture[str], rack: simulated.Rack) -> bmc_modules.Module:
    return bmc_modules.Module(oob_health, capsys, rack)


def test_each_sensor_is_an_item_with_its_status(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    rack.add(FIRST, f"{sensors.FAN.name}=warning")
    [told] = module(FIRST)["results"]
    assert (told["name"], told["status"], told["reason"]) == (FIRST, "WARNING", None)
    assert sorted(told["items"]) == [["CPU_Temp", "OK"], ["Fan1", "WARNING"], ["PSU1", "OK"]]


def test_what_is_not_well_is_listed_with_its_node(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    rack.add(FIRST, "Fan1=critical")
    rack.add(SECOND)
    rack.add(THIRD, "CPU_Temp=warning")
    result = module(FIRST, SECOND, THIRD)
    assert result["trouble"] == [[FIRST, "Fan1", "CRITICAL"], [THIRD, "CPU_Temp", "WARNING"]]
    assert (result["changed"], result["unknown"]) == (False, [])


def test_a_node_that_cannot_be_read_is_unknown_with_its_reason_and_stops_no_other(
    rack: simulated.Rack, module: bmc_modules.Module, tmp_path: Path
) -> None:
    rack.add(FIRST, suites=())
    rack.add(SECOND)
    path = module.credentials(tmp_path / "bmc.json", FIRST, SECOND)
    result = module(credentials_file=path, nodes=[FIRST, SECOND, THIRD])
    assert [(one["status"], one["reason"]) for one in result["results"]] == [
        ("UNKNOWN", "cipher"),
        ("OK", None),
        ("UNKNOWN", "unconfigured"),
    ]
    assert (result["unknown"], "failed" in result) == ([FIRST, THIRD], False)


def test_check_mode_reads_as_well(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    rack.add(FIRST)
    [told] = module(FIRST, _ansible_check_mode=True)["results"]
    assert told["status"] == "OK"


def test_a_credentials_file_open_to_others_is_refused(module: bmc_modules.Module, tmp_path: Path) -> None:
    path = module.credentials(tmp_path / "bmc.json", FIRST, mode=0o640)
    assert "open to group or others" in module(credentials_file=path, nodes=[FIRST])["msg"]


@pytest.mark.parametrize("password", [simulated.PASSWORD, "a wrong one"])
def test_the_password_is_in_no_result(rack: simulated.Rack, module: bmc_modules.Module, password: str) -> None:
    rack.add(FIRST)
    module(targets=[module.target(FIRST, password=password)])
    assert password not in module.printed
