"""The health of a node by its sensors, through pyghmi: IPMI's SDR and readings, or what Redfish says of the system.

Each BMC is asked in a child process, as pyghmi has no deadline of its own and must not be shared.
"""

from __future__ import annotations

import functools
import importlib
import json
from typing import Any, Callable, List, Mapping, Sequence

from ..domain import errors, health, power
from . import children, ipmi, redfish

WIDTH = 32
IPMI_LIBRARY = "pyghmi.ipmi.command"
Read = Callable[[power.Target], List[health.Item]]


def run(targets: Sequence[power.Target], *, read: Read, deadline: float) -> List[health.Health]:
    """Ask every target, 32 side by side; `deadline` is each one's own, in seconds."""
    tasks = [functools.partial(_tell, target, read) for target in targets]
    ends = children.run(tasks, deadline=deadline, width=WIDTH)
    return [_health(target, end, deadline=deadline) for target, end in zip(targets, ends)]  # noqa: B905 -- Python 3.9 has no strict=


def by_ipmi(target: power.Target) -> List[health.Item]:
    """Every sensor of the SDR with its reading.

    Raises:
        errors.PowerFailed: the BMC gives no readings.
    """
    library: Any = importlib.import_module(IPMI_LIBRARY)
    failures: Any = importlib.import_module("pyghmi.exceptions")
    try:
        connection = library.Command(
            bmc=target.address, userid=target.username, password=target.password, port=target.port or ipmi.PORT
        )
        readings = list(connection.get_sensor_data())
        connection.ipmi_session.logout()
    except failures.PyghmiException as error:
        text = str(error)
        is_silent = text in {"", "None"}
        reason = power.Reason.TIMEOUT if is_silent else _REASONS.get(text.split(" ")[0].lower(), power.Reason.REFUSED)
        raise errors.PowerFailed(reason.value, "the BMC did not answer" if is_silent else text) from error
    return [health.Item(str(one.name), health.of_reading(one.health, is_available=not one.unavailable)) for one in readings]


def by_redfish(target: power.Target) -> List[health.Item]:
    """The system as a whole, and each part that is not well.

    Raises:
        errors.PowerFailed: the BMC does not say.
    """
    return redfish.Bmc(target).health()


_REASONS: Mapping[str, power.Reason] = {"incorrect": power.Reason.AUTH, "unauthorized": power.Reason.AUTH}


def _tell(target: power.Target, read: Read, report: children.Report) -> None:
    try:
        told = health.Health(target.name, read(target))
    except errors.PowerFailed as error:
        told = health.Health(target.name, reason=error.reason, text=str(error))
    report(json.dumps(told.as_dict()))


def _health(target: power.Target, end: children.Ended, *, deadline: float) -> health.Health:
    if end.line is not None:
        told = json.loads(end.line)
        return health.Health(target.name, health.parse_items(told["items"]), told["reason"], told["text"])
    if end.killed:
        return health.Health(target.name, reason=power.Reason.TIMEOUT.value, text=f"no answer within {deadline:g} s")
    return health.Health(target.name, reason=power.Reason.DRIVER.value, text="the driver ended without an answer")
