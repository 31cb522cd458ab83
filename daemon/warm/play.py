"""One run in a warm Ansible: a guard that watches over it, and the fork in which Ansible runs."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import logging
import os
import select
import signal
import sys
import tempfile
import termios
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ...plugins.plugin_utils import run_group
from . import archives
from . import client as client_side

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

PER_PROCESS = ("ansible.utils.color", "ansible.utils.vars")
"""Modules that find out when they are imported what differs between two runs: a terminal, a random number."""
OF_A_TERMINAL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(frozen=True)
class Request:
    """What a client wants run: the command, as if it had been started there.

    `descriptors` are its standard ones and, where it had one, its controlling terminal.
    """

    command: Sequence[str]
    cwd: str
    umask: int
    environment: Mapping[str, str]
    ignored: Sequence[int]
    blocked: Sequence[int]
    surroundings: Mapping[str, object]
    descriptors: tuple[int, ...]

    @property
    def run(self) -> Path:
        """The folder of the run that the command belongs to."""
        return Path(self.environment[run_group.RUN_VARIABLE])

    def close(self) -> None:
        """Close this process's copies of the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def guard(client: socket.socket, request: Request, *, config_file: str, warm: Path) -> NoReturn:
    """Run the request in a fork, forward the client's signals to it, and tell the client how it ended.

    `warm` is the folder of the warm server.

    When the client is gone, so is the run with all that it started: nobody would read what it says.
    """
    from ansible.config import manager  # noqa: PLC0415 - the server imports Ansible when it first needs it

    # The temporary folder of the server is for the server to remove.
    atexit.unregister(manager.cleanup_tmp_file)
    client.settimeout(None)
    try:
        _settle_in(request)
        found = manager.find_ini_config_file() or ""
        refusal = (
            f"its configuration file is {found or 'none'}, and that of the warm server is {config_file or 'none'}"
            if found != config_file
            else ""
        )
        if not refusal:
            _take_terminal(request)
    except OSError as error:
        refusal = f"the warm server cannot run it: {error}"
    request.close()
    if not _is_wanted(client, refusal):
        os._exit(0)
    run = os.fork()
    if run == 0:
        client.close()
        _run(request, warm)
    status = _watch(client, run)
    with contextlib.suppress(OSError):
        client.send(b"X%d" % status)
    client.close()
    _stay()


def _settle_in(request: Request) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # What a terminal sends is for the run, which has the guard's process group.
    for number in (*client_side.FORWARDED, *OF_A_TERMINAL):
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    for wanted, given in enumerate(request.descriptors[:3]):
        os.dup2(given, wanted)
    os.umask(request.umask)
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    # A fork shows the environment of the server in /proc, so the run is told by its process who belongs to it.
    run_group.join(request.run)


def _take_terminal(request: Request) -> None:
    for terminal in request.descriptors[3:]:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def _is_wanted(client: socket.socket, refusal: str) -> bool:
    """Accept or refuse, and hear whether the client still waits for the run."""
    with contextlib.suppress(OSError):
        client.send(b"R" + refusal.encode(errors="replace") if refusal else b"A")
        return not refusal and client.recv(64) == b"G"
    return False


def _watch(client: socket.socket, run: int) -> int:
    """Wait for the run's end; returns its exit status, or the number of its signal, negative."""
    # A terminal that hangs up tells the leader of the session alone.
    signal.signal(signal.SIGHUP, lambda number, _: os.kill(run, number))
    over = os.pidfd_open(run)
    while True:
        ready, _, _ = select.select([client.fileno(), over], [], [])
        if over in ready:
            os.close(over)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            return os.waitstatus_to_exitcode(os.waitpid(run, 0)[1])
        message = b""
        with contextlib.suppress(ConnectionResetError):
            message = client.recv(64)
        if not message:
            _end_all()
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
    os._exit(0)


def _stay() -> NoReturn:
    """Remain the parent of what the run has left behind, so that it still is found as a part of the run."""
    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)


def _run(request: Request, warm: Path) -> NoReturn:
    # It belongs to the run even if its guard is killed.
    run_group.gather(request.run, [os.getpid()])
    Path("/proc/self/comm").write_text("ansible-playbook")
    _take_signals(request)
    status: int | None = None
    try:
        temporary = _refresh()
        kept = archives.folder(warm)
        archives.lend(kept, temporary)
        from ansible.cli.playbook import PlaybookCLI  # noqa: PLC0415 - see above

        sys.argv = list(request.command)
        try:
            PlaybookCLI.cli_executor(sys.argv)
        finally:
            archives.keep(temporary, kept, warm)
    except SystemExit as ended:
        status = _status(ended.code)
    finally:
        if status is None:
            traceback.print_exc()
        _end(1 if status is None else status)


def _take_signals(request: Request) -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN if number in request.ignored else signal.SIG_DFL)
    if signal.SIGINT not in request.ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, request.blocked)


def _refresh() -> Path:
    """Find everything out anew that an interpreter and an import of Ansible find out once.

    Returns the temporary folder of the run.
    """
    from ansible import cli, constants  # noqa: PLC0415 - see above
    from ansible.module_utils._internal import _deprecator  # noqa: PLC0415 - see above
    from ansible.utils import display  # noqa: PLC0415 - see above

    cli.check_blocking_io()
    tempfile.tempdir = None
    for stream in (sys.stdout, sys.stderr):
        # An interpreter that is started on a terminal writes line by line.
        getattr(stream, "reconfigure")(line_buffering=os.isatty(stream.fileno()))  # noqa: B009 - not of every stream
    for handler in logging.root.handlers:
        # It opens its file again when it has something to say.
        handler.close()
    for setting in constants.config.get_configuration_definitions():
        constants.set_constant(setting, constants.config.get_config_value(setting, variables=vars(constants)))
    for name in PER_PROCESS:
        importlib.reload(sys.modules[name])
    shown = display.Display()
    shown._set_column_width()  # noqa: SLF001 - it is measured once, on the server's terminal
    # What the server has said of its settings, each run says too.
    for said in (shown._deprecations, shown._warns, shown._errors):  # noqa: SLF001 - there is no other way to forget
        said.clear()
    display._report_config_warnings(_deprecator.ANSIBLE_CORE_DEPRECATOR)  # noqa: SLF001 - as its import does
    return Path(constants.DEFAULT_LOCAL_TMP)


def _status(code: object) -> int:
    """The exit status that an interpreter makes of what it is ended with."""
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1


def _end(status: int) -> NoReturn:
    """End as an interpreter does, but leave its memory to the kernel: taking it apart takes as long as a small run."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - this fork does not reach the interpreter's end
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status & 0xFF)
