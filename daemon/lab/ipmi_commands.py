"""The IPMI commands that a simulated BMC knows, by network function and number.

Source: IPMI 2.0, chapters 20, 22 and 28.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from . import chassis, ipmi_session, ipmi_storage
from .ipmi_calls import Answer, Call, Code, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.oob import rmcp

CIPHER_LIST_PART: Final = 16
POWER_IS_ON: Final = 0x01
# A chassis device with an event log, an SDR repository and sensors (20.1).
DUTIES: Final = 0x80 | 0x04 | 0x02 | 0x01


class Control(IntEnum):
    """What Chassis Control can ask for."""

    OFF = 0
    ON = 1
    CYCLE = 2
    RESET = 3
    SOFT_OFF = 5


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
    return Answer(data=bytes((0x20, 1, 1, 0, 0x02, DUTIES)) + bytes(5))


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
    return Answer(data=bytes((POWER_IS_ON if call.bmc.reads_on() else 0, 0, 0)))


def _chassis_control(call: Call) -> Answer:
    node = call.bmc.chassis
    faults = node.faults()
    try:
        control = Control(call.data[0] & 0x0F)
    except ValueError:
        return Answer(Code.INVALID_FIELD)
    if not call.bmc.note_control():
        return Answer(Code.BUSY)
    restarts = control in {Control.CYCLE, Control.RESET}
    is_vain = chassis.STRICT in faults and control is (Control.ON if node.powered() else Control.OFF)
    if chassis.REFUSING in faults or is_vain or (restarts and not node.powered()):
        return Answer(Code.DISABLED if chassis.REFUSING in faults else Code.NOT_IN_THIS_STATE)
    silent = chassis.MUTE in faults
    if chassis.STUBBORN in faults:
        return Answer(silent=silent)
    if control is Control.RESET or (control is Control.SOFT_OFF and isinstance(node, chassis.Machine)):
        _press(node, control)
        return Answer(silent=silent)
    on = control is Control.ON
    call.bmc.log.power(on=on)
    return Answer(silent=silent, sets=on, power_on_later=control is Control.CYCLE)


def _press(node: chassis.Chassis, control: Control) -> None:
    """Press a button of a machine; what is none restarts at once, which nobody sees."""
    if isinstance(node, chassis.Machine):
        (node.press_reset_button if control is Control.RESET else node.press_power_button)()


_COMMANDS: Mapping[tuple[int, int], Entry] = {
    (0x00, 0x01): Entry(_chassis_status),
    (0x00, 0x02): Entry(_chassis_control, length=1),
    (0x06, 0x01): Entry(_device_id),
    (0x06, 0x38): Entry(_auth_capabilities, length=2, needs_session=False),
    (0x06, 0x3B): Entry(_set_privilege, length=1),
    (0x06, 0x3C): Entry(_close_session, length=4),
    (0x06, 0x54): Entry(_cipher_suites, length=3, needs_session=False),
    **ipmi_storage.COMMANDS,
}
