"""Health of a node as its BMC tells it: items, and what they come to (seed 001, "health").

Nothing read is never taken for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from ..values import errors
from . import power


class Status(Enum):
    """The four values that the seed knows."""

    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    UNKNOWN = "UNKNOWN"


# The bits of a reading: non-critical, critical, non-recoverable (IPMI 2.0, table 42-2).
WARNING_BIT, CRITICAL_BIT, FAILED_BIT = 1, 2, 4
_REDFISH: Mapping[str, Status] = {"OK": Status.OK, "Warning": Status.WARNING, "Critical": Status.CRITICAL}
_WORST = (Status.CRITICAL, Status.WARNING, Status.OK)
TROUBLE = frozenset({Status.CRITICAL, Status.WARNING})


@dataclass(frozen=True)
class Item:
    """One thing that a BMC watches, and how it is."""

    name: str
    status: Status


@dataclass(frozen=True)
class Health:
    """What one node's BMC says; `reason` is a value of `power.Reason`, None when all of it could be asked."""

    name: str
    items: Sequence[Item] = ()
    reason: Optional[str] = None
    text: Optional[str] = None

    @property
    def status(self) -> Status:
        """The worst of the items; OK takes at least one that is known to be, and nothing left unasked."""
        found = worst(reading.status for reading in self.items)
        return found if self.reason is None or found in TROUBLE else Status.UNKNOWN

    def as_dict(self) -> Dict[str, Any]:
        """Give the health as JSON values."""
        return {
            "name": self.name,
            "status": self.status.value,
            "items": [[reading.name, reading.status.value] for reading in self.items],
            "reason": self.reason,
            "text": self.text,
        }


def silent(name: str, *, seconds: float, items: Sequence[Item] = ()) -> Health:
    """Judge a BMC that had not told everything at its deadline; what it told stands."""
    return Health(name, items, power.Reason.TIMEOUT.value, f"no answer within {seconds:g} s")


def pairs(told: Health) -> List[List[str]]:
    """Give the health as helper programs write it, where what was left unasked can only be an item of its own."""
    found = [[reading.name, reading.status.value] for reading in told.items]
    if told.reason is not None:
        found.append([f"not read: {told.text or told.reason}", Status.UNKNOWN.value])
    return found or [["no sensor was read", Status.UNKNOWN.value]]


def unread(name: str, failure: power.Failure) -> Health:
    """Judge a node whose BMC was not asked."""
    return Health(name, reason=failure.reason.value, text=failure.text)


def parse_health(document: Mapping[str, Any]) -> Health:
    """Read back what `Health.as_dict` gave."""
    return Health(document["name"], parse_items(document["items"]), document["reason"], document["text"])


def worst(statuses: Iterable[Status]) -> Status:
    """The worst that is known; none is unknown."""
    known = set(statuses)
    return next((status for status in _WORST if status in known), Status.UNKNOWN)


def of_reading(bits: int, *, is_available: bool) -> Status:
    """How a sensor's reading is; one that is not available says nothing."""
    if not is_available:
        return Status.UNKNOWN
    if bits & (CRITICAL_BIT | FAILED_BIT):
        return Status.CRITICAL
    return Status.WARNING if bits & WARNING_BIT else Status.OK


def of_redfish(told: object) -> Status:
    """How a Redfish resource is by its Health; null, nothing and what is no word of the standard are unknown."""
    return _REDFISH.get(told, Status.UNKNOWN) if isinstance(told, str) else Status.UNKNOWN


def parse_items(document: object) -> List[Item]:
    """Read a list of pairs of item and status, as helper programs write it.

    Raises:
        errors.InvalidInput: it is something else.
    """
    if not isinstance(document, list):
        raise errors.InvalidInput("health is no list")
    return [_parse_item(pair) for pair in document]


def _parse_item(pair: object) -> Item:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):  # noqa: PLR2004 - a pair
        raise errors.InvalidInput(f"health: {pair!r} is no pair of item and status")
    try:
        return Item(pair[0], Status(pair[1]))
    except ValueError:
        raise errors.InvalidInput(
            f"health of {pair[0]}: {pair[1]!r} is not one of OK, WARNING, CRITICAL, UNKNOWN"
        ) from None
