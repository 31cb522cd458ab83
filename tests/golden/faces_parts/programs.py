"""The help of every command and program.

It calls: the applications of the commands by their names, as `pyproject.toml` has them, and `OTHERS`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
from typer import rich_utils

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH = 100
PROJECT = Path(__file__).parents[3] / "pyproject.toml"
COMMAND = "roundsman"
COLOURS = ("FORCE_COLOR", "TTY_COMPATIBLE", "GITHUB_ACTIONS", "PY_COLORS", "ROUNDSMAN_ROOT")
COLLECTION = "ansible_collections.roundsman.cluster"
OTHERS = {
    "roundsman-agent": f"{COLLECTION}.plugins.module_utils.monitoring.agent:main",
    "the demonstration": f"{COLLECTION}.daemon.lab.demo:main",
}
"""Without a script of the project: nodes run the agent as an archive, and make runs the demonstration."""

FOREIGN = "roundsman-playbook"
"""It becomes ansible-playbook, and its help is Ansible's."""


def record() -> Iterator[tuple[str, str]]:
    """The help of `roundsman` by noun, and that of each other program."""
    scripts: dict[str, str] = tomllib.loads(PROJECT.read_text())["project"]["scripts"]
    with pytest.MonkeyPatch.context() as patch:
        for name in COLOURS:
            patch.delenv(name, raising=False)
        patch.setenv("COLUMNS", str(WIDTH))
        patch.setenv("TERM", "xterm")  # a dumb one has 80 columns, whatever COLUMNS says
        patch.setenv("NO_COLOR", "1")
        patch.setattr(rich_utils, "MAX_WIDTH", WIDTH)
        patch.setattr(rich_utils, "FORCE_TERMINAL", None)
        yield from _command(_found(scripts.pop(COMMAND)))
        del scripts[FOREIGN]
        # The trace, and its test with it, would end here with the status of the other program.
        patch.setattr(os, "execve", _refuse)
        programs = {**scripts, **OTHERS}
        yield "help.programs.txt", "\n".join(_program(name, _found(where), patch) for name, where in programs.items())


def _command(main: Callable[..., object]) -> Iterator[tuple[str, str]]:
    root = typer.main.get_command(sys.modules[main.__module__].app)
    texts: dict[str, list[str]] = {}
    for path in _paths(root, ()):
        words = [*path, "--help"]
        shown = _shown(lambda words=words: root.main(words, prog_name=COMMAND))
        noun = path[0] if path and getattr(getattr(root, "commands", {})[path[0]], "commands", None) else "commands"
        heading = f"$ {' '.join((COMMAND, *path, '--help'))}"
        texts.setdefault(noun, []).append(f"{heading}\n{_trimmed(shown)}")
    for noun, parts in texts.items():
        yield f"help.{noun}.txt", "\n".join(parts)


def _paths(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from _paths(child, (*path, name))


def _program(name: str, main: Callable[..., object], patch: pytest.MonkeyPatch) -> str:
    patch.setattr(sys, "argv", [name, "--help"])
    return f"$ {name} --help\n{_trimmed(_shown(main))}"


def _refuse(program: object, *_arguments: object) -> None:
    message = f"its help is that of {program}"
    raise AssertionError(message)


def _shown(call: Callable[..., object]) -> str:
    """What a program prints before it ends."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        call()
    return out.getvalue()


def _trimmed(shown: str) -> str:
    """Without the frame, which is the same for all."""
    lines = (line.strip("│").rstrip() if line.startswith("│") else line.rstrip("╮╯─ ") for line in shown.splitlines())
    return "".join(f"{line}\n" for line in lines if line not in {"", "╰"})


def _found(where: str) -> Callable[..., object]:
    module, _, name = where.partition(":")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    return found
