"""A rack of simulated BMCs as a process: `python -m tests.bench.power_rack NODES SEED`; all is well if the seed is 0.

It prints its port, answers until its standard input ends, and then prints what became of the nodes.
"""

from __future__ import annotations

import json
import sys
import threading

from ansible_collections.roundsman.cluster.daemon.lab import bmc_simulator, chassis, wire

from tests.bench import power_bmcs

DELAY, LOSS, DEAD_EACH = 0.005, 0.005, 20


def main() -> None:
    """Serve, and tell at the end how many nodes are off and how many dead."""
    nodes, seed = int(sys.argv[1]), int(sys.argv[2])
    dead = {number for number in range(nodes) if seed and number % DEAD_EACH == DEAD_EACH - 1}
    rack = {
        power_bmcs.address(number): chassis.MemoryChassis(faults={chassis.DEAD} if number in dead else ())
        for number in range(nodes)
    }
    bmcs = {one: chassis.Bmc(node, power_bmcs.USERNAME, power_bmcs.PASSWORD) for one, node in rack.items()}
    conditions = wire.Conditions(delay=DELAY, loss=LOSS if seed else 0.0, seed=seed)
    simulator = bmc_simulator.Simulator(bmcs.get, conditions=conditions)
    print(simulator.bind(), flush=True)
    thread = threading.Thread(target=simulator.serve_forever)
    thread.start()
    sys.stdin.read()
    simulator.close()
    thread.join()
    print(json.dumps({"off": sum(not node.powered() for node in rack.values()), "dead": len(dead)}))


if __name__ == "__main__":
    main()
