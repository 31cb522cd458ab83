"""Whether a node answers at all, asked before a module begins there: the limit for that is seconds, not hours.

A node may accept connections and then let everything hang: its disk is dead, or it thrashes. A module that began may
take as long as it takes, for it works; a node that does not even start a program is unreachable.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import signal
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError

from . import run_group

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 15.0
"""What a node may take to start an interpreter and end it, connection included."""
VARIABLE = "roundsman_reach_seconds"
"""The host variable with another limit than `SECONDS`, which root sets on the controller."""
LEAST, MOST = 5.0, 120.0
INTERPRETER = "python3"
SSH_ARGUMENTS = ("ssh_args", "ssh_common_args", "ssh_extra_args")
"""The options of Ansible's connection that hold options of SSH."""
PORT_SECONDS = 5.0
"""What a node may take to accept a connection."""
SSH_PORT = 22
SSH_FAILED = 255
"""The exit status of an SSH client that did not get as far as running a command."""


class NodeHangs(AnsibleConnectionFailure):  # type: ignore[misc]  # Ansible ships no types
    """A node was connected to, as far as is known, and no program ended there in time."""


def probe(interpreter: str = "") -> str:
    """The command that starts and ends what runs modules there; a node without this interpreter answers, too.

    `interpreter` is that of the inventory; where Ansible looks for one (`auto`), the usual one is taken.
    """
    program = interpreter if interpreter.startswith("/") else INTERPRETER
    return f"{shlex.quote(program)} -IS -c '' </dev/null >/dev/null 2>&1 || :"


def limit(value: object) -> float:
    """The seconds that a node gets, from the value of its host variable; None is the default.

    Raises:
        AnsibleActionFail: the value is no number of seconds from 5 to 120.
    """
    if value is None:
        return SECONDS
    try:
        seconds = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        seconds = math.nan
    if not LEAST <= seconds <= MOST:
        raise AnsibleActionFail(f"{VARIABLE} must be a number from {LEAST:g} to {MOST:g} (got {value!r})")
    return seconds


def require_answer(action: Any, *, interpreter: str = "", seconds: float = SECONDS) -> None:
    """See that the node of an action plugin answers, with the interpreter that is to run a module.

    Raises:
        AnsibleConnectionFailure: it does not within `seconds`; for Ansible the node is unreachable.
    """
    with _within(seconds):
        result = action._low_level_execute_command(probe(interpreter))  # noqa: SLF001 - the way of Ansible's own actions
    # The probe never ends so: Ansible takes what a server says before its key is checked for the probe's.
    if result and result.get("rc") == SSH_FAILED:
        raise AnsibleConnectionFailure("no program ended there")


@dataclass(frozen=True)
class Signs:
    """What of a node answers: `alive` that a program ended there, `accepts` that only a port is open; '' for nothing.

    Over SSH a program ends only where the host's key is known. An open port may be anybody's who has the address.
    """

    alive: str = ""
    accepts: str = ""


def signs_of_life(
    action: Any, *, address: str = "", port: int = 0, interpreter: str = "", seconds: float = SECONDS
) -> Signs:
    """What of the node of an action plugin answers; `address` and `port` are its agent's, 0 for none.

    No login is tried where the SSH port is closed, unless SSH goes through a jump host.
    """
    is_ssh = action._connection.transport in {"ssh", "smart", "paramiko"}  # noqa: SLF001 - the way of Ansible's own actions
    opened = _open_ssh_port(action._connection) if is_ssh else ""  # noqa: SLF001 - as above
    try:
        if opened or not is_ssh or _is_proxied(action._connection):  # noqa: SLF001 - as above
            require_answer(action, interpreter=interpreter, seconds=seconds)
            return Signs(alive="it runs programs")
    except NodeHangs:
        opened = opened or "it accepts connections, although no program ends there"
    except AnsibleConnectionFailure:
        pass
    except AnsibleError:
        # Whatever Ansible makes of what a server without the host's key says.
        opened = opened or "it accepts connections, and no program ended there"
    if not opened and port and accepts(address, port):
        opened = f"its agent's port accepts connections ({address}, port {port})"
    return Signs(accepts=opened)


def accepts(address: str, port: int, *, seconds: float = PORT_SECONDS) -> bool:
    """Whether somebody accepts TCP connections there."""
    try:
        socket.create_connection((address, port), timeout=seconds).close()
    except (OSError, UnicodeError):
        return False
    return True


def _open_ssh_port(connection: Any) -> str:
    address, port = (
        str(connection.get_option("host") or connection.host),
        int(connection.get_option("port") or SSH_PORT),
    )
    return f"its SSH port accepts connections ({address}, port {port})" if accepts(address, port) else ""


def _is_proxied(connection: Any) -> bool:
    """Whether SSH says that it reaches the node through another host or a program; also where it cannot be asked."""
    try:
        given = [str(connection.get_option(name) or "") for name in SSH_ARGUMENTS]
        words = [word for text in given for word in shlex.split(text)]
        client = str(connection.get_option("ssh_executable") or "ssh")
        address = str(connection.get_option("host") or connection.host)
        told = subprocess.run(
            [client, *words, "-G", "--", address], capture_output=True, check=True, timeout=PORT_SECONDS, text=True
        )
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        return True
    return any(line.startswith(("proxyjump ", "proxycommand ")) for line in told.stdout.splitlines())


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    def late(_number: int, _frame: object) -> None:
        for pid in run_group.descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        raise NodeHangs(f"the node hangs: no program ended there within {seconds:g} s")

    # Each task is a process of its own, and this its main thread; a task's `timeout` uses the same timer.
    handler = signal.signal(signal.SIGALRM, late)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, handler)
