"""Our engine as a process: `python -m tests.bench.power_engine NODES DEADLINE PORT` switches a rack off."""

from __future__ import annotations

import json
import sys
import time

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import drivers

from tests.bench import power_bmcs


def main() -> None:
    """Do it, and print how many nodes are confirmed off and what it took without the start of Python."""
    nodes, deadline, port = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    targets = [_target(number, port) for number in range(nodes)]
    began, spent = time.perf_counter(), time.process_time()
    outcomes = drivers.run(targets, command=power.Command.OFF, deadline=deadline)
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    strange = {one.reason for one in outcomes if not one.confirmed} - {power.Reason.TIMEOUT.value}
    assert not strange, strange
    print(json.dumps({"done": sum(one.confirmed for one in outcomes), "own_seconds": seconds, "own_cpu": cpu}))


def _target(number: int, port: int) -> power.Target:
    address = power_bmcs.address(number)
    login = {"username": power_bmcs.USERNAME, "password": power_bmcs.PASSWORD}
    return power.Target(name=address, driver="ipmi", address=address, port=port, **login)


if __name__ == "__main__":
    main()
