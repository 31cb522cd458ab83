"""A node that cannot be reached is tried again twice, before anything has run there.

For ssh this is its own `ConnectionAttempts`: Ansible's `ANSIBLE_SSH_RETRIES` would run a module a second time when the
connection breaks while it works.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 3
PAUSES = (0.25, 0.75)
"""Seconds before the second and the third try; ssh waits for one second each."""
SSH_ARGUMENTS = f"-o ConnectionAttempts={TRIES} -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
"""A node that falls silent while a module works there is noticed after half a minute."""


def answers(is_there: Callable[[], bool], *, pause: Callable[[float], None] = time.sleep) -> bool:
    """Whether a node can be reached in one of the tries."""
    for seconds in PAUSES:
        if is_there():
            return True
        pause(seconds)
    return is_there()


def told(text: str) -> str:
    """The reason of a connection that failed, with the number of tries if it does not say it itself."""
    return text if f"{TRIES} tries" in text or "the node hangs" in text else f"{text} ({TRIES} tries)"
