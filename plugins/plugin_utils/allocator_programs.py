"""An allocator that is an external program speaking Ganeti's protocol: PROGRAM FILE, its answer on standard output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..module_utils import killing
from ..module_utils.domain import errors
from .placement.allocation import allocator
from .placement.protocol import allocator_requests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .placement.models import model

SECONDS = 600.0
LONGEST_ERROR = 500
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Program:
    """An allocator by the absolute path of its program; after `seconds` its whole process group is ended."""

    path: Path
    arguments: tuple[str, ...] = ()
    seconds: float = SECONDS

    def decide(self, found: model.Model, request: allocator.Request, /) -> allocator.Result:
        """Ask the program.

        Raises:
            CommandFailed: it cannot be started, takes too long or fails.
            InvalidInput: what it answered cannot be read.
            Refused: it says that it failed.
        """
        with tempfile.NamedTemporaryFile("w", prefix="roundsman-allocator-", suffix=".json", encoding="utf-8") as file:
            file.write(allocator_requests.write(found, request))
            file.flush()
            answer = self._run([str(self.path), file.name, *self.arguments, *_options(request)])
        return allocator_requests.read(answer, request)

    def _run(self, command: Sequence[str]) -> str:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
                env=ENVIRONMENT,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise errors.CommandFailed("start", f"the allocator {self.path}: {error.strerror}") from error
        is_over = False
        try:
            output, said = process.communicate(timeout=self.seconds)
            is_over = True
        except subprocess.TimeoutExpired as error:
            text = f"the allocator {self.path} did not end within {self.seconds:g} seconds"
            raise errors.CommandFailed("timeout", text) from error
        finally:
            # What a program that has come to its end leaves running is its own affair.
            if not is_over:
                _end(process)
        if process.returncode != 0:
            why = " ".join(said.split())[:LONGEST_ERROR] or f"exit status {process.returncode}"
            raise errors.CommandFailed("failed", f"the allocator {self.path} failed: {why}")
        return output


def _options(request: allocator.Request) -> list[str]:
    """What Ganeti says on the command line and not in the request."""
    return ["--ignore-soft-errors"] if isinstance(request, allocator.Evacuate) and request.ignores_soft_errors else []


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a program's whole group: the program may have ended already, and a child of it keeps its output open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    killing.kill(process)
