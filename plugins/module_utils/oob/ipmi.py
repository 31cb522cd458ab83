"""The power driver `ipmi`: any number of BMCs over IPMI 2.0 (RMCP+), all in flight in one thread."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import ipaddress
import pathlib
import resource
import sys
from typing import Any, Awaitable, Callable, Coroutine, List, Mapping, Optional, Sequence, Tuple, TypeVar

from ..domain.power import bmc, power
from ..domain.values import errors
from . import description, ipmi_link, ipmi_login, ipmi_session, operation, rakp

PORT = 623
APPLICATION, CHASSIS = 0x06, 0x00
DEVICE_ID = (APPLICATION, 0x01)
CHASSIS_STATUS = (CHASSIS, 0x01)
CHASSIS_CONTROL = (CHASSIS, 0x02)
CONTROLS: Mapping[power.Command, int] = {
    power.Command.OFF: 0,
    power.Command.ON: 1,
    power.Command.CYCLE: 2,
    power.Command.SOFT_OFF: 5,
}
LONGEST_NAME, LONGEST_PASSWORD = 16, 20
OTHER_FILES = 64
"""Descriptors that this process may open beside a socket for each BMC."""
NEW_OBJECTS = 20_000
"""How many may be made between two collections of garbage: each walks through what all commands under way hold."""
Told = TypeVar("Told")
OPEN_FILES = pathlib.Path("/proc/self/fd")


def check(target: power.Target) -> None:
    """Refuse a target before anything is sent: names are looked up beforehand.

    Raises:
        errors.InvalidInput: the address is not a literal one, or the user's name or password is too long for IPMI.
        errors.PowerFailed: this Python has no cryptography.
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
    if rakp.MISSING:
        text = f"IPMI needs the library cryptography: run `{sys.executable} -m pip install cryptography`"
        raise errors.PowerFailed(power.Reason.DRIVER.value, text)


def run(targets: Sequence[power.Target], *, command: power.Command, deadline: float) -> List[power.Outcome]:
    """Run one command at every target, none waiting for another; `deadline` is each one's own, in seconds."""
    return _run(serve(targets, command=command, deadline=deadline))


async def serve(targets: Sequence[power.Target], *, command: power.Command, deadline: float) -> List[power.Outcome]:
    """Do what `run` does, in whichever event loop this is."""

    async def operate(connection: Bmc, target: power.Target) -> power.Outcome:
        outcome = await operation.within(connection, name=target.name, command=command, deadline=deadline)
        return _explained(outcome, connection.trouble)

    return await _at_all(targets, operate)


def describe(targets: Sequence[power.Target], *, deadline: float) -> List[bmc.Description]:
    """Ask every target what it is, none waiting for another; `deadline` is each one's own, in seconds."""

    async def ask(connection: Bmc, target: power.Target) -> bmc.Description:
        return await description.within(connection, target=target, deadline=deadline)

    return _run(_at_all(targets, ask))


def _run(work: Coroutine[Any, Any, List[Told]]) -> List[Told]:
    usual = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS, *usual[1:])
    try:
        return asyncio.run(work)
    finally:
        gc.set_threshold(*usual)


async def _at_all(targets: Sequence[power.Target], ask: Callable[[Bmc, power.Target], Awaitable[Told]]) -> List[Told]:
    at_once = asyncio.Semaphore(_sockets(len(targets)))

    async def ask_target(target: power.Target) -> Told:
        async with at_once:
            connection = Bmc(target)
            try:
                return await ask(connection, target)
            finally:
                connection.close()

    return list(await asyncio.gather(*(ask_target(target) for target in targets)))


def _explained(outcome: power.Outcome, trouble: Optional[errors.PowerFailed]) -> power.Outcome:
    """Say what kept a BMC from giving a verdict in time, where it is known: that it is full or cannot be reached."""
    if trouble is None or outcome.reason != power.Reason.TIMEOUT.value:
        return outcome
    return dataclasses.replace(outcome, reason=trouble.reason, text=f"{outcome.text}: {trouble}")


def _sockets(wanted: int) -> int:
    """How many sockets there may be at once; the limit of this process is raised as far as it needs and may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    others = OTHER_FILES + (sum(1 for _ in OPEN_FILES.iterdir()) if OPEN_FILES.is_dir() else 0)
    needed = wanted + others
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft - others))


class Bmc:
    """One BMC behind one session, which is opened when first needed and after it was lost."""

    def __init__(self, target: power.Target) -> None:
        self._target = target
        self._link: Optional[ipmi_link.Link] = None
        self._session: Optional[ipmi_session.Session] = None

    @property
    def trouble(self) -> Optional[errors.PowerFailed]:
        """Why the BMC gave no answer the last time; None when it was silent, or did answer."""
        return self._link.trouble if self._link is not None else None

    async def state(self) -> power.State:
        """Read the chassis status, again and again while the BMC is silent or busy; whoever calls sets the time."""
        while True:
            try:
                data = await self._ask(CHASSIS_STATUS)
            except errors.PowerFailed as error:
                if error.reason == power.Reason.BUSY.value and self._link is not None:
                    self._link.trouble = error
                    await asyncio.sleep(ipmi_login.BUSY_PAUSE)
                elif error.reason != power.Reason.TIMEOUT.value:
                    raise
                continue
            if not data:
                raise errors.PowerFailed(power.Reason.REFUSED.value, "the chassis status is empty")
            return power.State.ON if data[0] & 1 else power.State.OFF

    async def send(self, command: power.Command, /) -> None:
        """Send one chassis control; a cycle goes out in one datagram that is never repeated.

        Nothing that happens while a session is opened is an answer to it.
        """
        try:
            await self._connect()
        except errors.PowerFailed as error:
            error.answer = power.Answer.REJECTED.value
            raise
        await self._ask(CHASSIS_CONTROL, bytes((CONTROLS[command],)), repeats=command.repeats)

    async def commands(self) -> Sequence[power.Command]:
        """All: IPMI has them, and no question which of them a BMC leaves out."""
        return tuple(command for command in power.Command if command.verb is command)

    async def identity(self) -> bmc.Identity:
        """Read the device id."""
        return bmc.of_device_id(await self._ask(DEVICE_ID))

    def close(self) -> None:
        """Give session and socket back."""
        self._leave()
        if self._link is not None:
            self._link.close()
            self._link = None

    def _leave(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    async def _connect(self) -> ipmi_session.Session:
        if self._link is None:
            self._link = ipmi_link.linked(self._target.address, self._target.port or PORT)
        if self._session is not None and self._session.is_spent:
            self._leave()
        if self._session is None:
            self._session = await ipmi_login.opened(self._link, self._target)
        return self._session

    async def _ask(self, number: Tuple[int, int], data: bytes = b"", *, repeats: bool = True) -> bytes:
        session = await self._connect()
        try:
            return await session.ask(*number, data, repeats=repeats)
        except errors.PowerFailed as error:
            if error.reason == power.Reason.TIMEOUT.value:
                self._leave()
            raise
