"""What a simulated BMC stands for: a chassis that is on or off, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

SUITE_SHA1: Final = 3
SUITE_SHA256: Final = 17

# The faults: never answers; accepts a control without effect; is too busy for a control;
# carries a control out but never answers it; tells the opposite of the power state.
DEAD: Final = "dead"
STUBBORN: Final = "stubborn"
BUSY: Final = "busy"
MUTE: Final = "mute"
LYING: Final = "lying"


class Chassis(Protocol):
    """The node behind a BMC, as the simulator sees it."""

    def powered(self) -> bool: ...

    def set_power(self, on: bool, /) -> None: ...  # noqa: FBT001 -- the lab's chassis have this signature

    def faults(self) -> frozenset[str]: ...


@dataclass(frozen=True)
class Bmc:
    """One BMC: its chassis, its only user, and the cipher suites it accepts."""

    chassis: Chassis
    username: str
    password: str = field(repr=False)
    suites: frozenset[int] = frozenset({SUITE_SHA1, SUITE_SHA256})


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
