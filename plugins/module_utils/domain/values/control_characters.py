"""Characters that steer a terminal or hide text: control characters, line breaks, bidi and zero-width characters."""

from __future__ import annotations

CONTINUED = "    | "
"""What a further line of one text begins with, so that it cannot look like a line of its own."""


def escaped(text: str) -> str:
    r"""The text on one line: whatever is not printable appears as an escape, such as `\n`, `\x1b` or `\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def indented(text: str) -> str:
    """The text with its line breaks kept: each further line is escaped and begins with `CONTINUED`."""
    return ("\n" + CONTINUED).join(escaped(line) for line in text.split("\n"))
