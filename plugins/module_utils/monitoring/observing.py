"""What all collectors are given, and what they may use: files of the system, programs with a time limit."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Callable, Sequence, Union

from .. import killing
from ..domain.agent import collected
from ..domain.values import errors

if TYPE_CHECKING:
    import pathlib

    from .. import node_settings
    from . import agent_settings

TIME_LIMIT = 30.0
OK, TEMPORARILY_BAD, UNKNOWN, BAD = 0, 1, 2, 4
"""Ganeti's codes of a status collector."""
Said = Union[str, collected.Problem]
"""What a collector has to say: JSON text, or why there is none."""


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """The node as a collector sees it; `settings_error` says why the newest settings do not count."""

    node: node_settings.Settings
    settings: agent_settings.Settings
    settings_error: str = ""

    @property
    def root(self) -> pathlib.Path:
        return self.node.root


Collect = Callable[[Surroundings], Said]


def as_json(value: Any) -> str:
    """A value as the text of a report."""
    return json.dumps(value, separators=(",", ":"))


def status(code: int, messages: Sequence[str], data: Any) -> str:
    """The report of a status collector, in Ganeti's form: the worst code, what is wrong, and the data."""
    return as_json({"status": {"code": code, "message": "\n".join(messages)}, "data": data})


def text_of(path: pathlib.Path) -> str:
    """The text of a file of the kernel.

    Raises: errors.Failed if it cannot be read.
    """
    try:
        return path.read_text(errors="replace")
    except OSError as e:
        raise errors.Failed("{}: {}".format(path, e.strerror)) from e


def output(words: Sequence[str]) -> str:
    """What a program prints, which has 30 s, no input, and messages that are not translated.

    Raises: errors.CommandFailed, reason `missing`, `exit` or `timeout`.
    """
    environment = {"LC_ALL": "C", "PATH": os.defpath + ":/usr/local/sbin:/usr/sbin:/sbin"}
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as e:
        raise errors.CommandFailed("missing", "{}: {}".format(words[0], e.strerror)) from e
    try:
        printed, complaint = process.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired as e:
        killing.kill(process)
        text = "{} was not done after {:g} s{}".format(words[0], TIME_LIMIT, killing.stuck(process))
        raise errors.CommandFailed("timeout", text) from e
    except BaseException:  # an interrupt, too, leaves no program behind
        killing.kill(process)
        raise
    if process.returncode:
        said = complaint.decode(errors="replace").strip()[-300:]
        raise errors.CommandFailed("exit", "{}: exit code {}: {}".format(words[0], process.returncode, said))
    return printed.decode(errors="replace")
