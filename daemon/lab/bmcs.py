"""The process of a lab's simulated BMCs: one loopback address per node, one socket for all."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from . import bmc_simulator, building, chassis, world


class LabChassis:
    """The power of a lab node, as its BMC sees it."""

    def __init__(self, node: world.LabNode) -> None:
        self._node = node

    def powered(self) -> bool:
        return self._wired().is_powered()

    def set_power(self, on: bool, /) -> None:  # noqa: FBT001 - the simulator's port
        self._wired().set_power(on, by="its BMC")

    def _wired(self) -> world.LabNode:
        """The node whose power it has: another one, if somebody mixed them up."""
        other = chassis.other_node(self.faults())
        return world.LabNode(self._node.root.with_name(other)) if other else self._node

    def faults(self) -> frozenset[str]:
        return self._node.faults()


def main() -> None:
    """Serve the BMCs of the lab in the folder that is the first argument; the second is a descriptor to say so."""
    lab = world.Lab(Path(sys.argv[1]))
    settings = lab.settings()
    bmcs = {
        address: chassis.Bmc(LabChassis(lab.node(name)), building.BMC_USER, settings["bmc_password"])
        for address, name in settings["bmc"].items()
    }
    simulator = bmc_simulator.Simulator(bmcs.get)
    simulator.bind(settings["ports"]["bmc"])
    signal.signal(signal.SIGTERM, lambda *_: simulator.close())
    ready = int(sys.argv[2])
    os.write(ready, b"ready\n")
    os.close(ready)
    simulator.serve_forever()


if __name__ == "__main__":
    main()
