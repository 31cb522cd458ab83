"""What a simulated BMC's commands are given and give back.

Source: IPMI 2.0; completion codes in table 5-2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import chassis


class Code(IntEnum):
    """The completion codes used here."""

    OK = 0x00
    LEVEL_TOO_HIGH = 0x81
    UNKNOWN_SESSION = 0x87
    BUSY = 0xC0
    UNKNOWN_COMMAND = 0xC1
    NO_RESERVATION = 0xC5
    TOO_SHORT = 0xC7
    OUT_OF_RANGE = 0xC9
    NOT_THERE = 0xCB
    INVALID_FIELD = 0xCC
    NEEDS_SESSION = 0xD4
    NOT_IN_THIS_STATE = 0xD5
    DISABLED = 0xD6


@dataclass(frozen=True)
class Answer:
    """What a command gives back: its code and data, and what it leaves to the simulator.

    `silent`: send nothing; `sets`: the power that the chassis is given; `power_on_later`: it comes back on after
    having been off; `closes`: the session ends after this answer.
    """

    code: Code = Code.OK
    data: bytes = b""
    silent: bool = False
    sets: bool | None = None
    power_on_later: bool = False
    closes: bool = False


@dataclass(frozen=True)
class Call:
    """One request at one BMC; `session` is its number, None outside of one."""

    bmc: chassis.Bmc
    data: bytes
    session: int | None


@dataclass(frozen=True)
class Entry:
    """A command: what carries it out, how many bytes it needs, and whether it needs a session."""

    run: Callable[[Call], Answer]
    length: int = 0
    needs_session: bool = True
