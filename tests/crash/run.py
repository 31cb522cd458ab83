"""The crash test as a program (`make crashtest`): a lab under a stream of events, killed with -9 again and again.

After that a second one, whose disk is full now and then. At the end the nodes' journals, the queue, the locks and the
incidents must fit together. Everything comes from one seed; what the machine does in the same millisecond does not.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors

from tests.crash import small_disk, verdict
from tests.crash.storm import NO_ROOM, Storm
from tests.crash.victims import Victim, strike
from tests.integration import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

NODES, INSTANCES = 9, 54
CHANCES = {Victim.OPCODE: 0.5, Victim.SERVER: 0.3, Victim.GUARD: 0.4}
DISK = "128m"
QUIET = 10.0
"""Seconds between two lines about how far it has come."""


def main() -> int:
    """Run both storms, and say what is wrong afterwards; the folder of the labs is kept when something is."""
    options = _options()
    # However it is ended, its labs are.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="roundsman-crash-"))
    wrong = ["it was interrupted"]
    try:
        wrong = _storms(folder, seed=options.seed, kills=options.kills)
    finally:
        if wrong:
            print(f"what is left of the labs is kept in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    print("\n".join(wrong) or f"nothing was lost, nothing was done twice (seed {options.seed})")
    return bool(wrong)


def _storms(folder: Path, *, seed: int, kills: int) -> list[str]:
    wrong = _phase("kills", folder / "killed", lambda lab: _killed(lab, seed=seed, kills=kills))
    if reason := small_disk.why_not():
        print(f"full disk: skipped, no small disk can be mounted here: {reason}", flush=True)
        return wrong
    return wrong + _phase("full disk", folder / "full", lambda lab: _full(lab, seed=seed, times=3 + kills // 10))


def _phase(name: str, folder: Path, storm: Callable[[labs.Running], list[str]]) -> list[str]:
    lab = labs.up(
        folder,
        nodes=NODES,
        instances=INSTANCES,
        settings={"power_off_evacuated": False, "round_interval": 2.0},
        migration_seconds=0.2,
    )
    try:
        return [f"{name}: {one}" for one in storm(lab)]
    except (AssertionError, httpx.HTTPError, OSError, errors.RoundsmanError) as error:
        return [f"{name}: {type(error).__name__}: {error}"]
    finally:
        labs.down(lab)


def _killed(lab: labs.Running, *, seed: int, kills: int) -> list[str]:
    chance = random.Random(seed)
    storm, deaths, progress = Storm(lab, chance), Counter[str](), _Progress("kills")
    while deaths["daemon"] < kills:
        for _ in range(chance.randint(1, 3)):
            storm.blow()
        time.sleep(chance.uniform(0, 1.5))
        for kind, likely in CHANCES.items():
            if chance.random() < likely:
                deaths[kind.value] += strike(lab, kind, chance=chance)
        if chance.random() < 0.5:
            _kill(lab)
            deaths["daemon"] += 1
            lab.start()
        progress.tell(deaths)
    wrong = _over(lab, storm)
    progress.tell(deaths, storm.seen, _jobs(lab), is_last=True)
    return wrong


def _full(lab: labs.Running, *, seed: int, times: int) -> list[str]:
    chance = random.Random(seed)
    storm, done, progress = Storm(lab, chance), Counter[str](), _Progress("full disk")
    lab.stop()
    with small_disk.under(lab.where.lib, size=DISK):
        lab.start()
        try:
            while done["full"] < times:
                for _ in range(chance.randint(2, 5)):
                    storm.blow()
                time.sleep(chance.uniform(0, 1.5))
                _without_room(lab, storm, is_killed=chance.random() < 0.3)
                done["full"] += 1
                progress.tell(done)
            wrong = _over(lab, storm)
            progress.tell(done, storm.seen, _jobs(lab), is_last=True)
        finally:
            labs.down(lab)
    return wrong


def _without_room(lab: labs.Running, storm: Storm, *, is_killed: bool) -> None:
    """Let the storm blow while the disk is full, see that requests are refused, and that work goes on afterwards."""
    tag, folder = "/2/nodes/node1/tags?tag=room", lab.where.lib
    small_disk.fill(folder)
    storm.is_full = True
    for _ in range(4):
        storm.blow()
    for _ in range(small_disk.MOST_TRIES):
        # What is at work removes files too, and then there is room for one more request.
        small_disk.fill(folder)
        answer = lab.put(tag)
        if not answer.is_success:
            break
    assert answer.status_code == 507, f"with a full disk: {answer.status_code} {answer.text}"
    assert NO_ROOM in answer.json()["detail"], answer.text
    if is_killed:
        _kill(lab)
    small_disk.free(folder)
    storm.is_full = False
    lab.start()
    ended = states.job_ended(lab, lab.put(tag).json())
    assert ended["status"] == "success", f"with room again: {ended}"


def _kill(lab: labs.Running) -> None:
    assert processes.is_running(lab.lab, "daemon"), f"the daemon ended by itself\n{lab.told()}"
    lab.kill()


def _over(lab: labs.Running, storm: Storm) -> list[str]:
    storm.calm()
    verdict.rest(lab)
    verdict.start_what_is_down(lab)
    return verdict.wrong(lab)


def _jobs(lab: labs.Running) -> Counter[str]:
    return Counter(f"jobs {job['status']}" for job in lab.get("/1/jobs"))


class _Progress:
    """Lines about how far a storm has come."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = self._told = time.monotonic()

    def tell(self, *counts: Counter[str], is_last: bool = False) -> None:
        now = time.monotonic()
        if is_last or now - self._told > QUIET:
            self._told = now
            told = "; ".join(", ".join(f"{what} {count}" for what, count in sorted(one.items())) for one in counts)
            print(f"{self._name} {now - self._began:6.0f} s: {told}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--kills", type=int, default=100, help="how often the daemon is killed (default: 100)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
