"""Sensors and event log of a simulated BMC, as the specification lays them out."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import event_log, sensors

from tests.unit.daemon.lab.desk import Desk, Line

READING, THRESHOLDS = (0x04, 0x2D), (0x04, 0x27)
SDR_INFO, SDR_RESERVE, SDR = (0x0A, 0x20), (0x0A, 0x22), (0x0A, 0x23)
SEL_INFO, SEL_RESERVE, SEL, SEL_CLEAR = (0x0A, 0x40), (0x0A, 0x42), (0x0A, 0x43), (0x0A, 0x47)
OFF, ON = b"\x00", b"\x01"
LAST, WHOLE = 0xFFFF, 0xFF


def part(number: int, *, reservation: int = 0, start: int = 0, length: int = WHOLE) -> bytes:
    return struct.pack("<HHBB", reservation, number, start, length)


def walk(line: Line, command: tuple[int, int]) -> list[bytes]:
    """Read all records, each by the number that the one before it gave."""
    records, number = [], 0
    while number != LAST:
        answer = line.get(*command, part(number))
        number = int.from_bytes(answer[:2], "little")
        records.append(answer[2:])
    return records


def test_the_repository_is_walked_from_its_first_record_to_its_last() -> None:
    line = Desk().log_in()
    records = walk(line, SDR)
    assert int.from_bytes(line.get(*SDR_INFO)[1:3], "little") == len(records) == len(sensors.SENSORS)
    for record, sensor in zip(records, sensors.SENSORS, strict=True):
        assert (record[3], record[4], record[7]) == (sensors.FULL_RECORD, len(record) - 5, sensor.number)
        assert (record[47] & 0x1F, record[48:]) == (len(sensor.name), sensor.name.encode())


def test_a_record_is_read_in_parts_with_a_reservation_and_not_without() -> None:
    line = Desk().log_in()
    [whole, *_] = walk(line, SDR)
    assert line.ask(*SDR, part(1, start=5, length=4)) == (0xC5, b"")
    reservation = int.from_bytes(line.get(*SDR_RESERVE), "little")
    assert line.get(*SDR, part(1, reservation=reservation, start=5, length=4))[2:] == whole[5:9]


def test_more_of_a_record_than_there_is_is_refused() -> None:
    line = Desk().log_in()
    assert line.ask(*SDR, part(1, length=200)) == (0xC9, b"")
    assert line.ask(*SDR, part(77)) == (0xCB, b"")


@pytest.mark.parametrize(
    ("fault", "bits"),
    [((), 0), (("Fan1=warning",), 0b001), (("Fan1=critical",), 0b011)],
    ids=["ok", "warning", "critical"],
)
def test_a_reading_crosses_the_thresholds_that_its_health_says(fault: tuple[str, ...], bits: int) -> None:
    line = Desk(*fault).log_in()
    reading, flags, crossed = line.get(*READING, bytes((sensors.FAN.number,)))
    assert (flags & 0x20, crossed) == (0, bits)
    readable, non_critical, critical, *_ = line.get(*THRESHOLDS, bytes((sensors.FAN.number,)))
    assert readable == 0b000011
    assert (reading < non_critical, reading < critical) == (bool(bits & 0b001), bool(bits & 0b010))


def test_a_sensor_can_be_unavailable() -> None:
    line = Desk("CPU_Temp=unavailable").log_in()
    assert line.get(*READING, bytes((sensors.CPU_TEMPERATURE.number,)))[1] & 0x20


def test_a_power_supply_has_states_and_no_thresholds() -> None:
    line = Desk("PSU1=critical").log_in()
    supply = bytes((sensors.POWER_SUPPLY.number,))
    assert line.get(*READING, supply)[2] & 0b010
    assert line.ask(*THRESHOLDS, supply) == (0xCB, b"")


def test_a_sensor_that_is_not_there_is_refused() -> None:
    assert Desk().log_in().ask(*READING, b"\x63") == (0xCB, b"")


def test_power_changes_are_in_the_event_log_until_it_is_cleared() -> None:
    line = Desk().log_in()
    assert line.ask(*SEL, part(0)) == (0xCB, b"")
    for control in (OFF, ON):
        line.get(0x00, 0x02, control)
    entries = walk(line, SEL)
    assert [(len(entry), entry[10], entry[13]) for entry in entries] == [(16, 0x22, 5), (16, 0x22, 0)]
    assert line.ask(*SEL_CLEAR, line.get(*SEL_RESERVE) + b"CLX\xaa") == (0xCC, b"")
    line.get(*SEL_CLEAR, line.get(*SEL_RESERVE) + b"CLR\xaa")
    assert int.from_bytes(line.get(*SEL_INFO)[1:3], "little") == 0


def test_a_cycle_is_in_the_event_log_as_off_and_on() -> None:
    desk = Desk(off_time=2.0)
    line = desk.log_in()
    line.get(0x00, 0x02, b"\x02")
    desk.pass_time(2.1)
    assert [entry[13] for entry in walk(line, SEL)] == [5, 0]


def test_a_full_event_log_takes_no_more() -> None:
    line = Desk().log_in()
    for _ in range(event_log.LONGEST + 1):
        line.get(0x00, 0x02, OFF)
    version, entries, free = struct.unpack_from("<BHH", line.get(*SEL_INFO))
    assert (version, entries, free) == (0x51, event_log.LONGEST, 0)
