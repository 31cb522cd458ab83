"""Simulated BMCs for tests: a simulator in a thread, its BMCs in a dictionary by address."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import bmc_simulator, chassis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USERNAME = "admin"
PASSWORD = "s3cret"


class Rack:
    """BMCs by address, to which some can be added while the simulator runs."""

    def __init__(self) -> None:
        self.bmcs: dict[str, chassis.Bmc] = {}
        self.port = 0
        self.session_count: Callable[[], int] = int

    def add(
        self, address: str, *faults: str, on: bool = True, suites: tuple[int, ...] = (3, 17)
    ) -> chassis.MemoryChassis:
        node = chassis.MemoryChassis(on=on, faults=faults)
        self.bmcs[address] = chassis.Bmc(node, USERNAME, PASSWORD, frozenset(suites))
        return node


@contextlib.contextmanager
def running(**options: Any) -> Iterator[Rack]:
    """A rack behind a simulator in a thread, which is made with these options."""
    rack = Rack()
    simulator = bmc_simulator.Simulator(rack.bmcs.get, **options)
    rack.session_count = simulator.session_count
    rack.port = simulator.bind()
    thread = threading.Thread(target=simulator.serve_forever)
    thread.start()
    try:
        yield rack
    finally:
        simulator.close()
        thread.join()
