"""How many CPUs the instances of a node use: two looks at their CPU time, some seconds apart."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict

if TYPE_CHECKING:
    from . import drivers


def measured(hypervisor: drivers.Hypervisor, *, seconds: float) -> Dict[str, Dict[str, Any]]:
    """The facts of the instances that are here, with their `load` where `seconds` is more than 0.

    One that comes in between has no load.
    """
    before, began = hypervisor.facts(), time.monotonic()
    if seconds <= 0:
        return before
    time.sleep(seconds)
    after, passed = hypervisor.facts(), time.monotonic() - began
    for name, facts in after.items():
        if name in before:
            used = facts["cpu_seconds"] - before[name]["cpu_seconds"]
            facts["load"] = round(max(0.0, used) / passed, 3)
    return after
