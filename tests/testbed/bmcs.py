"""The process of a bed's simulated BMCs: each stands for a real node, whose power it really gives and takes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ansible_collections.roundsman.cluster.daemon.lab import bmc_simulator, chassis

from . import beds, controller, nodes


class NodeChassis:
    """The power and the buttons of a node: without power all that runs there is gone at once."""

    def __init__(self, bed: beds.Bed, node: str) -> None:
        self._bed = bed
        self._node = node

    def powered(self) -> bool:
        return self._node in nodes.running(self._bed)

    def set_power(self, on: bool, /) -> None:
        if on != self.powered():
            nodes.set_power(self._bed, self._node, on=on)

    def press_power_button(self) -> None:
        nodes.press_power_button(self._bed, self._node)

    def press_reset_button(self) -> None:
        nodes.press_reset_button(self._bed, self._node)

    def faults(self) -> frozenset[str]:
        return self._bed.bmc_faults(self._node)


def main() -> None:
    """Serve the BMCs of the bed in the folder that is the first argument; the second is a descriptor to say so."""
    bed = beds.Bed(Path(sys.argv[1]))
    record = bed.record()
    made = {
        known["bmc"]: chassis.Bmc(NodeChassis(bed, name), controller.BMC_USER, record["bmc"]["password"])
        for name, known in record["nodes"].items()
    }
    simulator = bmc_simulator.Simulator(made.get)
    simulator.bind(record["bmc"]["port"])
    signal.signal(signal.SIGTERM, lambda *_: simulator.close())
    ready = int(sys.argv[2])
    os.write(ready, b"ready\n")
    os.close(ready)
    simulator.serve_forever()


if __name__ == "__main__":
    main()
