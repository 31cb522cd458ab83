"""What a simulated BMC stands for: a chassis that is on or off, and what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from ...plugins.module_utils.domain.values import errors
from . import event_log, sensors

if TYPE_CHECKING:
    from collections.abc import Iterable

SUITE_SHA1: Final = 3
SUITE_SHA256: Final = 17

# The faults: never answers; accepts a control without effect; is too busy for a control; refuses one;
# carries a control out but never answers it; tells the opposite of the power state; takes its time to follow;
# tells the power state and its opposite in turn; answers "off" when off and "on" when on with an error, as many do;
# reads off until a control arrives, whatever is so; does that, and is too busy for that control, as one that restarts;
# answers late, by 5 s or by as many as `late=SECONDS` says; is the BMC of another node, as `of=NODE` says.
# A fault of a sensor is its name and what it shall read, such as `Fan1=critical`: sensors.py.
DEAD: Final = "dead"
STUBBORN: Final = "stubborn"
BUSY: Final = "busy"
REFUSING: Final = "refusing"
MUTE: Final = "mute"
LYING: Final = "lying"
SLOW: Final = "slow"
CHANGING: Final = "changing"
STRICT: Final = "strict"
STALE_OFF: Final = "stale-off"
RESTARTING: Final = "restarting"
LATE: Final = "late"
OF: Final = "of"
FAULTS: Final = (DEAD, STUBBORN, BUSY, REFUSING, MUTE, LYING, SLOW, CHANGING, STRICT, STALE_OFF, RESTARTING, LATE)
LATE_SECONDS: Final = 5.0


def lateness(faults: Iterable[str]) -> float:
    """How late a BMC with these faults answers, in seconds."""
    late = [fault.partition("=")[2] for fault in faults if fault.partition("=")[0] == LATE]
    return max((float(seconds) if seconds else LATE_SECONDS for seconds in late), default=0.0)


def other_node(faults: Iterable[str]) -> str:
    """The node whose BMC one with these faults is, '' for its own."""
    return next((fault.partition("=")[2] for fault in faults if fault.partition("=")[0] == OF), "")


def check_fault(fault: str) -> None:
    """Refuse what is no fault of a chassis, nor one of a sensor.

    Raises:
        InvalidInput: the text says what there is.
    """
    name, _, measure = fault.partition("=")
    if name == OF and re.fullmatch(r"[A-Za-z0-9._-]+", measure):
        return
    if name == LATE and (not measure or re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", measure)):
        return
    healths = [health.value for health in sensors.Health]
    if fault in FAULTS or (name in {sensor.name for sensor in sensors.SENSORS} and measure in healths):
        return
    raise errors.InvalidInput(
        f"{fault!r} is not a fault of a BMC: use one of {', '.join(FAULTS)}, {LATE}=SECONDS, {OF}=NODE, or "
        f"SENSOR=HEALTH with {', '.join(sensor.name for sensor in sensors.SENSORS)} and {', '.join(healths)}"
    )


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


@dataclass
class Memory:
    """What a faulty BMC remembers: how often it told the power state, and whether it was given a control."""

    told: int = 0
    was_controlled: bool = False


@dataclass(frozen=True)
class Bmc:
    """One BMC: its chassis, its only user, the cipher suites it accepts, its event log, and its memory."""

    chassis: Chassis
    username: str
    password: str = field(repr=False)
    suites: frozenset[int] = frozenset({SUITE_SHA1, SUITE_SHA256})
    log: event_log.EventLog = field(default_factory=event_log.EventLog)
    memory: Memory = field(default_factory=Memory)

    def reads_on(self) -> bool:
        """The power state as the BMC tells it."""
        faults, is_on = self.chassis.faults(), self.chassis.powered()
        if not {STALE_OFF, RESTARTING} & faults:
            self.memory.was_controlled = False
        elif not self.memory.was_controlled:
            return False
        if CHANGING in faults:
            self.memory.told += 1
            return is_on is (self.memory.told % 2 == 1)
        return is_on is not (LYING in faults)

    def note_control(self) -> bool:
        """Note that a control arrives, and say whether the BMC is not too busy for it."""
        faults, is_first = self.chassis.faults(), not self.memory.was_controlled
        if BUSY in faults:
            return False
        self.memory.was_controlled = True
        return not (RESTARTING in faults and is_first)


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
