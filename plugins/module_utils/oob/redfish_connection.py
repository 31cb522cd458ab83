"""One BMC over Redfish, through pyghmi: what is asked of it, and what its failures mean."""

from __future__ import annotations

import http
import re
import socket
import ssl
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, TypeVar

from ..domain.power import bmc, health, power
from ..domain.values import control_characters, errors
from . import pyghmi_library, redfish_web

_RESETS: Mapping[power.Command, Sequence[str]] = {
    power.Command.ON: ("On", "ForceOn"),
    power.Command.OFF: ("ForceOff",),
    power.Command.CYCLE: ("PowerCycle", "ForceRestart"),
    power.Command.SOFT_OFF: ("GracefulShutdown",),
}
_STATES: Mapping[str, power.State] = {"On": power.State.ON, "Off": power.State.OFF}
_BUSY = frozenset({http.HTTPStatus.SERVICE_UNAVAILABLE, http.HTTPStatus.TOO_MANY_REQUESTS})
# What pyghmi runs into where an answer is not as it expects, or is nested too deeply to be read.
_NOT_UNDERSTOOD = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
# How a BMC says that the node is off already: in words, or by HPE's identifier.
_ALREADY_OFF = re.compile(
    r"\balready (in )?(the )?(power(ed)? |switched |turned )?['\"]?off\b|\bInvalidOperationForSystemState\b",
    re.IGNORECASE,
)
_CONFLICTS = frozenset({http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.CONFLICT})
_LONGEST_TEXT = 200
MOST_PARTS = 1000
Told = TypeVar("Told")


class Bmc:
    """One BMC behind one connection of pyghmi, which is opened when first needed and after it was lost."""

    def __init__(self, target: power.Target) -> None:
        self._target = target
        self._failures: Any = pyghmi_library.exceptions()
        self._watch = redfish_web.Watch()
        self._connection: Any = None

    async def state(self) -> power.State:
        """Read the system's PowerState; one that is about to change is neither on nor off yet."""
        return self._guarded(lambda connection: _STATES.get(_system(connection).get("PowerState"), power.State.UNKNOWN))

    async def send(self, command: power.Command, /) -> None:
        """Ask for one reset, which is sent once: the first of those that will do which the BMC says it has."""
        is_out = False

        def reset(connection: Any) -> None:
            chosen = _chosen(command, offered=_offered(connection))
            if chosen is None:
                raise _failed(power.Reason.REFUSED, f"the BMC has no {' and no '.join(_RESETS[command])}")
            nonlocal is_out
            is_out = True
            # Not set_power: it reads the state first, and knows no cycle.
            connection._do_web_request(connection.powerurl, {"ResetType": chosen})  # noqa: SLF001 -- see above

        try:
            self._guarded(reset)
        except errors.PowerFailed as error:
            if is_out:
                error.answer = self._answer(error).value
            raise

    def health(self) -> Iterator[health.Item]:
        """The system as a whole, and then, when it is not well, each part that is not.

        pyghmi takes null for good and what is unknown for a warning; here both are unknown.
        """
        status = self._guarded(_system).get("Status") or {}
        found = health.worst(health.of_redfish(status.get(key)) for key in ("HealthRollup", "Health"))
        yield health.Item("System", found)
        if found in health.TROUBLE:
            yield from self._guarded(_bad_parts)

    async def commands(self) -> Sequence[power.Command]:
        """A status, and the resets for which the BMC has a word."""
        offered = self._guarded(_offered)
        return power.Command.STATUS, *(command for command in _RESETS if _chosen(command, offered=offered))

    async def identity(self) -> bmc.Identity:
        """Read who made the system, and the firmware of its manager where one is named."""

        def read(connection: Any) -> bmc.Identity:
            system = _system(connection)
            managers = system.get("Links", {}).get("ManagedBy") or [{}]
            manager = managers[0].get("@odata.id")
            firmware = connection._do_web_request(manager).get("FirmwareVersion") if manager else None  # noqa: SLF001 -- bmcinfo takes a manager for granted
            return bmc.Identity(_short(system.get("Manufacturer")), _short(system.get("Model")), _short(firmware))

        return self._guarded(read)

    def close(self) -> None:
        """Give the BMC its session back."""
        self._connection = None
        self._watch.close()

    def _answer(self, failure: errors.PowerFailed) -> power.Answer:
        """What became of a reset that failed."""
        if self._watch.is_waiting:
            return power.Answer.LOST
        words = f"{failure.__cause__} {getattr(failure.__cause__, 'msgid', '')}"
        is_already = self._watch.status in _CONFLICTS and _ALREADY_OFF.search(words)
        return power.Answer.ALREADY if is_already else power.Answer.REJECTED

    def _guarded(self, ask: Callable[[Any], Told]) -> Told:
        """Turn what pyghmi raises into PowerFailed, and forget a connection that is of no more use."""
        try:
            if self._connection is None:
                self._connection = self._watch.connect(self._target)
            return ask(self._connection)
        except self._failures.UnrecognizedCertificate as error:
            raise _failed(power.Reason.AUTH, "the BMC has another certificate than the one that is known") from error
        except ssl.SSLCertVerificationError as error:
            text = f"nobody known vouches for the BMC's certificate: {error.verify_message}"
            raise _failed(power.Reason.AUTH, text) from error
        except (TimeoutError, socket.timeout) as error:  # two things in Python 3.9
            raise _failed(power.Reason.TIMEOUT, "the BMC did not answer") from error
        except OSError as error:
            raise _failed(power.Reason.UNREACHABLE, str(error.strerror or error).lower()) from error
        except pyghmi_library.http_failure() as error:
            raise _failed(power.Reason.UNREACHABLE, "the BMC broke the connection off") from error
        except (self._failures.PyghmiException, *_NOT_UNDERSTOOD) as error:
            status = self._watch.status
            if status in redfish_web.NO_LOGIN or not getattr(self._connection, "sysurl", None):
                self.close()
            raise _failed(_reason(status, str(error)), _text(status, str(error))) from error


def _system(connection: Any) -> Any:
    if not connection.sysurl:
        # Also after an error, which pyghmi keeps to itself.
        raise pyghmi_library.exceptions().PyghmiException("no system")
    return connection._do_web_request(connection.sysurl, cache=False)  # noqa: SLF001 -- get_power fails on null


def _offered(connection: Any) -> Sequence[str]:
    """Give the resets that the BMC says it has; all of them when it does not say."""
    action = _system(connection).get("Actions", {}).get("#ComputerSystem.Reset", {})
    known = [word for words in _RESETS.values() for word in words]
    return action.get("ResetType@Redfish.AllowableValues") or known if connection.powerurl else ()


def _chosen(command: power.Command, *, offered: Sequence[str]) -> Optional[str]:
    return next((word for word in _RESETS[command] if word in offered), None)


def _bad_parts(connection: Any) -> Sequence[health.Item]:
    """What pyghmi finds not to be well; that a part without health is among it says nothing of the part."""
    oem, system = connection.oem, connection.sysinfo
    # A system may lack these, which pyghmi does not expect.
    for key in ("PCIeDevices", "PCIeFunctions"):
        system.setdefault(key, [])
    for key in ("ProcessorSummary", "MemorySummary"):
        summary = system.get(key) or {}
        status = summary.get("Status") or {}
        known = status.get("HealthRollup") or status.get("Health") or "Unknown"
        system[key] = {**summary, "Status": {**status, "Health": known}}
    readings = oem.get_health(connection)["badreadings"][:MOST_PARTS]
    found = [(str(reading.name)[:_LONGEST_TEXT], reading.health, reading.states) for reading in readings]
    return [
        health.Item(name, health.of_reading(bits, is_available=bool(bits) and "Unknown" not in states))
        for name, bits, states in found
    ]


def _short(told: object) -> Optional[str]:
    return told[:_LONGEST_TEXT] if isinstance(told, str) else None


def _reason(status: int, text: str) -> power.Reason:
    if "target unavailable" in text.lower():  # what pyghmi makes of a connection that broke off
        return power.Reason.UNREACHABLE
    if status in redfish_web.NO_LOGIN:
        return power.Reason.AUTH
    return power.Reason.BUSY if status in _BUSY else power.Reason.REFUSED


def _text(status: int, text: str) -> str:
    line = control_characters.escaped((text.strip().splitlines() or ["nothing"])[0][:_LONGEST_TEXT])
    return f"the BMC's answer: {line}" + ("" if 200 <= status < 300 else f" (HTTP status {status})")  # noqa: PLR2004 - success


def _failed(reason: power.Reason, text: str) -> errors.PowerFailed:
    return errors.PowerFailed(reason.value, text)
