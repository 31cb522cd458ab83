"""Running a program of this node: a list and no shell, plain English, a limit, and a failure told in its last line."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Protocol, Tuple

from .. import killing, lab_drivers
from ..domain.values import errors
from . import program_output

if TYPE_CHECKING:
    import pathlib

TIME_LIMIT = 120.0
_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Runner(Protocol):
    """What runs programs."""

    def run(self, *command: str, time_limit: float = TIME_LIMIT, accepted: Tuple[int, ...] = (0,)) -> str:
        """Run a program, and give its standard output as it is, for parsers: it may hold secrets.

        Raises:
            Failed: it is not there, is not done after `time_limit` seconds, or ends with a status not `accepted`. The
                text holds no secrets.
        """


def runner_for(root: pathlib.Path, *, hypervisor: str, opcode: str = "") -> Runner:
    """What runs the programs of DRBD and LVM on the node with this root; those of hypervisor `fake` are simulated.

    `opcode` is written beside what happens to simulated replicas.

    Raises:
        InvalidInput: they would be simulated, and this node is not a lab's.
    """
    if hypervisor == lab_drivers.NAME:
        simulated: Runner = lab_drivers.load().programs(root, opcode=opcode)
        return simulated
    return Programs()


class Hurried:
    """A runner whose programs end by one common deadline."""

    def __init__(self, runner: Runner, *, seconds: float) -> None:
        self._runner = runner
        self._end = time.monotonic() + seconds

    def run(self, *command: str, time_limit: float = TIME_LIMIT, accepted: Tuple[int, ...] = (0,)) -> str:
        """As `Runner.run`; when the time is over it fails without starting anything."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise errors.Failed(f"no time is left for {' '.join(command[:3])}")
        return self._runner.run(*command, time_limit=min(time_limit, left), accepted=accepted)


class Programs:
    """Runs the programs of this node, each in a session of its own that ends with it."""

    def run(self, *command: str, time_limit: float = TIME_LIMIT, accepted: Tuple[int, ...] = (0,)) -> str:
        """As `Runner.run`."""
        shown = " ".join(command[:3])
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": _FOLDERS, "LC_ALL": "C"},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise errors.Failed(f"{command[0]} does not start: {error.strerror}") from error
        try:
            stdout, stderr = process.communicate(timeout=time_limit)
        except subprocess.TimeoutExpired as error:
            killing.kill(process)
            raise errors.Failed(f"{shown} is not done after {time_limit:g} s{killing.stuck(process)}") from error
        except BaseException:  # an interrupt, too, leaves no program behind
            killing.kill(process)
            raise
        if process.returncode not in accepted:
            raise errors.Failed(
                f"{shown}: {program_output.failure_text(stderr, stdout) or f'status {process.returncode}'}"
            )
        return stdout.decode(errors="replace")
