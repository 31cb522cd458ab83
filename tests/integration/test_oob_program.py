"""The program `roundsman-oob`: called by hand, and by our own driver for helper programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import health, power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers

from tests.unit.daemon.lab import simulated

from . import openipmi, peers, sushy

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
PROGRAM = Path(sys.executable).with_name("roundsman-oob")
ADDRESS, NODE = "127.0.13.1", "node1.example.com"


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


def credentials(folder: Path, **entry: Any) -> Path:
    """A file with one entry."""
    path = folder / "bmc.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({NODE: {"username": simulated.USERNAME, "password": simulated.PASSWORD, **entry}}))
    return path


def call(path: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error, called as Ganeti does: below /, with hardly an environment."""
    done = subprocess.run(
        [PROGRAM, "--credentials", path, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"LC_ALL": "C"},
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_node_is_read_and_switched_as_the_contract_says(rack: simulated.Rack, tmp_path: Path) -> None:
    node = rack.add(ADDRESS)
    path = credentials(tmp_path, address=ADDRESS, port=rack.port)
    assert call(path, "power-status", NODE) == (0, '{"powered": true}\n', "")
    assert call(path, "power-off", NODE) == (0, "", "")
    assert call(path, "power-off", NODE) == (0, "", "")
    assert call(path, "power-status", NODE) == (0, '{"powered": false}\n', "")
    assert call(path, "power-on", NODE) == (0, "", "")
    assert call(path, "power-cycle", NODE) == (0, "", "")
    assert (node.history, node.powered()) == ([False, False, True, False, True], True)


def test_an_off_that_the_bmc_of_a_node_that_reads_off_does_not_take_is_a_failure(
    rack: simulated.Rack, tmp_path: Path
) -> None:
    node = rack.add(ADDRESS, chassis.LYING, chassis.REFUSING)
    status, output, said = call(credentials(tmp_path, address=ADDRESS, port=rack.port), "power-off", NODE)
    assert (status, output, node.powered()) == (1, "", True)
    assert f"{NODE}: refused: its BMC reads off, but accepted no command to power off" in said


def test_health_is_printed_as_pairs(rack: simulated.Rack, tmp_path: Path) -> None:
    rack.add(ADDRESS, "Fan1=critical", "PSU1=unavailable")
    status, output, said = call(credentials(tmp_path, address=ADDRESS, port=rack.port), "health", NODE)
    assert (status, said) == (0, "")
    assert json.loads(output) == [["CPU_Temp", "OK"], ["Fan1", "CRITICAL"], ["PSU1", "UNKNOWN"]]


@pytest.mark.parametrize(
    ("fault", "words", "text"),
    [
        (chassis.STUBBORN, "6 power-off", "not_off: accepted, but the node does not read off"),
        (chassis.DEAD, "2 power-status", "timeout: no verdict within 2 s"),
        (chassis.DEAD, "2 health", "timeout: no answer within 2 s"),
    ],
)
def test_what_is_not_confirmed_is_a_failure_with_its_reason(
    rack: simulated.Rack, tmp_path: Path, fault: str, words: str, text: str
) -> None:
    rack.add(ADDRESS, fault)
    path = credentials(tmp_path, address=ADDRESS, port=rack.port)
    assert call(path, "--deadline", *words.split(), NODE) == (1, "", f"roundsman-oob: {NODE}: {text}\n")


def test_a_node_that_is_off_is_not_cycled(rack: simulated.Rack, tmp_path: Path) -> None:
    rack.add(ADDRESS, on=False)
    status, output, said = call(credentials(tmp_path, address=ADDRESS, port=rack.port), "power-cycle", NODE)
    assert (status, output, "refused: the node is off" in said) == (1, "", True)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"address": ADDRESS, "password": "another one"}, f"{NODE}: auth: the password is wrong"),
        ({"address": "bmc1.example"}, f"{NODE}: unconfigured: the BMC address 'bmc1.example' is not an IP address"),
        ({"driver": "telepathy"}, f"{NODE}: unconfigured: unknown power driver 'telepathy'; known: ipmi, redfish"),
        ({"driver": str(PROGRAM)}, f"{NODE}: unconfigured: the helper program {PROGRAM} is not run"),
    ],
)
def test_what_cannot_be_asked_is_a_failure_in_one_line(
    rack: simulated.Rack, tmp_path: Path, entry: dict[str, str], text: str
) -> None:
    rack.add(ADDRESS)
    status, output, said = call(credentials(tmp_path, **{"port": rack.port, **entry}), "power-status", NODE)
    assert (status, output, said.count("\n")) == (1, "", 1)
    assert text in said
    assert entry.get("password", "s3cret") not in said


def test_a_listed_helper_program_is_refused_as_this_one_is_one_itself(tmp_path: Path) -> None:
    (tmp_path / "oob-programs").mkdir(mode=0o755)
    (tmp_path / "oob-programs/oob").symlink_to(PROGRAM)
    text = f"roundsman-oob: {NODE}: its driver is a helper program, which this one is itself\n"
    assert call(credentials(tmp_path, driver=str(PROGRAM)), "power-status", NODE) == (1, "", text)


def test_a_node_without_an_entry_is_a_failure(tmp_path: Path) -> None:
    path = credentials(tmp_path, address=ADDRESS)
    assert call(path, "power-status", "node2") == (
        1,
        "",
        f"roundsman-oob: node2: unconfigured: {path} has no entry for node2\n",
    )


def test_a_credentials_file_open_to_others_is_a_failure(tmp_path: Path) -> None:
    path = credentials(tmp_path, address=ADDRESS)
    path.chmod(0o640)
    status, output, said = call(path, "power-status", NODE)
    assert (status, output, "open to group or others (mode 0640)" in said) == (1, "", True)


@pytest.mark.parametrize("arguments", [["power-dance", NODE], ["power-on"], [NODE], []])
def test_arguments_that_are_none_are_told_from_a_failure(tmp_path: Path, arguments: list[str]) -> None:
    status, output, said = call(credentials(tmp_path, address=ADDRESS), *arguments)
    assert (status, output, "usage: roundsman-oob" in said) == (2, "", True)


def test_help_shows_how_it_is_called(tmp_path: Path) -> None:
    status, output, _ = call(tmp_path, "--help")
    assert (status, "roundsman-oob power-status node1.example.com" in output) == (0, True)


def test_a_bmc_of_openipmi_is_switched(tmp_path: Path) -> None:
    with openipmi.running(tmp_path, program=peers.program("ipmi_sim", package="openipmi")) as bmc:
        login = {"username": openipmi.USERNAME, "password": openipmi.PASSWORD}
        path = credentials(tmp_path, address=openipmi.ADDRESS, port=bmc.port, **login)
        assert call(path, "power-off", NODE) == (0, "", "")
        assert (call(path, "power-status", NODE), bmc.is_on) == ((0, '{"powered": false}\n', ""), False)


def test_a_bmc_over_redfish_is_switched(tmp_path: Path) -> None:
    with sushy.running(tmp_path) as bmc:
        login = {"username": sushy.USERNAME, "password": sushy.PASSWORD, "certificate": f"sha256:{bmc.fingerprint}"}
        path = credentials(tmp_path, driver="redfish", address=sushy.ADDRESS, port=bmc.port, **login)
        assert call(path, "power-off", NODE) == (0, "", "")
        assert call(path, "power-status", NODE) == (0, '{"powered": false}\n', "")
        assert call(path, "health", NODE) == (0, '[["System", "OK"]]\n', "")


@pytest.fixture
def helped(rack: simulated.Rack, tmp_path: Path) -> power.Target:
    """A node that our driver for helper programs reaches through roundsman-oob."""
    path = credentials(tmp_path, address=ADDRESS, port=rack.port)
    helper = tmp_path / "oob"
    helper.write_text(f'#!/bin/sh\nexec {PROGRAM} --credentials {path} --deadline 2 "$@"\n')
    helper.chmod(0o755)
    return power.Target(name=NODE, driver=str(helper))


def test_our_driver_for_helper_programs_and_our_helper_program_understand_each_other(
    rack: simulated.Rack, helped: power.Target
) -> None:
    node = rack.add(ADDRESS)
    [off] = drivers.run([helped], command=power.Command.OFF)
    assert (off.confirmed, off.before, off.after) == (True, power.State.ON, power.State.OFF)
    [on] = drivers.run([helped], command=power.Command.ON)
    assert (on.confirmed, node.history) == (True, [False, True])
    [told] = drivers.health([helped])
    assert (told.status, len(told.items)) == (health.Status.OK, 3)


def test_a_failure_comes_through_both_with_its_reason(rack: simulated.Rack, helped: power.Target) -> None:
    rack.add(ADDRESS, chassis.DEAD)
    [outcome] = drivers.run([helped], command=power.Command.OFF)
    assert (outcome.confirmed, outcome.sent, outcome.after) == (False, False, power.State.UNKNOWN)
    assert outcome.text == (f"OOB program execution failed (roundsman-oob: {NODE}: timeout: no verdict within 2 s)")
