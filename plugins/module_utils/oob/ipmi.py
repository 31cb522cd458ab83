"""The power driver `ipmi`: one BMC over IPMI 2.0 (RMCP+), through pyghmi.

pyghmi keeps its sessions in module globals, waits without a deadline, prints, and must not be forked
once used; so `drive` runs in a child process that holds one session and can be killed at any moment.
"""

from __future__ import annotations

import importlib
import ipaddress
import select
import socket
import struct
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..domain import errors, power
from . import operation

CHASSIS = 0x00
CHASSIS_STATUS = 0x01
CHASSIS_CONTROL = 0x02
CONTROLS: Mapping[power.Command, int] = {
    power.Command.OFF: 0,
    power.Command.ON: 1,
    power.Command.CYCLE: 2,
}
# An RMCP presence ping (ASF 2.0, 3.2.4.2), which every IPMI-over-LAN BMC must answer.
PRESENCE_PING = b"\x06\x00\xff\x06" + struct.pack(">IBBBB", 4542, 0x80, 0, 0, 0)
PING_WAIT_MS = 50
CYCLE_ANSWER_WAIT = 1.0

_CODES: Mapping[int, power.Reason] = {
    0xC0: power.Reason.BUSY,
    0xC3: power.Reason.BUSY,
    0xD2: power.Reason.BUSY,
    0xD4: power.Reason.AUTH,
    0xFFFF: power.Reason.TIMEOUT,
}
# pyghmi tells its failures apart by their text alone; the first word found decides.
_WORDS: Mapping[str, power.Reason] = {
    "password": power.Reason.AUTH,
    "unauthorized": power.Reason.AUTH,
    "privilege": power.Reason.AUTH,
    "invalid role": power.Reason.AUTH,
    "username length": power.Reason.AUTH,
    "integrity check value": power.Reason.AUTH,
    "integrity code": power.Reason.AUTH,
    "cipher": power.Reason.CIPHER,
    "algorithm": power.Reason.CIPHER,
    "integrity payload": power.Reason.CIPHER,
    "insufficient resources": power.Reason.BUSY,
    "timeout": power.Reason.TIMEOUT,
    "no longer connected": power.Reason.TIMEOUT,
    "transmit": power.Reason.UNREACHABLE,
}


def check(target: power.Target) -> None:
    """Refuse a target before anything is sent: names are looked up beforehand, pyghmi must be there.

    Raises:
        errors.InvalidInput: the address is not a literal one.
        errors.PowerFailed: this Python has no pyghmi.
    """
    try:
        ipaddress.ip_address(target.address)
    except ValueError as error:
        raise errors.InvalidInput(
            f"{target.name}: the BMC address {target.address!r} is not an IP address; "
            "look names up beforehand, so that a dead name server cannot hold up a power-off"
        ) from error
    try:
        # Loaded here, used in the children only: importing once is what makes a child cheap.
        importlib.import_module("pyghmi.ipmi.command")
    except ImportError as error:
        raise errors.PowerFailed(
            power.Reason.DRIVER.value, f"the driver ipmi needs the Python library pyghmi: {error}"
        ) from error


def drive(
    target: power.Target,
    *,
    command: power.Command,
    until: float,
    report: Callable[[power.Outcome], None],
) -> None:
    """Run one command at one BMC and report the verdict so far; `until` is a reading of time.monotonic.

    To be called in a child process of its own, which leaves without a word more.
    """
    bmc = Bmc(target, until=until)
    operation.Operation(bmc, name=target.name, command=command, until=until, report=report).run()
    bmc.close()


def classify(text: Optional[str]) -> power.Reason:
    """Tell what kind of failure pyghmi means; it gives no text at all when a BMC stays silent."""
    if not text or text == "None":
        return power.Reason.TIMEOUT
    for word, reason in _WORDS.items():
        if word in text.lower():
            return reason
    return power.Reason.REFUSED


class Bmc:
    """One BMC behind one pyghmi session, which is opened when first needed and after it was lost."""

    def __init__(self, target: power.Target, *, until: float) -> None:
        self._target = target
        self._until = until
        self._library: Any = importlib.import_module("pyghmi.ipmi.command")
        self._failures = importlib.import_module("pyghmi.exceptions")
        self._connection: Any = None

    def state(self) -> power.State:
        """Read the chassis status."""
        data = self._ask(CHASSIS_STATUS)
        if not data:
            raise errors.PowerFailed(power.Reason.REFUSED.value, "the chassis status is empty")
        return power.State.ON if data[0] & 1 else power.State.OFF

    def send(self, command: power.Command, /) -> None:
        """Send one chassis control; a cycle goes out in one datagram that is never repeated."""
        if command is power.Command.CYCLE:
            self._ask_once(CHASSIS_CONTROL, [CONTROLS[command]])
        else:
            self._ask(CHASSIS_CONTROL, [CONTROLS[command]])

    def close(self) -> None:
        """Give the BMC its session back; it would hold the slot until its idle timeout."""
        if self._connection is not None:
            self._connection.ipmi_session.logout()
            self._connection = None

    def _ask(self, number: int, data: Optional[List[int]] = None) -> List[int]:
        def exchange() -> Dict[str, Any]:
            answer: Dict[str, Any] = self._session().raw_command(CHASSIS, number, data=data or [])
            return answer

        return _data_of(self._guarded(exchange))

    def _ask_once(self, number: int, data: List[int]) -> List[int]:
        def exchange() -> Dict[str, Any]:
            connection = self._session()
            connection.raw_command(CHASSIS, number, data=data, retry=False)
            give_up = min(time.monotonic() + CYCLE_ANSWER_WAIT, self._until)
            # Without retry pyghmi does not wait; the answer is left on the session by its event loop.
            while connection.ipmi_session.lastresponse is None and time.monotonic() < give_up:
                connection.wait_for_rsp(operation.CYCLE_PAUSE)
            answer: Optional[Dict[str, Any]] = connection.ipmi_session.lastresponse
            return answer or {"code": 0xFFFF, "error": "the answer to the command was lost"}

        return _data_of(self._guarded(exchange))

    def _session(self) -> Any:
        if self._connection is None:
            _probe(self._target)
            self._connection = self._library.Command(
                bmc=self._target.address,
                userid=self._target.username,
                password=self._target.password,
                port=self._target.port,
            )
        return self._connection

    def _guarded(self, exchange: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        """Turn what pyghmi raises into PowerFailed, and forget the session that raised it."""
        try:
            return exchange()
        except self._failures.PyghmiException as error:
            self._connection = None
            text = str(error)
            reason = classify(text)
            silent = reason is power.Reason.TIMEOUT
            raise errors.PowerFailed(reason.value, "the BMC did not answer" if silent else text) from error
        except OSError as error:
            self._connection = None
            raise errors.PowerFailed(power.Reason.UNREACHABLE.value, str(error)) from error
        except (struct.error, LookupError, TypeError, ValueError) as error:
            # pyghmi takes the BMC's cipher suite for the one it asked for, and trips over the lengths.
            self._connection = None
            text = f"the BMC's answer does not fit the cipher suite asked for ({type(error).__name__})"
            raise errors.PowerFailed(power.Reason.CIPHER.value, text) from error


def _probe(target: power.Target) -> None:
    """Find out in a moment what pyghmi cannot see: no route, or nobody at that port.

    A BMC that does not answer pings is not held against it: only an ICMP error is.
    """
    family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((target.address, target.port))
        probe.send(PRESENCE_PING)
        poller = select.poll()
        poller.register(probe, select.POLLIN)
        if poller.poll(PING_WAIT_MS):
            probe.recv(64)


def _data_of(answer: Mapping[str, Any]) -> List[int]:
    code = int(answer["code"])
    if code != 0:
        reason = _CODES.get(code, power.Reason.REFUSED)
        text = answer.get("error") or f"the BMC answered with completion code {code:#04x}"
        raise errors.PowerFailed(reason.value, str(text))
    return list(answer["data"])
