"""One run in a warm Ansible: a guard that watches over it, and the fork in which Ansible runs."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ...plugins.plugin_utils import run_group
from . import frozen

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

CRASHED = 250


@dataclass(frozen=True)
class Request:
    """What a client wants run: `ansible-playbook` with these arguments, as if it had been started there."""

    arguments: Sequence[str]
    cwd: str
    umask: int
    environment: Mapping[str, str]
    descriptors: tuple[int, int, int]


def guard(client: socket.socket, request: Request, *, baseline: Mapping[str, str], config_file: str) -> NoReturn:
    """Run the request in a fork, forward the client's signals to it, and tell the client how it ended.

    When the client is gone, so is the run with all that it started: nobody would read what it says.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    _settle_in(request)
    refusal = _refusal(request, baseline=baseline, config_file=config_file)
    if refusal:
        client.send(b"R" + refusal.encode())
        os._exit(0)
    client.send(b"A")
    run = os.fork()
    if run == 0:
        client.close()
        _run(request)
    status = _watch(client, run)
    with contextlib.suppress(OSError):
        client.send(b"X%d" % status)
    os._exit(0)


def _settle_in(request: Request) -> None:
    for wanted, given in enumerate(request.descriptors):
        os.dup2(given, wanted)
    for given in request.descriptors:
        os.close(given)
    os.umask(request.umask)
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    # A fork shows the environment of the server in /proc, so the run is told by its process who belongs to it.
    run_group.join(Path(request.environment[run_group.RUN_VARIABLE]))


def _refusal(request: Request, *, baseline: Mapping[str, str], config_file: str) -> str:
    from ansible.config import manager  # noqa: PLC0415 - the server imports Ansible when it first needs it

    found = manager.find_ini_config_file() or ""
    if found != config_file:
        return f"its configuration file is {found or 'none'}, and that of the warm server is {config_file or 'none'}"
    return frozen.difference(baseline, frozen.settings(request.environment))


def _watch(client: socket.socket, run: int) -> int:
    """Wait for the run's end; returns its exit status, or the number of its signal, negative."""
    over = os.pidfd_open(run)
    while True:
        ready, _, _ = select.select([client.fileno(), over], [], [])
        if over in ready:
            return os.waitstatus_to_exitcode(os.waitpid(run, 0)[1])
        message = client.recv(64)
        if not message:
            _end_all()
        else:
            os.kill(run, int(message[1:]))


def _end_all() -> NoReturn:
    """Kill everything that this guard has started: orphans are its children too."""
    while left := run_group.descendants(os.getpid()):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                pass
    os._exit(CRASHED)


def _run(request: Request) -> NoReturn:
    # What the server registered is for the server to clean up.
    atexit._clear()  # noqa: SLF001 - there is no other way to forget what is inherited
    status: Any = CRASHED
    try:
        _refresh()
        from ansible.cli.playbook import PlaybookCLI  # noqa: PLC0415 - see above

        sys.argv = ["ansible-playbook", *request.arguments]
        PlaybookCLI.cli_executor(sys.argv)
    except SystemExit as ended:
        status = ended.code
    finally:
        atexit._run_exitfuncs()  # noqa: SLF001 - the interpreter does so at its end, which this fork does not reach
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))


def _refresh() -> None:
    """Read every setting anew, as an import would."""
    from ansible import constants  # noqa: PLC0415 - see above
    from ansible.utils.display import Display  # noqa: PLC0415 - see above

    for stream in (sys.stdout, sys.stderr):
        # An interpreter that is started on a terminal writes line by line.
        getattr(stream, "reconfigure")(line_buffering=os.isatty(stream.fileno()))  # noqa: B009 - not of every stream
    for setting in constants.config.get_configuration_definitions():
        constants.set_constant(setting, constants.config.get_config_value(setting, variables=vars(constants)))
    Display()._set_column_width()  # noqa: SLF001 - it is measured once, on the server's terminal
