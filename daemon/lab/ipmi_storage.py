"""The IPMI commands by which sensors and event log of a simulated BMC are read.

Source: IPMI 2.0, chapters 31 (SEL), 33 (SDR repository) and 35 (sensors).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from . import event_log, sensors
from .ipmi_calls import Answer, Call, Code, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

RESERVATION: Final = 1
FIRST, LAST = 0x0000, 0xFFFF
WHOLE: Final = 0xFF
CAN_RESERVE: Final = 0x02
CLEAR: Final = b"CLR"
ERASED: Final = 0x01
_RECORDS: Final = {sensor.number: sensor.record() for sensor in sensors.SENSORS}


def _sdr_info(_: Call) -> Answer:
    return Answer(data=struct.pack("<BHHIIB", sensors.SDR_VERSION, len(_RECORDS), 0, 1, 0, CAN_RESERVE))


def _sel_info(call: Call) -> Answer:
    log = call.bmc.log
    free = (event_log.LONGEST - len(log.entries)) * 16
    count = len(log.entries)
    return Answer(data=struct.pack("<BHHIIB", sensors.SDR_VERSION, count, free, log.changed, log.cleared, CAN_RESERVE))


def _reserve(_: Call) -> Answer:
    return Answer(data=struct.pack("<H", RESERVATION))


def _sdr(call: Call) -> Answer:
    return _part(call.data, _RECORDS)


def _sel_entry(call: Call) -> Answer:
    return _part(call.data, call.bmc.log.entries)


def _part(data: bytes, records: Mapping[int, bytes]) -> Answer:
    """Give a record or a part of it, after the number of the next one; a part needs a reservation."""
    reservation, asked, start, length = struct.unpack_from("<HHBB", data)
    numbers = sorted(records)
    if not numbers:
        return Answer(Code.NOT_THERE)
    number = {FIRST: numbers[0], LAST: numbers[-1]}.get(asked, asked)
    record = records.get(number)
    if record is None:
        return Answer(Code.NOT_THERE)
    if start and reservation != RESERVATION:
        return Answer(Code.NO_RESERVATION)
    end = len(record) if length == WHOLE else start + length
    if start > len(record) or end > len(record):
        return Answer(Code.OUT_OF_RANGE)
    later = [other for other in numbers if other > number]
    return Answer(data=struct.pack("<H", later[0] if later else LAST) + record[start:end])


def _clear_sel(call: Call) -> Answer:
    if call.data[2:5] != CLEAR:
        return Answer(Code.INVALID_FIELD)
    call.bmc.log.clear()
    return Answer(data=bytes((ERASED,)))


def _sel_time(call: Call) -> Answer:
    return Answer(data=struct.pack("<I", int(call.bmc.log.clock())))


def _reading(call: Call) -> Answer:
    sensor = sensors.BY_NUMBER.get(call.data[0])
    if sensor is None:
        return Answer(Code.NOT_THERE)
    return Answer(data=sensor.read(sensors.health_of(sensor, faults=call.bmc.chassis.faults())))


def _thresholds(call: Call) -> Answer:
    sensor = sensors.BY_NUMBER.get(call.data[0])
    if sensor is None or sensor.reading != sensors.THRESHOLD:
        return Answer(Code.NOT_THERE)
    # From lower non-critical up to upper non-recoverable (35.9); the record has them the other way round.
    lower_first = (*sensor.thresholds[:2:-1], *sensor.thresholds[2::-1])
    return Answer(data=bytes((sensor.readable, *lower_first)))


COMMANDS: Final[Mapping[tuple[int, int], Entry]] = {
    (0x04, 0x27): Entry(_thresholds, length=1),
    (0x04, 0x2D): Entry(_reading, length=1),
    (0x0A, 0x20): Entry(_sdr_info),
    (0x0A, 0x22): Entry(_reserve),
    (0x0A, 0x23): Entry(_sdr, length=6),
    (0x0A, 0x40): Entry(_sel_info),
    (0x0A, 0x42): Entry(_reserve),
    (0x0A, 0x43): Entry(_sel_entry, length=6),
    (0x0A, 0x47): Entry(_clear_sel, length=6),
    (0x0A, 0x48): Entry(_sel_time),
}
