"""The power driver that is an external helper program (seed 001, "OOB Program"): PROGRAM COMMAND NODE.

It has 60 seconds for each call, after which its whole process group is ended; it exits with 0, says what was asked
for as JSON on its standard output, and why not on its standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import Any, Awaitable, Callable, Iterator, List, Mapping, Sequence, Tuple, TypeVar

from .. import trusted_paths
from ..domain.power import bmc, health, power
from ..domain.values import errors
from . import description, operation

SECONDS = 60.0
"""What each call has (seed 001, three times)."""
SLACK = 5.0
"""Seconds for starting and ending programs, beside the calls themselves."""
REAP_SECONDS = 5.0
EXIT_POLL_SECONDS = 0.05
LEFTOVER_SECONDS = 1.0
"""How long the pipes of a program that has exited are read, should another process keep them open."""
WIDTH = 64
LONGEST_OUTPUT = 1 << 20
LONGEST_ERROR = 500
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
Told = TypeVar("Told")
_COMMANDS = (power.Command.STATUS, power.Command.ON, power.Command.OFF, power.Command.CYCLE)
_CALLS: Mapping[power.Command, int] = {
    power.Command.STATUS: 1,
    power.Command.CYCLE: 5,
    power.Command.FENCE: 5,
    power.Command.CONFIRM_OFF: 5,
}
"""Calls of a command that all take their whole minute; the others read, command, and read back twice."""
_STATES: Mapping[bool, power.State] = {True: power.State.ON, False: power.State.OFF}


def deadline(calls: int) -> float:
    """Seconds for so many calls, one after the other."""
    return calls * SECONDS + SLACK


def usual_deadline(command: power.Command) -> float:
    """Seconds for all calls of a command: its status before, the command, and the status read back."""
    return deadline(_CALLS.get(command, 4))


def check(target: power.Target) -> None:
    """Refuse a target before anything is started.

    Raises:
        errors.InvalidInput: as `opened`.
    """
    with opened(target):
        pass


def check_listed(target: power.Target, folder: str) -> None:
    """Refuse as root a program that root did not put into a folder (`trusted_paths.refuse_unlisted`).

    Another user runs what it could run anyhow. Nobody but root can change what the path leads to between this check and
    the call.

    Raises:
        errors.InvalidInput: as `opened`, or it is not in the folder.
    """
    if os.geteuid() != 0:
        return
    with opened(target) as found:
        try:
            trusted_paths.refuse_unlisted(found, folder)
        except errors.Refused as error:
            what = "the helper program" if str(error).startswith(found.path) else "the folder of helper programs"
            raise errors.InvalidInput(f"{target.name}: {what} {error}") from error


@contextlib.contextmanager
def opened(target: power.Target) -> Iterator[trusted_paths.Opened]:
    """Open a target's helper program, to be run by its descriptor.

    Raises:
        errors.InvalidInput: its driver is no absolute path, leads to a command of the system, is not root's alone (see
            `trusted_paths`) or cannot be executed; or the node's name would be an option of the program.
    """
    if target.name.startswith("-"):
        raise errors.InvalidInput(f"{target.name}: a helper program would take this name for an option")
    with contextlib.ExitStack() as descriptors:
        try:
            found = descriptors.enter_context(trusted_paths.helper(target.driver))
        except errors.Refused as error:
            raise errors.InvalidInput(f"{target.name}: the helper program {error}") from error
        yield found


def run(targets: Sequence[power.Target], *, command: power.Command, deadline: float) -> List[power.Outcome]:
    """Run one command at every target, 64 programs side by side; `deadline` is each one's own, in seconds."""

    async def operate(target: power.Target) -> power.Outcome:
        return await operation.within(Bmc(target), name=target.name, command=command, deadline=deadline)

    return asyncio.run(_at_all(targets, operate))


def ask_health(targets: Sequence[power.Target], *, deadline: float) -> List[health.Health]:
    """Ask for every target's health, 64 programs side by side; `deadline` is each one's own, in seconds."""

    async def ask(target: power.Target) -> health.Health:
        try:
            return health.Health(target.name, await asyncio.wait_for(Bmc(target).health(), deadline))
        except errors.PowerFailed as error:
            return health.Health(target.name, reason=error.reason, text=str(error))
        except asyncio.TimeoutError:
            return health.silent(target.name, seconds=deadline)

    return asyncio.run(_at_all(targets, ask))


def describe(targets: Sequence[power.Target], *, deadline: float) -> List[bmc.Description]:
    """Ask for every target's power, 64 programs side by side; `deadline` is each one's own, in seconds."""

    async def ask(target: power.Target) -> bmc.Description:
        return await description.within(Bmc(target), target=target, deadline=deadline)

    return asyncio.run(_at_all(targets, ask))


async def _at_all(targets: Sequence[power.Target], ask: Callable[[power.Target], Awaitable[Told]]) -> List[Told]:
    at_once = asyncio.Semaphore(WIDTH)

    async def ask_target(target: power.Target) -> Told:
        async with at_once:
            return await ask(target)

    return list(await asyncio.gather(*(ask_target(target) for target in targets)))


class Bmc:
    """One node's BMC behind a program."""

    def __init__(self, target: power.Target, *, seconds: float = SECONDS) -> None:
        self._target, self._seconds = target, seconds

    async def state(self) -> power.State:
        """Ask for `power-status`; a program that cannot tell says so by failing."""
        told = await self._ask("power-status")
        powered = told.get("powered") if isinstance(told, dict) else None
        if not isinstance(powered, bool):
            raise _failed(power.Reason.DRIVER, f"OOB program said {_shown(told)} for power-status")
        return _STATES[powered]

    async def send(self, command: power.Command, /) -> None:
        """Ask for on, off or cycle; the contract has no word for a soft off."""
        if command not in _COMMANDS:
            raise _failed(power.Reason.REFUSED, f"OOB programs know no {command.value}")
        await self._ask(f"power-{command.value}")

    async def commands(self) -> Sequence[power.Command]:
        """Those of the contract."""
        return _COMMANDS

    async def identity(self) -> bmc.Identity:
        """Nothing: the contract has no word for it."""
        return bmc.Identity()

    async def health(self) -> List[health.Item]:
        """Ask for `health`."""
        told = await self._ask("health")
        try:
            return health.parse_items(told)
        except errors.InvalidInput as error:
            raise _failed(power.Reason.DRIVER, f"OOB program said {error}") from error

    async def _ask(self, command: str) -> Any:
        process = await self._start(command)
        is_over = False
        try:
            output, said = await asyncio.wait_for(_communicate(process), self._seconds)
            is_over = True
        except asyncio.TimeoutError:
            text = "OOB program execution timeout exceeded, OOB program execution aborted"
            raise _failed(power.Reason.TIMEOUT, text) from None
        finally:
            # What a program that has come to its end leaves running is its own affair.
            if not is_over:
                await _end(process)
        if process.returncode != 0:
            raise _failed(power.Reason.REFUSED, f"OOB program execution failed ({_why(process.returncode, said)})")
        return _parsed(output)

    async def _start(self, command: str) -> asyncio.subprocess.Process:
        try:
            with opened(self._target) as found:
                return await asyncio.create_subprocess_exec(
                    self._target.driver,
                    command,
                    self._target.name,
                    executable=found.executable,
                    pass_fds=[found.descriptor],
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                    cwd="/",
                    env=ENVIRONMENT,
                    limit=LONGEST_OUTPUT,
                )
        except errors.InvalidInput as error:
            # Whoever reports this names the node.
            raise _failed(power.Reason.UNCONFIGURED, str(error).removeprefix(f"{self._target.name}: ")) from error
        except OSError as error:
            raise _failed(power.Reason.DRIVER, f"OOB program execution failed ({error.strerror})") from error


async def _communicate(process: asyncio.subprocess.Process) -> Tuple[bytes, bytes]:
    """What a program prints on its standard output and error until it exits.

    A process that it leaves running may keep both open: they are then read for LEFTOVER_SECONDS more.

    Raises:
        errors.PowerFailed: it prints more than LONGEST_OUTPUT.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    output, said = bytearray(), bytearray()
    reading = asyncio.gather(_read(process.stdout, output), _read(process.stderr, said))
    try:
        # Process.wait() is of no use here: in some versions of Python it waits for the pipes, too.
        while not reading.done() and process.returncode is None:
            await asyncio.wait([reading], timeout=EXIT_POLL_SECONDS)
        await asyncio.wait([reading], timeout=LEFTOVER_SECONDS)
        if reading.done():
            reading.result()
            await process.wait()
        else:
            _close(process)
    finally:
        reading.cancel()
    return bytes(output), bytes(said)


async def _read(stream: asyncio.StreamReader, received: bytearray) -> None:
    while len(received) <= LONGEST_OUTPUT:
        part = await stream.read(LONGEST_OUTPUT)
        if not part:
            return
        received += part
    raise _failed(power.Reason.DRIVER, f"OOB program printed more than {LONGEST_OUTPUT} bytes")


async def _end(process: asyncio.subprocess.Process) -> None:
    """End what is left of a program's group, whoever of it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        await asyncio.wait_for(process.wait(), REAP_SECONDS)
    except asyncio.TimeoutError:
        # Stuck in the kernel: its end is not waited for. The loop would wait for its pipes, too.
        _close(process)


def _close(process: asyncio.subprocess.Process) -> None:
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


def _why(status: object, said: bytes) -> str:
    text = " ".join(said.decode(errors="replace").split())[:LONGEST_ERROR]
    return text or f"exit status {status}"


def _parsed(output: bytes) -> Any:
    if not output.strip():
        return None
    try:
        return json.loads(output)
    except ValueError as error:
        raise _failed(
            power.Reason.DRIVER, f"OOB program said no JSON: {_shown(output[:80].decode(errors='replace'))}"
        ) from error


def _shown(told: object) -> str:
    return "nothing" if told is None else ascii(told)[:100]


def _failed(reason: power.Reason, text: str) -> errors.PowerFailed:
    return errors.PowerFailed(reason.value, text)
