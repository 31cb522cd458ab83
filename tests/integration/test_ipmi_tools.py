"""The BMC simulator as ipmitool, FreeIPMI's ipmipower and pyghmi see it: three consoles that nobody here wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis

from tests.unit.daemon.lab import simulated

from . import peers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADDRESS = "127.1.0.1"
SUITES = pytest.mark.parametrize("suite", ["3", "17"])
PYGHMI = """
import json, sys
from pyghmi.ipmi import command
address, port, username, password = sys.argv[1:]
bmc = command.Command(bmc=address, port=int(port), userid=username, password=password)
told = {
    "before": bmc.get_power()["powerstate"],
    "after": bmc.set_power("off", wait=10)["powerstate"],
    "sensors": {one.name: [one.value, one.units, one.health, one.unavailable] for one in bmc.get_sensor_data()},
    "bad": [one.name for one in bmc.get_health()["badreadings"]],
    "events": [[one["component_type"], one["event"]] for one in bmc.get_event_log()],
}
bmc.ipmi_session.logout()
print(json.dumps(told))
"""


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


@pytest.fixture
def ipmitool(rack: simulated.Rack) -> Callable[..., subprocess.CompletedProcess[str]]:
    path = peers.program("ipmitool", package="ipmitool")

    def run(*words: str, suite: str = "17", password: str = simulated.PASSWORD) -> subprocess.CompletedProcess[str]:
        login = ["-H", ADDRESS, "-p", str(rack.port), "-U", simulated.USERNAME, "-P", password]
        return _run(path, "-I", "lanplus", "-C", suite, "-N", "1", "-R", "3", *login, *words)

    return run


@pytest.fixture
def ipmipower(rack: simulated.Rack) -> Callable[..., subprocess.CompletedProcess[str]]:
    path = peers.program("ipmipower", package="freeipmi-tools")

    def run(*words: str, hosts: str = ADDRESS, password: str = simulated.PASSWORD) -> subprocess.CompletedProcess[str]:
        login = ["-h", f"{hosts}:{rack.port}", "-u", simulated.USERNAME, "-p", password]
        return _run(path, "-D", "LAN_2_0", "--session-timeout=3000", *login, *words)

    return run


@SUITES
def test_ipmitool_reads_and_switches_a_node(rack: simulated.Rack, ipmitool: Any, suite: str) -> None:
    node = rack.add(ADDRESS)
    for command, state in (("off", "off"), ("on", "on"), ("soft", "off")):
        assert ipmitool("chassis", "power", command, suite=suite).returncode == 0
        assert ipmitool("chassis", "power", "status", suite=suite).stdout == f"Chassis Power is {state}\n"
    assert node.history == [False, True, False]
    assert rack.session_count() == 0


@SUITES
def test_ipmitool_reads_records_and_thresholds_of_sensors(rack: simulated.Rack, ipmitool: Any, suite: str) -> None:
    rack.add(ADDRESS, "Fan1=critical")
    records = _table(ipmitool("sdr", "list", suite=suite).stdout)
    assert records == [["CPU_Temp", "40 degrees C", "ok"], ["Fan1", "250 RPM", "cr"], ["PSU1", "0x01", "ok"]]
    cpu, fan, _ = _table(ipmitool("sensor", "list", suite=suite).stdout)
    assert cpu == ["CPU_Temp", "40.000", "degrees C", "ok", "na", "na", "na", "80.000", "90.000", "100.000"]
    assert fan == ["Fan1", "250.000", "RPM", "cr", "na", "500.000", "1000.000", "na", "na", "na"]


@SUITES
def test_ipmitool_reads_and_clears_the_event_log(rack: simulated.Rack, ipmitool: Any, suite: str) -> None:
    rack.add(ADDRESS)
    ipmitool("chassis", "power", "off", suite=suite)
    [event] = _table(ipmitool("sel", "list", suite=suite).stdout)
    assert (event[0], event[3:]) == ("1", ["System ACPI Power State #0xf0", "S5/G2: soft-off", "Asserted"])
    assert ipmitool("sel", "clear", suite=suite).returncode == 0
    assert "no entries" in ipmitool("sel", "list", suite=suite).stderr


def test_ipmitool_is_refused_with_a_wrong_password(rack: simulated.Rack, ipmitool: Any) -> None:
    node = rack.add(ADDRESS)
    refused = ipmitool("chassis", "power", "off", password="wrong")
    assert (refused.returncode, "Unable to establish" in refused.stderr, node.history) == (1, True, [])


@SUITES
def test_ipmipower_switches_a_range_of_nodes(rack: simulated.Rack, ipmipower: Any, suite: str) -> None:
    hosts = [f"127.1.{third}.{fourth}" for third in range(2) for fourth in range(1, 6)]
    nodes = [rack.add(host) for host in hosts]
    done = ipmipower("--off", "--wait-until-off", "-I", suite, hosts="127.1.[0-1].[1-5]")
    assert _by_host(done.stdout) == dict.fromkeys(hosts, "ok")
    assert [node.powered() for node in nodes] == [False] * 10
    assert _by_host(ipmipower("--stat", "-I", suite, hosts="127.1.[0-1].[1-5]").stdout) == dict.fromkeys(hosts, "off")


def test_ipmipower_tells_a_wrong_password_from_a_dead_bmc(rack: simulated.Rack, ipmipower: Any) -> None:
    node = rack.add(ADDRESS)
    assert ipmipower("--off", password="wrong").stdout == f"{ADDRESS}: password invalid\n"
    node.break_with(chassis.DEAD)
    assert ipmipower("--off").stdout == f"{ADDRESS}: connection timeout\n"
    assert node.history == []


def test_pyghmi_switches_a_node_off_and_reads_sensors_and_events(rack: simulated.Rack) -> None:
    node = rack.add(ADDRESS, "Fan1=warning")
    login = [ADDRESS, str(rack.port), simulated.USERNAME, simulated.PASSWORD]
    done = _run(sys.executable, "-c", PYGHMI, *login)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "before": "on",
        "after": "off",
        "sensors": {"CPU_Temp": [40.0, "°C", 0, 0], "Fan1": [750.0, "RPM", 1, 0], "PSU1": [None, "", 0, 0]},
        "bad": ["Fan1"],
        "events": [["System ACPI Power State", "Off"]],
    }
    assert not node.powered()


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, timeout=60, text=True)


def _table(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]


def _by_host(text: str) -> dict[str, str]:
    return {host: said for host, _, said in (line.partition(": ") for line in text.splitlines())}
