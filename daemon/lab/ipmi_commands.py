"""The IPMI commands that a simulated BMC knows, by network function and number.

Source: IPMI 2.0, chapters 20, 22 and 28; completion codes in table 5-2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from ...plugins.module_utils.oob import rmcp
from . import chassis, ipmi_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CIPHER_LIST_PART: Final = 16
POWER_IS_ON: Final = 0x01


class Code(IntEnum):
    """The completion codes used here."""

    OK = 0x00
    LEVEL_TOO_HIGH = 0x81
    UNKNOWN_SESSION = 0x87
    BUSY = 0xC0
    UNKNOWN_COMMAND = 0xC1
    TOO_SHORT = 0xC7
    INVALID_FIELD = 0xCC
    NEEDS_SESSION = 0xD4
    NOT_IN_THIS_STATE = 0xD5


class Control(IntEnum):
    """What Chassis Control can ask for."""

    OFF = 0
    ON = 1
    CYCLE = 2
    RESET = 3
    SOFT_OFF = 5


@dataclass(frozen=True)
class Answer:
    """What a command gives back: its code and data, and what it leaves to the simulator.

    `silent`: send nothing; `power_on_later`: the chassis is off now and comes back on; `closes`: the
    session ends after this answer.
    """

    code: Code = Code.OK
    data: bytes = b""
    silent: bool = False
    power_on_later: bool = False
    closes: bool = False


@dataclass(frozen=True)
class Call:
    """One request at one BMC; `session` is its number, None outside of one."""

    bmc: chassis.Bmc
    data: bytes
    session: int | None


def answer(request: rmcp.Request, *, bmc: chassis.Bmc, session: int | None) -> Answer:
    """Carry out one command; what the BMC does not know is 0xc1, as the specification wants it."""
    entry = _COMMANDS.get((request.netfn, request.command))
    if entry is None:
        return Answer(Code.UNKNOWN_COMMAND)
    if entry.needs_session and session is None:
        return Answer(Code.NEEDS_SESSION)
    if len(request.data) < entry.length:
        return Answer(Code.TOO_SHORT)
    return entry.run(Call(bmc=bmc, data=request.data, session=session))


def _device_id(_: Call) -> Answer:
    return Answer(data=bytes((0x20, 1, 1, 0, 0x02, 0x80)) + bytes(5))


def _auth_capabilities(call: Call) -> Answer:
    """No IPMI 1.5 authentication is offered; bit 7 of the request asks for the 2.0 form."""
    extended = bool(call.data[0] & 0x80)
    return Answer(data=bytes((1, 0x80 if extended else 0, 0b100, 0b10 if extended else 0)) + bytes(4))


def _cipher_suites(call: Call) -> Answer:
    start = (call.data[2] & 0x3F) * CIPHER_LIST_PART
    records = ipmi_session.cipher_records(allowed=call.bmc.suites)
    return Answer(data=b"\x01" + records[start : start + CIPHER_LIST_PART])


def _set_privilege(call: Call) -> Answer:
    level = call.data[0] & 0x0F
    if level > ipmi_session.ADMINISTRATOR:
        return Answer(Code.LEVEL_TOO_HIGH)
    return Answer(data=bytes((level or ipmi_session.ADMINISTRATOR,)))


def _close_session(call: Call) -> Answer:
    if call.data[:4] != struct.pack("<I", call.session):
        return Answer(Code.UNKNOWN_SESSION)
    return Answer(closes=True)


def _chassis_status(call: Call) -> Answer:
    on = call.bmc.chassis.powered() is not (chassis.LYING in call.bmc.chassis.faults())
    return Answer(data=bytes((POWER_IS_ON if on else 0, 0, 0)))


def _chassis_control(call: Call) -> Answer:
    node = call.bmc.chassis
    faults = node.faults()
    try:
        control = Control(call.data[0] & 0x0F)
    except ValueError:
        return Answer(Code.INVALID_FIELD)
    if chassis.BUSY in faults:
        return Answer(Code.BUSY)
    restarts = control in {Control.CYCLE, Control.RESET}
    if restarts and not node.powered():
        return Answer(Code.NOT_IN_THIS_STATE)
    silent = chassis.MUTE in faults
    if chassis.STUBBORN in faults or control is Control.RESET:
        return Answer(silent=silent)
    node.set_power(control is Control.ON)
    return Answer(silent=silent, power_on_later=control is Control.CYCLE)


@dataclass(frozen=True)
class _Entry:
    run: Callable[[Call], Answer]
    length: int = 0
    needs_session: bool = True


_COMMANDS: Mapping[tuple[int, int], _Entry] = {
    (0x00, 0x01): _Entry(_chassis_status),
    (0x00, 0x02): _Entry(_chassis_control, length=1),
    (0x06, 0x01): _Entry(_device_id),
    (0x06, 0x38): _Entry(_auth_capabilities, length=2, needs_session=False),
    (0x06, 0x3B): _Entry(_set_privilege, length=1),
    (0x06, 0x3C): _Entry(_close_session, length=4),
    (0x06, 0x54): _Entry(_cipher_suites, length=3, needs_session=False),
}
