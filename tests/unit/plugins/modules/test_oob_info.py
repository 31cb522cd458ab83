from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.modules import oob_info

from tests.unit.daemon.lab import simulated

from . import bmc_modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND, THIRD = "127.0.11.1", "127.0.11.2", "127.0.11.3"


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


@pytest.fixture
def module(capsys: pytest.CaptureFixture[str], rack: simulated.Rack) -> bmc_modules.Module:
    return bmc_modules.Module(oob_info, capsys, rack)


def test_a_bmc_says_what_it_is_and_what_it_takes(rack: simulated.Rack, module: bmc_modules.Module) -> None:
    rack.add(FIRST, on=False)
    [told] = module(FIRST)["results"]
    assert (told["driver"], told["address"], told["power"], told["reason"]) == ("ipmi", FIRST, "off", None)
    assert told["supports"] == ["status", "on", "off", "cycle", "soft_off", "health"]
    assert (told["identity"]["firmware"], told["identity"]["device_id"]) == ("1.00", 32)


def test_a_helper_program_takes_the_commands_of_its_contract(module: bmc_modules.Module, tmp_path: Path) -> None:
    program = tmp_path / "oob"
    program.write_text("#!/bin/sh\necho '{\"powered\": true}'\n")
    program.chmod(0o755)
    [told] = module(targets=[{"name": "node1", "driver": str(program)}])["results"]
    assert (told["driver"], told["power"]) == (str(program), "on")
    assert told["supports"] == ["status", "on", "off", "cycle", "health"]


def test_a_bmc_that_cannot_be_asked_says_why_and_stops_no_other(
    rack: simulated.Rack, module: bmc_modules.Module, tmp_path: Path
) -> None:
    rack.add(FIRST, suites=())
    rack.add(SECOND)
    path = module.credentials(tmp_path / "bmc.json", FIRST, SECOND)
    told = module(credentials_file=path, nodes=[FIRST, SECOND, THIRD])["results"]
    assert [(one["power"], one["reason"]) for one in told] == [
        ("unknown", "cipher"),
        ("on", None),
        ("unknown", "unconfigured"),
    ]
    assert [len(one["supports"]) for one in told] == [0, 6, 0]


@pytest.mark.parametrize("login", [{}, {"password": "a wrong one"}])
def test_neither_user_nor_password_is_in_a_result(
    rack: simulated.Rack, module: bmc_modules.Module, login: dict[str, str]
) -> None:
    rack.add(FIRST)
    target = {**module.target(FIRST), "username": simulated.USERNAME, **login}
    module(targets=[target])
    results = json.dumps(json.loads(module.printed)["results"])
    assert (target["password"] in module.printed, simulated.USERNAME in results) == (False, False)
