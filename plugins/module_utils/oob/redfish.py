"""The power driver `redfish`: BMCs over HTTPS, through pyghmi.

pyghmi's connections block, with a limit of their own of a minute and more; so each BMC is spoken to in a child process,
which can be ended at any moment.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import re
import time
from dataclasses import replace
from typing import List, Optional, Sequence

from ..domain.power import bmc, power
from ..domain.values import errors
from . import children, description, operation, pyghmi_library, redfish_connection, redfish_web

WIDTH = 64
_FINGERPRINT = re.compile("sha256:[0-9a-fA-F]{64}")
_NO_VERDICT = "the driver redfish ended without a verdict"


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
    if target.certificate not in {"", redfish_web.ANY_CERTIFICATE} and not _FINGERPRINT.fullmatch(target.certificate):
        raise errors.InvalidInput(
            f"{target.name}: certificate is neither empty, sha256:FINGERPRINT (64 hexadecimal digits) nor any"
        )
    # Loaded here, used in the children only: loading once is what makes a child cheap.
    pyghmi_library.load(pyghmi_library.REDFISH)


def run(targets: Sequence[power.Target], *, command: power.Command, deadline: float) -> List[power.Outcome]:
    """Run one command at every target, 64 side by side; `deadline` is each one's own, in seconds."""
    tasks = [functools.partial(_drive, target, command, deadline) for target in targets]
    ends = children.run(tasks, deadline=deadline, width=WIDTH)
    return [_outcome(target, end, command=command, deadline=deadline) for target, end in zip(targets, ends)]  # noqa: B905 -- Python 3.9 has no strict=


def describe(targets: Sequence[power.Target], *, deadline: float) -> List[bmc.Description]:
    """Ask every target what it is, 64 side by side; `deadline` is each one's own, in seconds."""
    tasks = [functools.partial(_describe, target, deadline) for target in targets]
    ends = children.run(tasks, deadline=deadline, width=WIDTH)
    return [_description(target, end, deadline=deadline) for target, end in zip(targets, ends)]  # noqa: B905 -- Python 3.9 has no strict=


def _drive(target: power.Target, command: power.Command, deadline: float, report: children.Report) -> None:
    connection = redfish_connection.Bmc(target)
    task = operation.Operation(
        connection,
        name=target.name,
        command=command,
        until=time.monotonic() + deadline - min(operation.LONGEST_MARGIN, deadline / 10),
        report=lambda outcome: report(json.dumps(outcome.as_dict())),
    )
    asyncio.run(task.run())
    connection.close()


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
    return last or judge(failure=power.Failure(power.Reason.DRIVER, _NO_VERDICT))


def _describe(target: power.Target, deadline: float, report: children.Report) -> None:
    connection = redfish_connection.Bmc(target)

    def tell(told: bmc.Description) -> None:
        report(json.dumps(told.as_dict()))

    tell(asyncio.run(description.within(connection, target=target, deadline=deadline, report=tell)))
    connection.close()


def _description(target: power.Target, end: children.Ended, *, deadline: float) -> bmc.Description:
    """Take the last description that a child reported."""
    if end.line is not None:
        return bmc.parse_description(json.loads(end.line))
    silent = description.silent(target, deadline=deadline)
    return silent if end.killed else replace(silent, reason=power.Reason.DRIVER.value, text=_NO_VERDICT)
