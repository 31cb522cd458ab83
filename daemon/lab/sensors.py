"""The sensors of a simulated BMC: three full records of its SDR repository, and readings that fit a health.

A chassis says what is wrong with a sensor by a fault `NAME=HEALTH`, such as `Fan1=critical`; the others are well.
Source: IPMI 2.0, 35.14 (readings), 43.1 (full sensor record), tables 42-1 and 42-3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SDR_VERSION: Final = 0x51
FULL_RECORD: Final = 0x01
THRESHOLD, SENSOR_SPECIFIC = 0x01, 0x6F
UNSIGNED, NOT_ANALOG = 0x00, 0xC0
DEGREES, RPM = 1, 18
SCANNED, UNAVAILABLE = 0xC0, 0xE0
_RECORD: Final = struct.Struct("<BBB BBBB BB HHH BBB BBBBBB B BBBBB BBBBBB BBBBBB")


class Health(Enum):
    """What a sensor can be told to read."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True)
class Sensor:
    """One sensor; `raw` and `state` are what it reads and its bits of state for each health that can be read.

    `thresholds`: upper non-recoverable, critical, non-critical, then lower ones, as raw readings; 0 where there is
    none. `factor` makes a raw reading a value in `unit`.
    """

    number: int
    name: str
    kind: int
    reading: int
    entity: int
    raw: Mapping[Health, int]
    state: Mapping[Health, int]
    unit: int = 0
    factor: int = 1
    thresholds: tuple[int, int, int, int, int, int] = (0,) * 6

    @property
    def readable(self) -> int:
        """The thresholds that there are, as bits (35.9): lower non-critical is bit 0, upper non-recoverable bit 5."""
        lower_first = (*self.thresholds[:2:-1], *self.thresholds[2::-1])
        return sum(1 << bit for bit, threshold in enumerate(lower_first) if threshold)

    def record(self) -> bytes:
        """The full sensor record, its header included."""
        is_threshold = self.reading == THRESHOLD
        states = 0 if is_threshold else 0b111
        body = _RECORD.pack(
            *(0x20, 0, self.number),
            # One of its kind; scanned and with events from the start; its thresholds can be read, not set.
            *(self.entity, 1, 0x7F, 0x40 | (0b0100 if is_threshold else 0)),
            *(self.kind, self.reading),
            *((0, 0, self.readable) if is_threshold else (states, states, states)),
            *(UNSIGNED if is_threshold else NOT_ANALOG, self.unit, 0),
            *(0, self.factor, 0, 0, 0, 0),
            *(0,),
            *(0b001, self.raw[Health.OK], 0, 0, 0xFF),
            *(0, *self.thresholds[:5]),
            *(self.thresholds[5], 0, 0, 0, 0, 0),
        )
        name = self.name.encode()
        body += bytes((0xC0 | len(name),)) + name
        return struct.pack("<HBBB", self.number, SDR_VERSION, FULL_RECORD, len(body)) + body

    def read(self, health: Health) -> bytes:
        """What Get Sensor Reading gives."""
        if health is Health.UNAVAILABLE:
            return bytes((0, UNAVAILABLE, 0))
        discrete = b"" if self.reading == THRESHOLD else b"\x80"
        return bytes((self.raw[health], SCANNED, self.state[health])) + discrete


def _by_health(ok: int, warning: int, critical: int) -> dict[Health, int]:
    return {Health.OK: ok, Health.WARNING: warning, Health.CRITICAL: critical}


CPU_TEMPERATURE: Final = Sensor(
    number=1,
    name="CPU_Temp",
    kind=0x01,
    reading=THRESHOLD,
    entity=3,
    unit=DEGREES,
    raw=_by_health(40, 85, 95),
    state=_by_health(0, 0b001000, 0b011000),
    thresholds=(100, 90, 80, 0, 0, 0),
)
FAN: Final = Sensor(
    number=2,
    name="Fan1",
    kind=0x04,
    reading=THRESHOLD,
    entity=29,
    unit=RPM,
    factor=50,
    raw=_by_health(100, 15, 5),
    state=_by_health(0, 0b000001, 0b000011),
    thresholds=(0, 0, 0, 0, 10, 20),
)
# Present; present and about to fail, which pyghmi and FreeIPMI call critical too; present and failed (table 42-3).
POWER_SUPPLY: Final = Sensor(
    number=3,
    name="PSU1",
    kind=0x08,
    reading=SENSOR_SPECIFIC,
    entity=10,
    raw=_by_health(0, 0, 0),
    state=_by_health(0b001, 0b101, 0b011),
)
SENSORS: Final = (CPU_TEMPERATURE, FAN, POWER_SUPPLY)
BY_NUMBER: Final = {sensor.number: sensor for sensor in SENSORS}


def health_of(sensor: Sensor, *, faults: Collection[str]) -> Health:
    """The worst that a chassis's faults say of a sensor; a health that is none is passed over."""
    for health in (Health.UNAVAILABLE, Health.CRITICAL, Health.WARNING):
        if f"{sensor.name}={health.value}" in faults:
            return health
    return Health.OK
