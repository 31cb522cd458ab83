"""The power driver `ipmi`: any number of BMCs over IPMI 2.0 (RMCP+), all in flight in one thread."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from typing import List, Mapping, Optional, Sequence

from ..domain import errors, power
from . import ipmi_session, operation

PORT = 623
CHASSIS = 0x00
CHASSIS_STATUS = 0x01
CHASSIS_CONTROL = 0x02
CONTROLS: Mapping[power.Command, int] = {
    power.Command.OFF: 0,
    power.Command.ON: 1,
    power.Command.CYCLE: 2,
}
LONGEST_NAME, LONGEST_PASSWORD = 16, 20
OTHER_FILES = 64
"""Descriptors that this process needs beside a socket for each BMC."""


def check(target: power.Target) -> None:
    """Refuse a target before anything is sent: names are looked up beforehand.

    Raises:
        errors.InvalidInput: the address is not a literal one, or the user's name or password is too long for IPMI.
    """
    try:
        ipaddress.ip_address(target.address)
    except ValueError as error:
        raise errors.InvalidInput(
            f"{target.name}: the BMC address {target.address!r} is not an IP address; "
            "look names up beforehand, so that a dead name server cannot hold up a power-off"
        ) from error
    for what, text, most in (
        ("user name", target.username, LONGEST_NAME),
        ("password", target.password, LONGEST_PASSWORD),
    ):
        if len(text.encode()) > most:
            raise errors.InvalidInput(f"{target.name}: IPMI takes a {what} of at most {most} bytes")


def run(targets: Sequence[power.Target], *, command: power.Command, deadline: float) -> List[power.Outcome]:
    """Run one command at every target, none waiting for another; `deadline` is each one's own, in seconds."""
    return asyncio.run(_run_all(targets, command=command, deadline=deadline))


async def _run_all(targets: Sequence[power.Target], *, command: power.Command, deadline: float) -> List[power.Outcome]:
    at_once = asyncio.Semaphore(_sockets(len(targets)))

    async def one(target: power.Target) -> power.Outcome:
        async with at_once:
            bmc = Bmc(target)
            try:
                return await operation.within(bmc, name=target.name, command=command, deadline=deadline)
            finally:
                bmc.close()

    outcomes = await asyncio.gather(*(one(target) for target in targets))
    return list(outcomes)


def _sockets(wanted: int) -> int:
    """How many sockets there may be at once; the limit of this process is raised as far as it needs and may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - OTHER_FILES))


class Bmc:
    """One BMC behind one session, which is opened when first needed and after it was lost."""

    def __init__(self, target: power.Target) -> None:
        self._target = target
        self._link: Optional[ipmi_session.Link] = None
        self._session: Optional[ipmi_session.Session] = None

    async def state(self) -> power.State:
        """Read the chassis status."""
        data = await self._ask(CHASSIS_STATUS)
        if not data:
            raise errors.PowerFailed(power.Reason.REFUSED.value, "the chassis status is empty")
        return power.State.ON if data[0] & 1 else power.State.OFF

    async def send(self, command: power.Command, /) -> None:
        """Send one chassis control; a cycle goes out in one datagram that is never repeated."""
        await self._ask(CHASSIS_CONTROL, bytes((CONTROLS[command],)), repeats=command is not power.Command.CYCLE)

    def close(self) -> None:
        """Give session and socket back."""
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _ask(self, number: int, data: bytes = b"", *, repeats: bool = True) -> bytes:
        if self._link is None:
            self._link = await ipmi_session.linked(self._target.address, self._target.port or PORT)
        if self._session is None:
            self._session = await ipmi_session.opened(self._link, self._target)
        try:
            return await self._session.ask(CHASSIS, number, data, repeats=repeats)
        except errors.PowerFailed as error:
            if error.reason in {power.Reason.TIMEOUT.value, power.Reason.UNREACHABLE.value}:
                self._session = None
            raise
