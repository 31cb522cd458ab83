"""What a simulated BMC stands for: a chassis that is on or off, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from . import event_log

if TYPE_CHECKING:
    from collections.abc import Iterable

SUITE_SHA1: Final = 3
SUITE_SHA256: Final = 17

# The faults: never answers; accepts a control without effect; is too busy for a control; refuses one;
# carries a control out but never answers it; tells the opposite of the power state; takes its time to follow.
# A fault of a sensor is its name and what it shall read, such as `Fan1=critical`: sensors.py.
DEAD: Final = "dead"
STUBBORN: Final = "stubborn"
BUSY: Final = "busy"
REFUSING: Final = "refusing"
MUTE: Final = "mute"
LYING: Final = "lying"
SLOW: Final = "slow"


class Chassis(Protocol):
    """The node behind a BMC, as the simulator sees it."""

    def powered(self) -> bool: ...

    def set_power(self, on: bool, /) -> None: ...  # noqa: FBT001 -- the lab's chassis have this signature

    def faults(self) -> frozenset[str]: ...


@runtime_checkable
class Machine(Chassis, Protocol):
    """A node that is a machine: it can be asked to shut itself down, and be reset."""

    def press_power_button(self) -> None: ...

    def press_reset_button(self) -> None: ...


@dataclass(frozen=True)
class Bmc:
    """One BMC: its chassis, its only user, the cipher suites it accepts, and its event log."""

    chassis: Chassis
    username: str
    password: str = field(repr=False)
    suites: frozenset[int] = frozenset({SUITE_SHA1, SUITE_SHA256})
    log: event_log.EventLog = field(default_factory=event_log.EventLog)


class MemoryChassis:
    """A chassis that remembers its state and, in `history`, every power setting it was given."""

    def __init__(self, *, on: bool = True, faults: Iterable[str] = ()) -> None:
        self._on = on
        self._faults = frozenset(faults)
        self.history: list[bool] = []

    def powered(self) -> bool:
        return self._on

    def set_power(self, on: bool, /) -> None:  # noqa: FBT001 -- the port's signature
        self.history.append(on)
        self._on = on

    def faults(self) -> frozenset[str]:
        return self._faults

    def break_with(self, *faults: str) -> None:
        """Give the chassis these faults and no others."""
        self._faults = frozenset(faults)
