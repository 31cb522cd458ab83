"""The crash test as a program (`make crashtest`): a lab under a stream of events, killed with -9 again and again.

At the end the nodes' journals, the queue, the locks and the incidents must fit together. Everything comes from one
seed; what the machine does in the same millisecond does not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import process

from tests.crash.storm import Storm
from tests.integration import labs, states

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES, INSTANCES = 9, 54
STATUSES = {"noted", "pending", "canceled", "failed", "completed"}


def main() -> int:
    """Run the storm, and say what is wrong afterwards."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="roundsman-crash-") as folder:
        lab = labs.up(
            Path(folder) / "lab",
            nodes=NODES,
            instances=INSTANCES,
            settings={"power_off_evacuated": False, "round_interval": 2.0},
            migration_seconds=0.2,
        )
        try:
            wrong = _blow(lab, seed=options.seed, kills=options.kills)
            if wrong and options.keep:
                os.rename(folder, options.keep)  # noqa: PTH104 - the folder of a context manager
        finally:
            labs.down(lab)
    print("\n".join(wrong) or f"nothing was lost, nothing was done twice (seed {options.seed})")
    return bool(wrong)


def _blow(lab: labs.Running, *, seed: int, kills: int) -> list[str]:
    chance = random.Random(seed)
    storm, deaths = Storm(lab, chance), Counter[str]()
    began = time.monotonic()
    while deaths["daemon"] < kills:
        for _ in range(chance.randint(1, 3)):
            storm.blow()
        time.sleep(chance.uniform(0, 1.5))
        if victims := _opcode_processes(lab) if chance.random() < 0.5 else []:
            os.kill(chance.choice(victims), signal.SIGKILL)
            deaths["opcode"] += 1
        if chance.random() < 0.6:
            lab.kill()
            deaths["daemon"] += 1
            lab.start()
            if deaths["daemon"] % 10 == 0:
                print(f"{time.monotonic() - began:6.0f} s: {dict(deaths)}, {storm.told} reports", flush=True)
    storm.calm()
    lab.until(_at_rest, "everything has ended")
    jobs = Counter(job["status"] for job in lab.get("/1/jobs"))
    print(f"{time.monotonic() - began:6.0f} s: {dict(deaths)}; {storm.told} reports, jobs {dict(jobs)}", flush=True)
    return [*lab.wrong(), *_dangling(lab)]


def _opcode_processes(lab: labs.Running) -> list[int]:
    """The processes of opcodes at work, those of their modules too: their environment names the run."""
    marker = f"{process.RUN_VARIABLE}={lab.where.queue}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return sorted(found)


def _at_rest(lab: labs.Running) -> bool:
    if not all(job["status"] in states.FINAL for job in lab.get("/1/jobs")):
        return False
    return all(one["repair-status"] not in {"noted", "pending"} for one in lab.get("/1/status")) or not _moves(lab)


def _moves(lab: labs.Running) -> bool:
    plan = lab.get("/1/plan")
    return bool(plan["jobs"])


def _dangling(lab: labs.Running) -> Iterator[str]:
    for lock in lab.get("/2/locks"):
        yield from (f"{lock['name']} is held by {one['owner']}" for one in lock["owners"])
        yield from (f"{lock['name']} is waited for by {one['owner']}" for one in lock["waiting"])
    for one in lab.get("/1/status"):
        if one["repair-status"] not in STATUSES:
            yield f"incident {one['id']} of {one['node_name']} is {one['repair-status']}"
    for job in lab.get("/1/jobs"):
        if job["status"] not in states.FINAL:
            yield f"job {job['id']} is {job['status']}"
    yield from (f"process {pid} of an opcode is left" for pid in _opcode_processes(lab))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--kills", type=int, default=100, help="how often the daemon is killed (default: 100)")
    parser.add_argument("--keep", help="a folder that the lab is kept in when something is wrong")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
