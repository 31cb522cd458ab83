"""Whether a node answers at all, asked before a module begins there: the limit for that is seconds, not hours.

A node may accept connections and then let everything hang: its disk is dead, or it thrashes. A module that began may
take as long as it takes, for it works; a node that does not even start a program is unreachable.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure

from . import run_group

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 15.0
"""What a node may take to start an interpreter and end it, connection included."""
INTERPRETER = "python3"


def probe(interpreter: str = "") -> str:
    """The command that starts and ends what runs modules there; a node without this interpreter answers, too.

    `interpreter` is that of the inventory; where Ansible looks for one (`auto`), the usual one is taken.
    """
    program = interpreter if interpreter.startswith("/") else INTERPRETER
    return f"{shlex.quote(program)} -IS -c '' </dev/null >/dev/null 2>&1 || :"


def require_answer(action: Any, *, interpreter: str = "", seconds: float = SECONDS) -> None:
    """See that the node of an action plugin answers, with the interpreter that is to run a module.

    Raises:
        AnsibleConnectionFailure: it does not within `seconds`; for Ansible the node is unreachable.
    """
    with _within(seconds):
        action._low_level_execute_command(probe(interpreter))  # noqa: SLF001 - the way of Ansible's own actions


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    def late(_number: int, _frame: object) -> None:
        for pid in run_group.descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        raise AnsibleConnectionFailure(f"the node hangs: no program ended there within {seconds:g} s")

    # Each task is a process of its own, and this its main thread; a task's `timeout` uses the same timer.
    handler = signal.signal(signal.SIGALRM, late)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, handler)
