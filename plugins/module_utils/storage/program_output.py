"""What a program printed, as far as it may be told: without secrets."""

from __future__ import annotations

import re

from ..domain import secret_values

_TEXT_LIMIT = 400
_ARGUMENTS = re.compile(r"(Command '\S+(?: [^\s']+){0,2}) .*(' did not terminate within )")
"""The rest of the command for which drbdadm did not wait; it may be longer than `_TEXT_LIMIT`."""
_LONG_NUMBER = re.compile(r"(?<![\w/.-])[0-9a-f]{17,}", re.IGNORECASE)
"""The secret of a pair, or its beginning, which a parse error of drbdadm quotes; a generation has 16 digits, and the
name of a device follows a slash."""
_BESIDE = re.compile(r"Command '.*' terminated with exit code|additional info")


def failure_text(*outputs: bytes) -> str:
    """The last line of the first output that has one; of DRBD's tools what the kernel said, and not who ran whom.

    It becomes the text of a job, which anybody may read, so it has no secrets.
    """
    for output in outputs:
        lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
        lines = [line for line in lines if not _BESIDE.match(line)]
        failures = [number for number, line in enumerate(lines) if re.search(r"(Failure|failed): \(", line)]
        if lines:
            return _public(" ".join(lines[failures[-1] :]) if failures else lines[-1])[:_TEXT_LIMIT]
    return ""


def _public(text: str) -> str:
    """The text without secrets, which it is before it is cut."""
    short = _ARGUMENTS.sub(r"\1 ...\2", text)
    return _LONG_NUMBER.sub(secret_values.HIDDEN, str(secret_values.masked(short)))
