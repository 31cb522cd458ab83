"""A play that never ends, because Ansible does not hear its own workers any more.

The thread that takes their results ends at the first event that cannot be written, as on a full disk, and the play
waits for them without end (ansible-core, `results_thread_main` of its strategies). The event that was begun stays.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ...plugins.plugin_utils import run_group

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = "runner/artifacts/run/job_events"


def is_unheard(run: Path) -> bool:
    """Whether an event of a run was begun and not written, and no process of it has a second thread.

    For a moment both are so in a play that is all right.
    """
    if not any((run / EVENTS).glob("*.tmp")):
        return False
    threads = [_threads(pid) for pid in run_group.members(run)]
    return bool(threads) and max(threads) == 1


def _threads(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - no need for paths
    return 1
