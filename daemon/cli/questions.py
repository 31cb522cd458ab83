"""Ask for confirmation before something is done that cannot be undone."""

from __future__ import annotations

import sys

import typer

from ...plugins.module_utils.domain.values import errors
from . import output

DECLINED = 1
"""The exit status of a command that was not confirmed."""
STALE_RISK = "Fail over {} even to a stale replica? What was written since that replica was last in sync is lost."


def typed(answer: str, *, question: str, instead: str = "") -> None:
    """Continue only if the user types exactly this answer, which the output above shows.

    `instead` names the option that replaces the answer; default: `--confirm ANSWER`, or `--force`.

    Raises:
        Refused: standard input is no terminal.
    """
    if not sys.stdin.isatty():
        option = instead or f"--confirm {answer}, or --force"
        raise errors.Refused(f"confirmation required, but standard input is not a terminal: add {option}")
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != answer:
        output.warning("roundsman: nothing was done")
        raise typer.Exit(DECLINED)


def confirm(question: str, *, yes: bool) -> None:
    """Continue only if the user answers yes, or gave the option for it.

    Raises:
        Refused: standard input is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise errors.Refused("confirmation required, but standard input is not a terminal: add --yes")
    # Not typer.confirm: it writes to standard output too, which `--submit` keeps for the number.
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        output.warning("roundsman: nothing was done")
        raise typer.Exit(DECLINED)
