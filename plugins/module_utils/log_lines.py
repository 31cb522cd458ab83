"""Log lines that nobody outside can forge: one line per record, and a traceback whose lines are indented."""

from __future__ import annotations

import logging

from .domain.values import control_characters


class Formatter(logging.Formatter):
    """Escapes what is not printable; the lines of a traceback follow, each beginning with `CONTINUED`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and further ones only for a traceback or a stack."""
        text = super().format(record)
        message = self.formatMessage(record)
        line = control_characters.escaped(message)
        # logging appends the traceback and the stack to the formatted message.
        further = text[len(message) :].strip("\n")
        return "\n".join(
            [line, control_characters.CONTINUED + control_characters.indented(further)] if further else [line]
        )
