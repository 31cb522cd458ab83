"""Asking before something is done that cannot be taken back."""

from __future__ import annotations

import sys

import typer

from ...plugins.module_utils.domain import errors
from . import output

DECLINED = 1
"""The exit status of a command that was not confirmed."""


def typed(answer: str, *, question: str, instead: str = "") -> None:
    """Go on only when a person types exactly this answer, which they can only know from what they have read.

    `instead` names the option that stands for the answer; without it `--confirm` with the answer does, or `--force`.

    Raises:
        Refused: there is nobody to ask.
    """
    if not sys.stdin.isatty():
        option = instead or f"--confirm {answer}, or --force"
        raise errors.Refused(f"standard input is no terminal, so nobody can be asked: add {option}")
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != answer:
        output.warning("roundsman: nothing was done")
        raise typer.Exit(DECLINED)


def confirm(question: str, *, yes: bool) -> None:
    """Go on only when a person says so, or has said so by an option.

    Raises:
        Refused: there is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise errors.Refused("standard input is no terminal, so nobody can be asked: add --yes")
    # Not typer.confirm: it writes to standard output too, which `--submit` keeps for the number.
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        output.warning("roundsman: nothing was done")
        raise typer.Exit(DECLINED)
