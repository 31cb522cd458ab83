"""A callback of Ansible that belongs to the traces: it notes each task that was run, with its arguments."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: golden_tasks
type: aggregate
short_description: Record the tasks that were run
version_added: 0.1.0
description: Appends a JSON line to the file ANSIBLE_GOLDEN_LOG for each task, or item of one, that was not skipped.
"""
KEPT = ("changed", "msg", "steps", "running", "state", "results", "migrated", "objection", "forced")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible ships no types
    """Items stand for the loop that they are of."""

    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "golden_tasks"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        self._append(result, "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        del ignore_errors
        self._append(result, "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._append(result, "unreachable")

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._append(result, "ok", is_item=True)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._append(result, "failed", is_item=True)

    def _append(self, result: Any, status: str, *, is_item: bool = False) -> None:
        fields, told = result._task_fields, result._result
        if fields.get("loop") is not None and not is_item:
            return
        entry = {
            "run": os.environ.get("ROUNDSMAN_RUN", ""),
            "task": result._task.get_name().rpartition(" : ")[2],
            "is_delegated": fields.get("delegate_to") is not None,
            "host": fields.get("delegate_to") or result._host.get_name(),
            "action": fields.get("action"),
            "arguments": fields.get("args"),
            "check": bool(fields.get("check_mode")),
            "status": status,
            "result": {name: told[name] for name in KEPT if name in told},
        }
        line = json.dumps(entry, default=str, sort_keys=True)
        with Path(os.environ["ANSIBLE_GOLDEN_LOG"]).open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")
