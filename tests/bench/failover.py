"""How long an instance is down whose node dies, unattended, and what it may lose: `python tests/bench/failover.py`.

A lab with agents, asked once a minute, and five questions until a node is taken for dead, as in the README. The node
loses its power, or its kernel panics and it is fenced. What is asserted is the end state, never a time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import store
from ansible_collections.roundsman.cluster.daemon.lab import checker, journals, orders, world
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake

from tests.integration import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS: dict[str, Any] = {"diagnose_interval": 60.0, "dead_after": 5}
PAIRS = (("node2", "node3"), ("node3", "node4"), ("node4", "node1"), ("node1", "node2"))
DEAD = "node2"


@dataclass(frozen=True)
class Case:
    """How the node dies, the policy for it, and the aims in seconds: for the time that it takes, and the loss."""

    name: str
    policy: str
    strike: Callable[[world.LabNode], object]
    aim: float
    loss: float | None = None


@dataclass(frozen=True)
class Seen:
    """Seconds from the death of the node until its instance runs elsewhere, the stated loss, and what was lost."""

    down: float
    stated: float
    lost: float


CASES = (
    Case("plain cut -> runs elsewhere", "failover", world.LabNode.lose_power, aim=60, loss=45),
    Case("panic with `fence` -> runs elsewhere", "fence", world.LabNode.panic, aim=120),
)


def main() -> None:
    """Print a line for each way to die, and what is wrong at the end."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=1, help="how often each node dies (default: 1)")
    times = options.parse_args().times
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
            seen = [_measured(Path(folder) / str(number), case) for number in range(times)]
        print(f"{case.name}: {_line(case, seen)}", flush=True)


def _line(case: Case, seen: list[Seen]) -> str:
    down, stated, lost = zip(*((one.down, one.stated, one.lost) for one in seen), strict=True)
    loss = "" if case.loss is None else f", aim < {case.loss:g} s"
    return (
        f"{_spread(down)} (aim < {case.aim:g} s), stated loss {_spread(stated)}{loss}, lost {_spread(lost)}; "
        f"{os.getloadavg()[0]:.0f} processes wanted to run on {os.cpu_count()} CPUs"
    )


def _spread(seconds: tuple[float, ...]) -> str:
    middle = f"{statistics.median(seconds):.0f} s"
    return middle if len(seconds) == 1 else f"{middle} ({min(seconds):.0f} to {max(seconds):.0f})"


def _measured(folder: Path, case: Case) -> Seen:
    settings = {**SETTINGS, "dead_node_policy": case.policy}
    one = labs.up(folder / "lab", nodes=4, instances=4, pairs=PAIRS, settings=settings, agents=True)
    try:
        one.until(_everyone_answers, "all agents answer")
        case.strike(one.lab.node(DEAD))
        one.until(states.reads(DEAD, "completed"), "its instances are elsewhere")
        return _seen(one)
    finally:
        labs.down(one)


def _everyone_answers(one: labs.Running) -> bool:
    return all(node["health"] == "Ok" for node in one.get("/1/nodes"))


def _seen(one: labs.Running) -> Seen:
    if wrong := one.wrong():
        sys.exit("\n".join(wrong))
    events = journals.read(one.lab)
    death = next(event for event in events if event["event"] == "stopped" and event["node"] == DEAD)
    start = next(event for event in events if event["event"] in fake.ARRIVALS and event["ns"] > death["ns"])
    if start["instance"] != death["instance"]:
        sys.exit(f"{death['instance']} stopped, and {start['instance']} was started")
    job, _, index = str(start["opcode"]).partition("/")
    stated = orders.possible_loss(store.Store(one.where.queue).load()[int(job)].opcodes[int(index)])
    lost = sum(loss.seconds for loss in checker.lost(one.lab))
    return Seen((start["ns"] - death["ns"]) / 1e9, stated, lost)


if __name__ == "__main__":
    main()
