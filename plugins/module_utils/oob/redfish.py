"""The power driver `redfish`: BMCs over HTTPS, through pyghmi.

pyghmi's connections block, with a limit of their own of a minute and more; so each BMC is spoken to in a child process,
which can be ended at any moment.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import importlib
import ipaddress
import json
import re
import ssl
import time
from typing import Any, Callable, List, Mapping, Optional, Sequence

from ..domain import errors, power
from . import children, operation

PORT = 443
WIDTH = 64
ANY_CERTIFICATE = "any"
_FINGERPRINT = re.compile("sha256:[0-9a-fA-F]{64}")
_RESETS: Mapping[power.Command, Sequence[str]] = {
    power.Command.ON: ("On", "ForceOn"),
    power.Command.OFF: ("ForceOff",),
    power.Command.CYCLE: ("PowerCycle", "ForceRestart"),
}
_STATES: Mapping[str, power.State] = {"on": power.State.ON, "off": power.State.OFF}
LIBRARY = "pyghmi.redfish.command"


def check(target: power.Target) -> None:
    """Refuse a target before anything is sent.

    Raises:
        errors.InvalidInput: the address is not a literal one, or `certificate` is neither empty (one that a known
        authority signed), `sha256:` with the certificate's fingerprint, nor `any`.
        errors.PowerFailed: this Python has no pyghmi.
    """
    try:
        ipaddress.ip_address(target.address)
    except ValueError as error:
        raise errors.InvalidInput(f"{target.name}: the BMC address {target.address!r} is not an IP address") from error
    if target.certificate not in {"", ANY_CERTIFICATE} and not _FINGERPRINT.fullmatch(target.certificate):
        raise errors.InvalidInput(
            f"{target.name}: certificate is neither empty, sha256:FINGERPRINT (64 hexadecimal digits) nor any"
        )
    try:
        # Loaded here, used in the children only: importing once is what makes a child cheap.
        importlib.import_module(LIBRARY)
    except ImportError as error:
        raise errors.PowerFailed(
            power.Reason.DRIVER.value, f"the driver redfish needs the Python library pyghmi: {error}"
        ) from error


def run(targets: Sequence[power.Target], *, command: power.Command, deadline: float) -> List[power.Outcome]:
    """Run one command at every target, 64 side by side; `deadline` is each one's own, in seconds."""
    tasks = [functools.partial(_drive, target, command, deadline) for target in targets]
    ends = children.run(tasks, deadline=deadline, width=WIDTH)
    return [_outcome(target, end, command=command, deadline=deadline) for target, end in zip(targets, ends)]  # noqa: B905 -- Python 3.9 has no strict=


def _drive(target: power.Target, command: power.Command, deadline: float, report: children.Report) -> None:
    one = operation.Operation(
        Bmc(target),
        name=target.name,
        command=command,
        until=time.monotonic() + deadline - min(operation.LONGEST_MARGIN, deadline / 10),
        report=lambda outcome: report(json.dumps(outcome.as_dict())),
    )
    asyncio.run(one.run())


def _outcome(target: power.Target, end: children.Ended, *, command: power.Command, deadline: float) -> power.Outcome:
    """Take the last verdict that a child reported, however the child ended."""
    last: Optional[power.Outcome] = None
    if end.line is not None:
        last = power.parse_outcome(json.loads(end.line))
    judge = functools.partial(
        power.judge, command, name=target.name, before=power.State.UNKNOWN, seconds=round(end.seconds, 3)
    )
    if end.killed:
        return power.cut_off(last or judge(), seconds=deadline)
    return last or judge(failure=power.Failure(power.Reason.DRIVER, "the driver redfish ended without a verdict"))


class Bmc:
    """One BMC behind one connection of pyghmi, which is opened when first needed and after it was lost."""

    def __init__(self, target: power.Target) -> None:
        self._target = target
        self._library: Any = importlib.import_module(LIBRARY)
        self._failures: Any = importlib.import_module("pyghmi.exceptions")
        self._connection: Any = None

    async def state(self) -> power.State:
        """Read the system's PowerState; one that is about to change is neither on nor off yet."""
        told = self._guarded(lambda connection: connection.get_power())
        return _STATES.get(str(told["powerstate"]), power.State.UNKNOWN)

    async def send(self, command: power.Command, /) -> None:
        """Ask for one reset, which is sent once: the first of those that will do which the BMC says it has."""

        def reset(connection: Any) -> None:
            action = connection.sysinfo.get("Actions", {}).get("#ComputerSystem.Reset", {})
            offered = action.get("ResetType@Redfish.AllowableValues") or _RESETS[command]
            chosen = next((one for one in _RESETS[command] if one in offered), None)
            if chosen is None:
                raise _failed(power.Reason.REFUSED, f"the BMC has no {' and no '.join(_RESETS[command])}")
            # Not set_power: it reads the state first, and knows no cycle.
            connection._do_web_request(connection.powerurl, {"ResetType": chosen})  # noqa: SLF001 -- see above

        self._guarded(reset)

    def _guarded(self, ask: Callable[[Any], Any]) -> Any:
        """Turn what pyghmi raises into PowerFailed, and forget the connection that raised it."""
        try:
            if self._connection is None:
                self._connection = self._connected()
            return ask(self._connection)
        except self._failures.UnrecognizedCertificate as error:
            raise _failed(power.Reason.AUTH, "the BMC has another certificate than the one that is known") from error
        except ssl.SSLCertVerificationError as error:
            text = f"nobody known vouches for the BMC's certificate: {error.verify_message}"
            raise _failed(power.Reason.AUTH, text) from error
        except TimeoutError as error:
            raise _failed(power.Reason.TIMEOUT, "the BMC did not answer") from error
        except OSError as error:
            raise _failed(power.Reason.UNREACHABLE, str(error.strerror or error).lower()) from error
        except (self._failures.PyghmiException, LookupError, TypeError, ValueError) as error:
            self._connection = None
            raise _failed(_reason(str(error)), f"the BMC's answer: {_first_line(str(error))}") from error

    def _connected(self) -> Any:
        target, wanted = self._target, self._target.certificate
        trusted: Optional[Callable[[bytes], bool]] = None
        if wanted == ANY_CERTIFICATE:
            trusted = lambda _: True  # noqa: E731 -- one of two short rules
        elif wanted:
            trusted = lambda found: hashlib.sha256(found).hexdigest() == wanted.partition(":")[2].lower()  # noqa: E731 -- see above
        return self._library.Command(
            target.address, target.username, target.password, trusted, port=target.port or PORT
        )


def _reason(text: str) -> power.Reason:
    low = text.lower()
    if any(word in low for word in ("unauthorized", "401", "credential", "password", "access denied", "privilege")):
        return power.Reason.AUTH
    return power.Reason.BUSY if "503" in low or "not ready" in low else power.Reason.REFUSED


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[0][:200]


def _failed(reason: power.Reason, text: str) -> errors.PowerFailed:
    return errors.PowerFailed(reason.value, text)
