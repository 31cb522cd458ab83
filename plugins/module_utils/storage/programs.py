"""Running a program of this node: a list and no shell, plain English, a limit, and a failure told in its last line."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Protocol, Tuple

from .. import killing
from ..domain import errors
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
    """
    if hypervisor == "fake":
        from . import simulated_programs  # noqa: PLC0415 - a real node need not compile it

        return simulated_programs.SimulatedPrograms(root, opcode=opcode)
    return Programs()


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
        except BaseException:
            killing.kill(process)
            raise
        if process.returncode not in accepted:
            raise errors.Failed(
                f"{shown}: {program_output.failure_text(stderr, stdout) or f'status {process.returncode}'}"
            )
        return stdout.decode(errors="replace")
