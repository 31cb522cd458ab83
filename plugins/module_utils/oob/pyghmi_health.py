"""The health of nodes through pyghmi: the sensors that a BMC has by IPMI, or what Redfish says of the system.

Each BMC is asked in a child process, as pyghmi has no deadline of its own and its connections must not be shared.
"""

from __future__ import annotations

import functools
import json
import struct
from typing import Any, Callable, Iterator, List, Mapping, Sequence

from ..domain.power import health, power
from ..domain.values import errors
from . import children, ipmi, pyghmi_library, rakp, redfish_connection

WIDTH = 32
MOST_ITEMS = 1000
LONGEST_NAME = 200
ABSENT = "a sensor that is described twice"
_NOTHING = power.Failure(power.Reason.DRIVER, "the driver ended without an answer")
Read = Callable[[power.Target], Iterator[health.Item]]
# How pyghmi's texts begin.
_REASONS: Mapping[str, power.Reason] = {
    "incorrect": power.Reason.AUTH,
    "unauthorized": power.Reason.AUTH,
    "insufficient": power.Reason.BUSY,
    "no cipher": power.Reason.CIPHER,
    "invalid authentication": power.Reason.CIPHER,
    "invalid integrity algorithm": power.Reason.CIPHER,
    "session no longer": power.Reason.TIMEOUT,
}


def ask_ipmi(targets: Sequence[power.Target], *, deadline: float) -> List[health.Health]:
    """Read every sensor of every target, 32 BMCs side by side; `deadline` is each one's own, in seconds."""
    return _ask(targets, library=pyghmi_library.IPMI, read=_sensors, deadline=deadline)


def ask_redfish(targets: Sequence[power.Target], *, deadline: float) -> List[health.Health]:
    """Ask every target for its system and the parts of it that are not well, 32 BMCs side by side."""
    return _ask(targets, library=pyghmi_library.REDFISH, read=_system, deadline=deadline)


def _ask(targets: Sequence[power.Target], *, library: str, read: Read, deadline: float) -> List[health.Health]:
    try:
        pyghmi_library.load(library)
    except errors.PowerFailed as error:
        return [health.Health(target.name, reason=error.reason, text=str(error)) for target in targets]
    tasks = [functools.partial(_tell, target, read) for target in targets]
    ends = children.run(tasks, deadline=deadline, width=WIDTH)
    return [_health(target, end, deadline=deadline) for target, end in zip(targets, ends)]  # noqa: B905 -- Python 3.9 has no strict=


def _tell(target: power.Target, read: Read, report: children.Report) -> None:
    """Report all items at the end, and those so far with each that is bad: a BMC that falls silent hides none.

    A BMC that has more than MOST_ITEMS is not read to its end.
    """
    items: List[health.Item] = []
    try:
        for item in read(target):
            if len(items) == MOST_ITEMS:
                told = health.Health(target.name, items, power.Reason.REFUSED.value, f"more than {MOST_ITEMS} items")
                break
            items.append(item)
            if item.status in health.TROUBLE:
                _report(health.Health(target.name, items, power.Reason.DRIVER.value, "not read to its end"), report)
        else:
            told = health.Health(target.name, items)
    except errors.PowerFailed as error:
        told = health.Health(target.name, items, error.reason, str(error))
    _report(told, report)


def _report(told: health.Health, report: children.Report) -> None:
    report(json.dumps(told.as_dict()))


def _health(target: power.Target, end: children.Ended, *, deadline: float) -> health.Health:
    told = health.unread(target.name, _NOTHING) if end.line is None else health.parse_health(json.loads(end.line))
    return health.silent(target.name, seconds=deadline, items=told.items) if end.killed else told


def _system(target: power.Target) -> Iterator[health.Item]:
    connection = redfish_connection.Bmc(target)
    try:
        yield from connection.health()
    finally:
        connection.close()


def _sensors(target: power.Target) -> Iterator[health.Item]:
    """Every sensor that the BMC describes, with what it reads.

    Raises:
        errors.PowerFailed: the BMC gives no readings.
    """
    library = pyghmi_library.load(pyghmi_library.IPMI)
    # A socket of its own, and no thread: there is one session here.
    library.select_simplesession()
    try:
        connection = library.Command(
            bmc=target.address,
            userid=target.username,
            password=target.password,
            port=target.port or ipmi.PORT,
            privlevel=int(rakp.Privilege.OPERATOR),
        )
        try:
            for sensor in connection.get_sensor_data():
                found = health.of_reading(sensor.health, is_available=not sensor.unavailable)
                yield health.Item(str(sensor.name)[:LONGEST_NAME], found)
            yield from _left_out(connection)
        finally:
            connection.ipmi_session.logout()
    except pyghmi_library.exceptions().PyghmiException as error:
        raise _failed(str(error)) from error
    except NotImplementedError as error:
        text = "the BMC describes its sensors in a version that pyghmi does not know"
        raise errors.PowerFailed(power.Reason.REFUSED.value, text) from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, struct.error) as error:
        text = f"pyghmi does not understand the BMC: {error!r}"
        raise errors.PowerFailed(power.Reason.DRIVER.value, text) from error


def _left_out(connection: Any) -> Iterator[health.Item]:
    """Give what pyghmi drops: sensors that share one number, of which it reads neither."""
    for _ in getattr(connection._sdr, "broken_sensor_ids", ()):  # noqa: SLF001 -- it says so nowhere else
        yield health.Item(ABSENT, health.Status.UNKNOWN)


def _failed(text: str) -> errors.PowerFailed:
    if text in {"", "None"}:
        return errors.PowerFailed(power.Reason.TIMEOUT.value, "the BMC did not answer")
    low = text.lower()
    reason = next((reason for start, reason in _REASONS.items() if low.startswith(start)), power.Reason.REFUSED)
    return errors.PowerFailed(reason.value, text)
