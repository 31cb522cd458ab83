"""The event log (SEL) of a simulated BMC: the power changes that it was asked for.

Source: IPMI 2.0, 31 and 32.1; table 42-3, system ACPI power state.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST: Final = 64
_ENTRY: Final = struct.Struct("<HBIHBBBBBBB")
_SYSTEM_EVENT, _BMC, _REVISION = 0x02, 0x20, 0x04
_POWER_STATE, _NUMBER, _SENSOR_SPECIFIC = 0x22, 0xF0, 0x6F
_WORKING, _SOFT_OFF = 0, 5


@dataclass
class EventLog:
    """At most 64 entries, by number from 1 on; a full log takes no more until it is cleared."""

    clock: Callable[[], float] = time.time
    entries: dict[int, bytes] = field(default_factory=dict)
    changed: int = 0
    cleared: int = 0

    def power(self, *, on: bool) -> None:
        """Note that the chassis is to be on or off."""
        number = len(self.entries) + 1
        if number > LONGEST:
            return
        self.changed = int(self.clock())
        state = _WORKING if on else _SOFT_OFF
        self.entries[number] = _ENTRY.pack(
            number,
            _SYSTEM_EVENT,
            self.changed,
            _BMC,
            _REVISION,
            _POWER_STATE,
            _NUMBER,
            _SENSOR_SPECIFIC,
            state,
            0xFF,
            0xFF,
        )

    def clear(self) -> None:
        """Forget all entries."""
        self.entries.clear()
        self.cleared = int(self.clock())
