"""Simulated BMCs as a process: one for each address named, the sensor `Fan1` of the last one in a warning.

Prints its port, and then a line with address and state for each setting of a node's power.
"""

from __future__ import annotations

import sys

from ansible_collections.roundsman.cluster.daemon.lab import bmc_simulator, chassis

from tests.unit.daemon.lab import simulated


class ToldChassis(chassis.MemoryChassis):
    """A chassis that says what it is told."""

    def __init__(self, address: str, *faults: str) -> None:
        super().__init__(faults=faults)
        self._address = address

    def set_power(self, on: bool, /) -> None:
        super().set_power(on)
        sys.stdout.write(f"{self._address} {'on' if on else 'off'}\n")
        sys.stdout.flush()


def main() -> None:
    *well, last = sys.argv[1:]
    nodes = [ToldChassis(address) for address in well] + [ToldChassis(last, "Fan1=warning")]
    login = (simulated.USERNAME, simulated.PASSWORD)
    bmcs = {address: chassis.Bmc(node, *login) for address, node in zip([*well, last], nodes, strict=True)}
    simulator = bmc_simulator.Simulator(bmcs.get)
    sys.stdout.write(f"{simulator.bind()}\n")
    sys.stdout.flush()
    simulator.serve_forever()


if __name__ == "__main__":
    main()
