# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback `steps`: a line for each step with its nodes and its seconds, and all that went wrong."""

from __future__ import annotations

DOCUMENTATION = r"""
name: steps
type: stdout
short_description: A line for each step of a play
version_added: 0.1.0
description:
  - For each task that ran it prints how many nodes took part, how many of them failed, and its seconds.
  - What fails is printed at once, with the name of the node; lists of messages are printed a line each.
  - On a terminal the line of the step at work counts the nodes that are done.
author:
  - The Roundsman founders (@roundsman)
"""

import sys
import time
from typing import TYPE_CHECKING, Any

from ansible.plugins.callback import CallbackBase

if TYPE_CHECKING:
    from collections.abc import Iterable

ERASE = "\r\x1b[K"
HERE = "localhost"
DEBUG = {"debug", "ansible.builtin.debug"}


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible ships no types
    """Steps, not hosts: a cluster has too many of these."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "roundsman.cluster.steps"

    def __init__(self) -> None:
        super().__init__()
        self._step, self._began = "", 0.0
        self._done = self._failed = self._nodes = 0
        self._is_terminal = sys.stdout.isatty()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: FBT001 - the signature of Ansible
        del is_conditional
        self._close()
        self._step = task.get_name().strip() if task.action not in DEBUG else ""
        self._began = time.monotonic()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        del play
        self._close()

    def v2_playbook_on_stats(self, stats: Any) -> None:
        del stats
        self._close()

    def v2_runner_on_ok(self, result: Any) -> None:
        if result.task.action in DEBUG:
            self._say(_messages(result.result.get("msg")))
            return
        self._count(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002 - the signature of Ansible
        del ignore_errors
        self._trouble(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._trouble(result)

    def _trouble(self, result: Any) -> None:
        host, lines = result.host.get_name(), _messages(result.result.get("msg"))
        # Each line names the node that sent it: none looks like a line of this command.
        self._say(lines if host == HERE else [f"{host}: {line}" for line in lines])
        self._count(result, failed=1)

    def _count(self, result: Any, *, failed: int = 0) -> None:
        self._done += 1
        self._failed += failed
        self._nodes += result.host.get_name() != HERE
        if self._is_terminal and self._step:
            self._write(f"{ERASE}{self._step}: {self._done} done")

    def _close(self) -> None:
        """End the line of the step that was at work, if it did anything."""
        if self._step and self._done:
            nodes = f"{self._nodes} node{'s' if self._nodes != 1 else ''}, " if self._nodes else ""
            failed = f"{self._failed} failed, " if self._failed else ""
            erase = ERASE if self._is_terminal else ""
            self._write(f"{erase}{self._step}: {nodes}{failed}{time.monotonic() - self._began:.1f} s\n")
        self._step, self._done, self._failed, self._nodes = "", 0, 0, 0

    def _say(self, lines: Iterable[str]) -> None:
        erase = ERASE if self._is_terminal else ""
        self._write(erase + "".join(f"{line}\n" for line in lines))

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _messages(found: Any) -> list[str]:
    lines = (
        [str(entry) for entry in found] if isinstance(found, list) else str(found or "no reason was given").splitlines()
    )
    return ["".join(character if character.isprintable() else " " for character in line) for line in lines] or [""]
