"""A look at the connections of DRBD every few seconds, in a thread of its own: one that hangs holds up nothing else."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Callable, Optional

from ..domain.values import errors
from ..storage import sights

if TYPE_CHECKING:
    from .. import node_settings

LOG = logging.getLogger("roundsman-agent")
INTERVAL = 5.0
LONGEST = 300.0
"""Seconds from one look to the next: as long as programs of DRBD hang, there are fewer, so that they do not pile up."""


def start(node: node_settings.Settings, stopping: threading.Event, *, on_change: Callable[[], None]) -> None:
    """Begin to look until told to stop; a look that hangs does not keep the agent from ending.

    `on_change` is called after a look that found DRBD otherwise than the one before.
    """
    threading.Thread(target=_run, args=(node, stopping, on_change), name="sights", daemon=True).start()


def _run(node: node_settings.Settings, stopping: threading.Event, on_change: Callable[[], None]) -> None:
    pause, trouble = INTERVAL, ""
    known: Optional[sights.States] = None
    while not stopping.is_set():
        began, before = time.monotonic(), trouble
        try:
            found = sights.look(node.root, hypervisor=node.hypervisor)
            trouble = ""
            if known is not None and found != known:
                on_change()
            known = found
        except errors.RoundsmanError as e:
            trouble = str(e)
        except Exception as e:  # a look that stumbles must not be the last one
            LOG.exception("the look at DRBD failed")
            trouble = before = repr(e)
        if trouble != before:
            LOG.warning("the look at DRBD: %s", trouble or "it answers again")
        took = time.monotonic() - began
        pause = min(pause * 2, LONGEST) if took >= sights.SECONDS else INTERVAL
        stopping.wait(max(0.0, pause - took))
