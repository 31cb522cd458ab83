"""The command `virsh`, libvirt's own client: run with a time limit, its complaint as one line."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Optional

from .. import killing
from ..domain.values import errors

if TYPE_CHECKING:
    from typing import Iterator

HERE = "qemu:///system"
TIME_LIMIT = 60.0
"""What any one command may take, in seconds; a migration has a limit of its own."""

_PREFIX = "error: "
_TEXT_LIMIT = 600


def by_hand(verb: str, name: str) -> str:
    """The command of virsh that a person runs on a domain of the node where it is run."""
    return f"virsh --connect {HERE} {verb} {name}"


class Virsh:
    """libvirt as a URI reaches it; `program` is the client."""

    def __init__(self, uri: str = HERE, *, program: str = "virsh") -> None:
        self.uri = uri
        self._program = program

    def run(self, *arguments: str, given: str = "", time_limit: float = TIME_LIMIT) -> str:
        """What a command of virsh prints; it finds `given` at /dev/stdin.

        Raises:
            Failed: it failed, did not end in time, or there is no virsh; the text is one line.
        """
        with self.started(*arguments, given=given) as process:
            printed, complaint = ended(process, time_limit=time_limit)
            is_over = process.returncode is not None
        if not is_over:
            why = f"no answer of {self.uri} in {time_limit:g} s{killing.stuck(process)}"
            raise errors.Failed(f"virsh {arguments[0]}: {why}")
        if process.returncode:
            raise errors.Failed(f"virsh {arguments[0]}: {one_line(complaint, code=process.returncode)}")
        return printed

    @contextlib.contextmanager
    def started(self, *arguments: str, given: str = "") -> Iterator[subprocess.Popen[str]]:
        """A command at work; it is killed in the end, unless it ended before.

        Raises:
            Failed: there is no virsh.
        """
        with tempfile.TemporaryFile("w+") as stdin:
            stdin.write(given)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    [self._program, "--quiet", "--connect", self.uri, *arguments],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,  # an ssh that it starts is to be killed with it
                )
            except OSError as error:
                raise errors.Failed(
                    f"{self._program} does not start: {error.strerror}; instances of kvm take libvirt and its clients"
                ) from error
        try:
            yield process
        finally:
            killing.kill(process)


def ended(process: subprocess.Popen[str], *, time_limit: Optional[float]) -> tuple[str, str]:
    """What a command has printed, and its complaint; it still runs where its return code is None."""
    try:
        return process.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired:
        return "", ""


def one_line(complaint: str, *, code: int) -> str:
    """What virsh complains of, without what libraries say of logs that they cannot reach."""
    lines = [line.strip() for line in complaint.splitlines()]
    said = [line[len(_PREFIX) :] for line in lines if line.startswith(_PREFIX)] or [line for line in lines if line]
    return ": ".join(said)[:_TEXT_LIMIT] or f"it exited with status {code} and printed nothing"
