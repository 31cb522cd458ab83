"""What one BMC is, read within a deadline: what was read before it stands."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Callable, Optional, Protocol, Sequence

from ..domain.power import bmc, power
from ..domain.values import errors

HEALTH = "health"
Report = Callable[[bmc.Description], None]


class Describable(Protocol):
    """A BMC as its driver sees it; each verb raises errors.PowerFailed when there is no usable answer."""

    async def state(self) -> power.State:
        """Read the power state."""

    async def commands(self) -> Sequence[power.Command]:
        """Say what it takes."""

    async def identity(self) -> bmc.Identity:
        """Read who made it."""


async def within(
    connection: Describable, *, target: power.Target, deadline: float, report: Optional[Report] = None
) -> bmc.Description:
    """Ask one BMC what it is, for `deadline` seconds at most; `report` gets what is known yet."""
    told = silent(target, deadline=deadline)

    async def ask() -> None:
        nonlocal told
        told = replace(told, state=await connection.state())
        told = replace(told, supports=(*(command.value for command in await connection.commands()), HEALTH))
        if report is not None:
            report(told)
        told = replace(told, identity=await connection.identity(), reason=None, text=None)

    try:
        await asyncio.wait_for(ask(), deadline)
    except errors.PowerFailed as error:
        return replace(told, reason=error.reason, text=str(error))
    except asyncio.TimeoutError:
        return told
    return told


def silent(target: power.Target, *, deadline: float) -> bmc.Description:
    """What can be said of a BMC that has not answered."""
    reason, text = power.Reason.TIMEOUT.value, f"no answer within {deadline:g} s"
    return bmc.Description(target.name, target.driver, target.address, reason=reason, text=text)
