"""What switching off many nodes out of band costs: our engine beside FreeIPMI's ipmipower, against simulated BMCs.

Run by `make bench`. One simulator process answers for all BMCs, 5 ms after each question. The tools take turns, and
the median of their walls counts; a process is measured from its start to its end, "of it" is our engine's share,
without the start of Python. Python keeps what it has compiled, as where it is installed. In the faulty runs every 20th
BMC is dead, and 0.5 % of the datagrams are lost in each direction, 1 % of the questions. `ipmipower` as it comes says
that a BMC accepted; tuned, and our engine, that the node was read back off.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.bench import power_bmcs, power_rack
from tests.integration import peers

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (50, 200, 500, 1000)
TURNS = 5
FAULTY, FAULTY_RUNS, TUNED_RUNS = 500, 20, 3
DEADLINE, FAULTY_DEADLINE = 30.0, 4.0
HUNG_AFTER = 60.0
CPU_PER_NODE = 0.003
LOGIN = ("-D", "LAN_2_0", "-u", power_bmcs.USERNAME, "-p", power_bmcs.PASSWORD, "--off")
TUNED = ("--session-timeout=5000", "--retransmission-timeout=500", "--wait-until-off")
AS_INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
COLUMNS = "{:<34} {:>7} {:>9} {:>12} {:>6} {:>6} {:>6}"


@dataclass(frozen=True, order=True)
class Run:
    """One run of one tool: wall and CPU seconds of its process, and what became of the nodes.

    `own_seconds` and `own_cpu` are without the start of the process, where the tool tells them. `done` is how many
    nodes it called done, `off` how many were off in the end, `live` how many could be.
    """

    seconds: float
    cpu: float
    done: int
    off: int
    live: int
    nodes: int
    is_hung: bool
    own_seconds: float = 0.0
    own_cpu: float = 0.0

    @property
    def is_right(self) -> bool:
        """Every live node was switched off and called done, and no other."""
        return not self.is_hung and self.done == self.off == self.live


def main() -> int:
    """Measure, and print a table of seconds and ratios."""
    ipmipower = peers.found("ipmipower")
    print(COLUMNS.format("N, tool", "wall s", "to tuned", "CPU ms/node", "done", "off", "live"))
    wrong: list[str] = []
    load = os.getloadavg()[0]
    for nodes in SIZES:
        wrong += _clean(nodes, ipmipower)
    wrong += _faulty(ipmipower)
    print(f"load of the {os.cpu_count()} CPUs: {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    print(*(wrong or ["every live node was confirmed off and every dead one told, in every run"]), sep="\n")
    return 1 if wrong else 0


def _clean(nodes: int, ipmipower: str | None) -> list[str]:
    turns = [(_peer(ipmipower, nodes), _peer(ipmipower, nodes, *TUNED), _engine(nodes)) for _ in range(TURNS)]
    plain, tuned, ours = (
        statistics.median_low([run for run in runs if run]) if any(runs) else None for runs in zip(*turns, strict=True)
    )
    _print(f"{nodes}, ipmipower", plain, tuned)
    _print(f"{nodes}, ipmipower tuned", tuned, tuned)
    _print(f"{nodes}, our engine", ours, tuned)
    assert ours is not None
    _print("    of it", dataclasses.replace(ours, seconds=ours.own_seconds, cpu=ours.own_cpu), tuned)
    wrong = [] if all(turn[-1].is_right for turn in turns) else [f"{nodes} BMCs: not every node was confirmed off"]
    if ours.own_cpu / nodes > CPU_PER_NODE:
        wrong.append(f"{nodes} BMCs: more than {CPU_PER_NODE * 1000:g} ms of CPU for each")
    return wrong


def _faulty(ipmipower: str | None) -> list[str]:
    """Twenty runs with the same dead BMCs and each with other losses."""
    print(f"{FAULTY} BMCs, every {power_rack.DEAD_EACH}th dead, 1 % loss:")
    tuned = [run for seed in range(TUNED_RUNS) if (run := _peer(ipmipower, FAULTY, *TUNED, seed=seed + 1))]
    middle = statistics.median_low(tuned) if tuned else None
    _print("ipmipower, one run", _peer(ipmipower, FAULTY, seed=1), middle)
    _print(f"ipmipower tuned, median of {TUNED_RUNS}", middle, middle)
    ours = [_engine(FAULTY, seed=seed + 1) for seed in range(FAULTY_RUNS)]
    for name, one in (("fastest", min(ours)), ("median", statistics.median_low(ours)), ("slowest", max(ours))):
        _print(f"our engine, {name} of {FAULTY_RUNS}", one, middle)
    right = sum(one.is_right for one in ours)
    print(
        f"our engine, {FAULTY_DEADLINE:g} s for each BMC: {right} runs of {FAULTY_RUNS}: no hang, no live node left on"
    )
    return [f"went wrong: {one}" for one in ours if not one.is_right]


def _engine(nodes: int, *, seed: int = 0) -> Run:
    deadline = FAULTY_DEADLINE if seed else DEADLINE
    command = [sys.executable, "-m", "tests.bench.power_engine", str(nodes), str(deadline)]
    return _run(nodes, seed, lambda port: [*command, str(port)], json.loads)


def _peer(ipmipower: str | None, nodes: int, *options: str, seed: int = 0) -> Run | None:
    if ipmipower is None:
        return None
    last = nodes // power_bmcs.PER_NET - 1
    hosts = f"127.1.0.[1-{nodes}]" if last < 0 else f"127.1.[0-{last}].[1-{power_bmcs.PER_NET}]"
    command = [ipmipower, *LOGIN, *options, "-h"]
    return _run(nodes, seed, lambda port: [*command, f"{hosts}:{port}"], lambda told: {"done": told.count(": ok\n")})


def _run(nodes: int, seed: int, command: Callable[[int], list[str]], read: Callable[[str], dict[str, Any]]) -> Run:
    """Let a tool switch off a rack of its own; a seed makes the rack a faulty one."""
    rack = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.power_rack", str(nodes), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert rack.stdout is not None
    line = command(int(rack.stdout.readline()))
    before, began = _children_cpu(), time.perf_counter()
    try:
        told = subprocess.run(
            line, stdout=subprocess.PIPE, text=True, timeout=HUNG_AFTER, check=False, env=AS_INSTALLED
        ).stdout
    except subprocess.TimeoutExpired:
        told = None
    seconds, cpu = time.perf_counter() - began, _children_cpu() - before
    state = json.loads(rack.communicate()[0])
    return Run(
        seconds=seconds,
        cpu=cpu,
        off=state["off"],
        live=nodes - state["dead"],
        nodes=nodes,
        is_hung=told is None,
        **({"done": 0} if told is None else read(told)),
    )


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _print(name: str, run: Run | None, tuned: Run | None) -> None:
    if run is None:
        print(f"{name}: not there, apt-get install freeipmi-tools")
        return
    ratio = "" if tuned is None else f"{run.seconds / tuned.seconds:.2f}"
    milliseconds = f"{run.cpu / run.nodes * 1000:.2f}"
    print(COLUMNS.format(name, f"{run.seconds:.2f}", ratio, milliseconds, run.done, run.off, run.live))


if __name__ == "__main__":
    sys.exit(main())
