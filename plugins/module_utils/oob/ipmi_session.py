"""One session with one BMC, once it stands: commands and their answers.

Source: IPMI 2.0, 13.28 to 13.32 and 22.19.
"""

from __future__ import annotations

import struct
from typing import Mapping, Optional

from ..domain.power import power
from ..domain.values import errors
from . import ipmi_link, rakp, rmcp

NETFN_APPLICATION = 0x06
SET_PRIVILEGE = 0x3B
CLOSE_SESSION = 0x3C
NOT_IN_THIS_STATE = 0xD5
ASKS = 3
LAST_SEQUENCE = 63

_CODES: Mapping[int, power.Reason] = {
    0xC0: power.Reason.BUSY,
    0xC3: power.Reason.BUSY,
    0xC4: power.Reason.BUSY,
    0xD2: power.Reason.BUSY,
    0xD4: power.Reason.AUTH,
}


class Session:
    """One session with one BMC; `patience` is the wait in seconds that its login took at most for an answer."""

    def __init__(self, link: ipmi_link.Link, channel: rakp.Channel, *, bmc: int, patience: float) -> None:
        self._link, self._channel, self._bmc, self._patience = link, channel, bmc, patience
        self._sequence = 0

    @property
    def is_spent(self) -> bool:
        """Whether every number was used once: an old answer could be taken for a new one from here on."""
        return self._sequence >= LAST_SEQUENCE

    async def ask(self, netfn: int, command: int, data: bytes = b"", *, repeats: bool = True) -> bytes:
        """Send one command and give the data of its answer; one that must not happen twice is sent once.

        Raises:
            errors.PowerFailed: no answer came, or its completion code is an error.
        """
        self._sequence += 1
        number = self._sequence
        message = rmcp.request(netfn, command, data, sequence=number)

        def accept(datagram: bytes) -> Optional[rmcp.Response]:
            packet = rmcp.parse(datagram)
            if not isinstance(packet, rmcp.Packet20) or packet.kind is not rmcp.Payload.IPMI:
                return None
            answer = rmcp.parse_response(self._channel.open(packet))
            is_it = (answer.netfn, answer.command, answer.sequence) == (netfn, command, number)
            return answer if is_it else None

        waits = [max(wait, self._patience) for wait in ipmi_link.WAITS[:ASKS]]
        for wait in waits if repeats else waits[-1:]:
            answer: Optional[rmcp.Response] = await self._link.exchange(self._channel.seal(message), accept, wait=wait)
            if answer is not None:
                return _data_of(answer)
        # What the network complained about may never have gone out.
        answer_was = power.Answer.LOST if self._link.trouble is None else power.Answer.REJECTED
        text = "the answer to the command was lost"
        raise errors.PowerFailed(power.Reason.TIMEOUT.value, text, answer=answer_was.value)

    def close(self) -> None:
        """Give the BMC its session back; it would hold the slot until its idle timeout. Nobody waits for its answer."""
        self._link.farewells.append(self._say_farewell)
        self._say_farewell()

    def _say_farewell(self) -> None:
        message = rmcp.request(NETFN_APPLICATION, CLOSE_SESSION, struct.pack("<I", self._bmc), sequence=0)
        self._link.send(self._channel.seal(message))


def _data_of(answer: rmcp.Response) -> bytes:
    if answer.code:
        reason = _CODES.get(answer.code, power.Reason.REFUSED)
        is_level = (answer.netfn, answer.command) == (NETFN_APPLICATION, SET_PRIVILEGE)
        if is_level and reason is not power.Reason.BUSY:
            reason = power.Reason.AUTH
        became = power.Answer.ALREADY if answer.code == NOT_IN_THIS_STATE else power.Answer.REJECTED
        text = f"the BMC refuses: completion code {answer.code:#04x}"
        raise errors.PowerFailed(reason.value, text, answer=became.value)
    return answer.data
