"""The text of a failure, of what a program printed: without secrets."""

from __future__ import annotations

import re

from ..domain.values import secret_values

_TEXT_LIMIT = 400
_WORDS = 3
"""The words shown of a command for which drbdadm did not wait; the command may be longer than `_TEXT_LIMIT`."""
_CONTINUED = re.compile(r"\n[ \t]+(?=but got '|we don't allow |>>>)")
"""Parse errors of drbdadm have several lines, and the first names the file and its line."""
_UNEXPECTED = re.compile(r"(but got (?=')|>>>).+")
"""What a parse error of drbdadm quotes, which may be any secret of an adopted resource."""
_LONG_NUMBER = re.compile(r"(?<![\w/.-])[0-9a-f]{17,}", re.IGNORECASE)
"""The secret of a pair, or its beginning; a generation has 16 digits, and the name of a device follows a slash."""
_BESIDE = re.compile(r"Command '.*' terminated with exit code|additional info")


def failure_text(*outputs: bytes) -> str:
    """The last line of the first output that has one; of DRBD's tools what the kernel said, and not who ran whom.

    It becomes the text of a job, which anybody may read, so it has no secrets.
    """
    for output in outputs:
        text = _CONTINUED.sub(" ", output.decode(errors="replace"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        lines = [line for line in lines if not _BESIDE.match(line)]
        failures = [number for number, line in enumerate(lines) if re.search(r"(Failure|failed): \(", line)]
        if lines:
            return _public(" ".join(lines[failures[-1] :]) if failures else lines[-1])[:_TEXT_LIMIT]
    return ""


def _public(text: str) -> str:
    """The text without secrets, which it is before it is cut."""
    short = _UNEXPECTED.sub(rf"\1{secret_values.HIDDEN}", _without_arguments(text))
    return _LONG_NUMBER.sub(secret_values.HIDDEN, str(secret_values.masked(short)))


def _without_arguments(text: str) -> str:
    """The text with no more than the first words of a command for which drbdadm did not wait."""
    before, opened, rest = text.partition("Command '")
    command, closed, after = rest.rpartition("' did not terminate within ")
    words = command.split(maxsplit=_WORDS)
    if len(words) <= _WORDS:
        return text
    return f"{before}{opened}{' '.join(words[:_WORDS])} ...{closed}{after}"
