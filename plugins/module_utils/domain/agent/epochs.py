"""Epochs: which start of which controller a node follows, and whether it does what one orders.

Each start of a controller has an epoch: a number above all that it and the nodes know, and an id of its own. A node
keeps the highest one that it was shown, and refuses what a lower one orders, or one of the same number with another id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import AbstractSet, Optional

from ..values import errors

ID = re.compile("[0-9a-z-]{1,64}")
_ORDER = re.compile(rf"([1-9][0-9]{{0,14}}):({ID.pattern}):([0-9a-f-]{{36}}):([0-9]{{1,15}})(?::([0-9a-f-]{{36}}))?")
_REFUSAL = re.compile(r"this node follows epoch [0-9]{1,15} \([^()]{1,64}\)(, and the step names none| and refuses )")
HIGHEST = 10**15 - 1
"""The highest number that an epoch can have."""
OTHER_BOOT = "this node has booted since the controller was last known to lead"
"""So begins what a node says that refuses a step which was ordered for another boot of it."""


@dataclass(frozen=True)
class Epoch:
    """One start of a controller; `id` is random, so two starts that choose the same number are told apart."""

    number: int
    id: str

    def __str__(self) -> str:
        return f"epoch {self.number} ({self.id})"


@dataclass(frozen=True)
class Kept:
    """What a node keeps of who leads it: the highest epoch, and by whose configuration.

    `master` is the node (UUID) that began it, `serial` the serial number of its configuration, which stands for the
    nodes that vote by it. `goes_on` are the ids of earlier epochs whose runs this epoch goes on with: their processes
    are its own.
    """

    epoch: Epoch
    master: str
    serial: int
    goes_on: AbstractSet[str] = frozenset()


def may_order(kept: Optional[Kept], offered: Epoch) -> bool:
    """Whether a node does what this epoch orders; one that is higher than what it keeps it keeps first, durably."""
    if kept is None or offered.number > kept.epoch.number:
        return True
    return offered == kept.epoch or offered.id in kept.goes_on


def obeys(kept: Optional[Kept], own: Epoch, *, serial: int) -> bool:
    """Whether a node does what this epoch orders, and knows no later version of its configuration than this serial.

    A clone of the controller's machine has its epoch, too: of the two this finds the one whose configuration is older.
    """
    is_later = kept is not None and kept.epoch == own and kept.serial > serial
    return may_order(kept, own) and not is_later


def is_refusal(text: str) -> bool:
    """Whether a step that failed says that its node follows another epoch (`leader_record.py`)."""
    return _REFUSAL.search(text) is not None


@dataclass(frozen=True)
class Order:
    """What a step names with its call: the epoch that orders it, the master (UUID) and the serial number behind it.

    `boot` is the boot id of the step's node for which the controller is known to lead, '' where it knows none.
    """

    epoch: Epoch
    master: str
    serial: int
    boot: str = ""

    def __str__(self) -> str:
        text = f"{self.epoch.number}:{self.epoch.id}:{self.master}:{self.serial}"
        return f"{text}:{self.boot}" if self.boot else text


def is_for_boot(order: Order, boot: str) -> bool:
    """Whether a node in this boot does what was ordered: a node that was fenced and is back may not know who leads."""
    return order.boot in {"", boot}


def is_of_other_boot(text: str) -> bool:
    """Whether a step that failed says that its node is in another boot (`leader_record.py`)."""
    return OTHER_BOOT in text


def order(text: str) -> Optional[Order]:
    """Read an order from a module's argument; None where it is empty: no controller has an epoch yet.

    Raises: errors.InvalidInput.
    """
    if not text:
        return None
    found = _ORDER.fullmatch(text)
    if found is None:
        raise errors.InvalidInput(f"epoch must be NUMBER:ID:MASTER:SERIAL[:BOOT] (got {text!r})")
    number, name, master, serial, boot = found.groups()
    return Order(Epoch(int(number), name), master, int(serial), boot or "")
