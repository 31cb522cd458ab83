"""Health, row by row: what pyghmi says of a BMC, and what it comes to."""

from __future__ import annotations

import struct
import types
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis, sensors
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import health, power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power.health import Status
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers, pyghmi_library
from pyghmi import exceptions

from tests.unit.daemon.lab import simulated

from . import redfish_service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND = "127.0.12.1", "127.0.12.2"
OK, WARNING, CRITICAL, FAILED = 0, 1, 2, 4
ALL_SENSORS = [sensor.name for sensor in sensors.SENSORS]


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


@pytest.fixture
def service(tmp_path: Path) -> Iterator[redfish_service.Service]:
    with redfish_service.running(tmp_path) as one:
        yield one


def ask(*, address: str = FIRST, driver: str = "ipmi", deadline: float = 60.0, **changes: Any) -> health.Health:
    login = {"username": simulated.USERNAME, "password": simulated.PASSWORD, **changes}
    [told] = drivers.health([power.Target(name="node1", driver=driver, address=address, **login)], deadline=deadline)
    return told


def reading(bits: int, *, unavailable: int = 0, name: str = "Fan1") -> types.SimpleNamespace:
    return types.SimpleNamespace(name=name, health=bits, unavailable=unavailable)


class Bmc:
    """A connection of pyghmi to one BMC, which reads what it was given or fails."""

    def __init__(self, *told: types.SimpleNamespace | Exception, twice: int = 0) -> None:
        self._told = told
        self._sdr = types.SimpleNamespace(broken_sensor_ids=range(twice))
        self.ipmi_session = types.SimpleNamespace(logout=lambda: None)

    def get_sensor_data(self) -> Iterator[types.SimpleNamespace]:
        for one in self._told:
            if isinstance(one, Exception):
                raise one
            yield one


def test_a_bmc_of_sensors_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ask_twin(monkeypatch, Bmc(*[reading(WARNING, name="x" * 300)] * 3000))
    assert (told.status, told.reason, told.text) == (Status.WARNING, "refused", "more than 1000 items")
    assert (len(told.items), max(len(item.name) for item in told.items)) == (1000, 200)


def ask_twin(monkeypatch: pytest.MonkeyPatch, bmc: Bmc) -> health.Health:
    library = types.SimpleNamespace(select_simplesession=lambda: None, Command=lambda **_: bmc)
    monkeypatch.setattr(pyghmi_library, "load", lambda _: library)
    return ask()


@pytest.mark.parametrize(
    ("readings", "status"),
    [
        ([reading(FAILED)], Status.CRITICAL),
        ([reading(CRITICAL)], Status.CRITICAL),
        ([reading(WARNING | FAILED)], Status.CRITICAL),
        ([reading(WARNING | CRITICAL), reading(OK)], Status.CRITICAL),
        ([reading(WARNING), reading(OK)], Status.WARNING),
        ([reading(OK)], Status.OK),
        ([reading(OK), reading(OK, unavailable=1)], Status.OK),
        ([], Status.UNKNOWN),
        ([reading(OK, unavailable=1)], Status.UNKNOWN),
        ([reading(CRITICAL, unavailable=1)], Status.UNKNOWN),
    ],
)
def test_the_bits_of_the_readings_make_the_status(
    monkeypatch: pytest.MonkeyPatch, readings: list[types.SimpleNamespace], status: Status
) -> None:
    told = ask_twin(monkeypatch, Bmc(*readings))
    assert (told.status, told.reason, len(told.items)) == (status, None, len(readings))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (exceptions.IpmiException(None), "timeout"),
        (exceptions.IpmiException("Incorrect password provided"), "auth"),
        (exceptions.IpmiException("Unauthorized name in RAKP2"), "auth"),
        (
            exceptions.IpmiException("Insufficient resources to create new session (wait for existing to timeout)"),
            "busy",
        ),
        (exceptions.IpmiException("No Cipher Suite Match found"), "cipher"),
        (exceptions.IpmiException("Unknown code 0xc1 encountered"), "refused"),
        (exceptions.PyghmiException("something else"), "refused"),
        (NotImplementedError("SDR version"), "refused"),
        (KeyError(7), "driver"),
        (struct.error("pack expected 32 items for packing (got 20)"), "driver"),
    ],
)
def test_a_failure_leaves_the_status_unknown_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    told = ask_twin(monkeypatch, Bmc(reading(OK), error))
    assert (told.status, told.reason) == (Status.UNKNOWN, reason)
    assert told.text


def test_what_was_bad_before_a_failure_stays_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ask_twin(monkeypatch, Bmc(reading(CRITICAL), exceptions.IpmiException(None)))
    assert (told.status, told.reason) == (Status.CRITICAL, "timeout")


def test_sensors_that_pyghmi_drops_for_sharing_a_number_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ask_twin(monkeypatch, Bmc(twice=1))
    assert (told.status, [item.status for item in told.items]) == (Status.UNKNOWN, [Status.UNKNOWN])


def test_without_pyghmi_the_status_is_unknown_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise errors.PowerFailed("driver", "no pyghmi here")

    monkeypatch.setattr(pyghmi_library, "load", missing)
    told = ask()
    assert (told.status, told.reason, told.text) == (Status.UNKNOWN, "driver", "no pyghmi here")


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        ([], Status.OK),
        (["Fan1=warning"], Status.WARNING),
        (["Fan1=warning", "PSU1=critical"], Status.CRITICAL),
        ([f"{ALL_SENSORS[0]}=unavailable"], Status.OK),
        ([f"{name}=unavailable" for name in ALL_SENSORS], Status.UNKNOWN),
    ],
)
def test_a_bmc_is_read_over_the_wire(rack: simulated.Rack, faults: list[str], status: Status) -> None:
    rack.add(FIRST, *faults)
    told = ask(port=rack.port)
    assert (told.status, told.reason) == (status, None)
    assert [item.name for item in told.items] == ALL_SENSORS


def test_a_wrong_password_is_told_from_a_dead_bmc(rack: simulated.Rack) -> None:
    rack.add(FIRST)
    rack.add(SECOND, chassis.DEAD)
    wrong = ask(port=rack.port, password="wrong")
    dead = ask(port=rack.port, address=SECOND, deadline=2.0)
    assert (wrong.status, wrong.reason, dead.status, dead.reason) == (Status.UNKNOWN, "auth", Status.UNKNOWN, "timeout")


def ask_redfish(service: redfish_service.Service) -> health.Health:
    return ask(driver="redfish", address=redfish_service.ADDRESS, port=service.port, certificate="any")


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"Health": "OK"}, Status.OK),
        ({"Health": "OK", "HealthRollup": "OK"}, Status.OK),
        ({"Health": "Warning"}, Status.WARNING),
        ({"Health": "OK", "HealthRollup": "Critical"}, Status.CRITICAL),
        ({"Health": "Unknown"}, Status.UNKNOWN),
        ({"Health": None}, Status.UNKNOWN),
        ({"State": "Enabled"}, Status.UNKNOWN),
        ({}, Status.UNKNOWN),
        (None, Status.UNKNOWN),
    ],
)
def test_a_system_is_what_redfish_says_of_it(
    service: redfish_service.Service, told: dict[str, object] | None, status: Status
) -> None:
    service.system["Status"] = told
    found = ask_redfish(service)
    assert (found.status, found.items[0], found.reason) == (status, health.Item("System", status), None)


def test_a_system_without_a_status_is_unknown(service: redfish_service.Service) -> None:
    del service.system["Status"]
    assert ask_redfish(service).status is Status.UNKNOWN


def test_the_parts_of_a_system_that_are_not_well_are_named(service: redfish_service.Service) -> None:
    service.system["Status"] = {"HealthRollup": "Critical"}
    service.system["ProcessorSummary"] = {"Status": {"Health": "OK"}}
    service.system["MemorySummary"] = {"Status": {"Health": "OK"}}
    service.system["PCIeDevices"] = [{"@odata.id": "/redfish/v1/Systems/1/PCIeDevices/1"}]
    service.documents["/redfish/v1/Systems/1/PCIeDevices/1"] = {"Name": "NIC 1", "Status": {"Health": "Critical"}}
    assert list(ask_redfish(service).items) == [
        health.Item("System", Status.CRITICAL),
        health.Item("NIC 1", Status.CRITICAL),
    ]


def test_a_part_that_breaks_off_leaves_the_system_as_bad_as_it_is(service: redfish_service.Service) -> None:
    service.system["Status"] = {"HealthRollup": "Warning"}
    service.system["PCIeDevices"] = [{"@odata.id": "/redfish/v1/Systems/1/PCIeDevices/1"}]
    service.wrong["/redfish/v1/Systems/1/PCIeDevices/1"] = (500, b"")
    told = ask_redfish(service)
    assert (told.status, told.items[0], told.reason) == (
        Status.WARNING,
        health.Item("System", Status.WARNING),
        "refused",
    )
