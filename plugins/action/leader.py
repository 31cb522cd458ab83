"""The controller's half of `leader`: the answer goes into the folder of the run, from where the daemon reads it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..plugin_utils import module_answers, run_group, run_records

if TYPE_CHECKING:
    from collections.abc import Iterator


class ActionModule(module_answers.Action):
    """Ask a node which controller it follows; under the daemon each answer is kept as it comes."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result |= self._execute_module(task_vars=task_vars)
        run = os.environ.get(run_group.RUN_VARIABLE)
        if run and not result.get("failed"):
            node = str(self._of_host(task_vars, module_answers.NODE) or "")
            run_records.keep_answer(Path(run), node, {key: result.get(key) for key in module_answers.FIELDS["leader"]})
        return result

    @contextlib.contextmanager
    def _ordered(self, *_: object, **__: object) -> Iterator[None]:
        """No epoch orders a question: it is asked before the controller has one that it may use."""
        yield
