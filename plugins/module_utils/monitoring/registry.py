"""The collectors; a new one has a file in `collectors/`, a subject in `domain/agent/collected.py` and a line here.

Its interval is one of `agent_settings.DEFAULT_SECONDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Mapping

from ..domain.agent import collected
from .collectors import cpu_load, diagnose, diskstats, drbd, inst_status, lv

if TYPE_CHECKING:
    from . import observing

COLLECTORS: Mapping[collected.Subject, Callable[[], observing.Collect]] = {
    collected.DIAGNOSE: diagnose.make,
    collected.CPU_LOAD: cpu_load.make,
    collected.DISKSTATS: diskstats.make,
    collected.DRBD: drbd.make,
    collected.LV: lv.make,
    collected.INST_STATUS: inst_status.make,
}
