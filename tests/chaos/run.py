"""The chaos test as a program (`make chaos`): a lab whose world, processes, files and users all go wrong by chance.

Everything comes from one seed; what the machine does in the same millisecond does not. At the end everything is
repaired, what is down is started, all has to settle, and the nodes' journals have to prove that nothing was lost or
done twice. Exit status 1 on violations; the lab and `chaos.log` are kept then. Exit status 3 where there are none and
the machine was too slow to prove anything. At the end it says which faults, kills, stops and scenes never came.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree

from tests.chaos import contest, small_disk, trees, verdict, victims
from tests.chaos.assaults import Assaults
from tests.chaos.caretaker import Caretaker
from tests.chaos.chronicle import Chronicle
from tests.chaos.doors import Doors
from tests.chaos.emergency import Emergency
from tests.chaos.faults import Faults
from tests.chaos.mutants import known
from tests.chaos.mutants.mutant import ROOT
from tests.chaos.services import Services, start_daemon
from tests.chaos.speed import Speed
from tests.chaos.stage import Stage
from tests.chaos.storm import Storm
from tests.chaos.victims import Victim, Victims
from tests.chaos.watch import Watch
from tests.integration import labs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

NODES, INSTANCES = 7, 12
DISK = "320m"
MIGRATION_SECONDS = 0.5
DEAD_AFTER, DEAD_AFTER_IN_STORMS = 22, 3
"""Questions of five seconds each. In a storm a dead node is fenced and emptied. A node that is silent for a scene, with
the failover in it, is not: that takes a dozen opcodes, and no scene can be played meanwhile."""
PLAY_SECONDS, STORM_SECONDS = (110.0, 160.0), (30.0, 50.0)
"""For how long scenes are played, with little else, and for how long everything goes wrong by chance."""
DEAD_SECONDS = (80.0, 110.0)
"""For how long the node is dead that each storm has, and the storm lasts then: it is fenced, and its instances run
elsewhere."""
EMERGENCY_EVERY = 8
"""After the third of so many times that scenes were played there is an emergency power off: once in half an hour."""
FIRST_EMERGENCY = 3
TICK = 0.5
LAST = 40
"""Lines of `chaos.log` that are printed with a violation."""
BYSTANDERS = (Victim.OPCODE, Victim.SERVER, Victim.BMCS, Victim.AGENT, Victim.RAPI)
"""Whoever is killed or stopped while scenes are played."""
TREE = "ROUNDSMAN_CHAOS_FOLDER"
SLOW, TOO_SLOW = "slow", 3
"""The file that says why the machine was too slow, and the exit status of a run that proves nothing for that."""


def main() -> int:
    """Run from a tree of its own, and say what is wrong afterwards."""
    options = _options()
    folder = os.environ.get(TREE)
    if folder is None:
        return _run_in_own_tree(options)
    # However it is ended, its labs are.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    try:
        wrong = _chaos(Path(folder), options)
    except _Interrupted as interruption:
        print(f"{interruption}: nothing is proven (seed {options.seed})", flush=True)
        return 128 + interruption.number
    except (AssertionError, httpx.HTTPError, OSError, errors.RoundsmanError) as error:
        _tell(Path(folder), [f"{type(error).__name__}: {error}"], options)
        raise
    _tell(Path(folder), wrong, options)
    return 1 if wrong else TOO_SLOW if (Path(folder) / SLOW).exists() else 0


class _Interrupted(BaseException):
    """A signal asked for the end before there is a verdict."""

    def __init__(self, number: int) -> None:
        super().__init__(f"it was interrupted by {signal.Signals(number).name}")
        self.number = number


def _interrupt(number: int, _frame: object) -> None:
    # While its labs are brought down nothing disturbs.
    for other in (signal.SIGTERM, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    raise _Interrupted(number)


def _tell(folder: Path, wrong: list[str], options: argparse.Namespace) -> None:
    slow = (folder / SLOW).read_text() if (folder / SLOW).exists() else ""
    outcome = f"{len(wrong)} violations" if wrong else slow or "nothing was lost, nothing was done twice"
    if wrong and slow:
        outcome += f"; {slow}"
    print("\n".join([*wrong, f"{outcome} (seed {options.seed})"]), flush=True)
    (folder / "wrong").write_text("\n".join(wrong))


def _run_in_own_tree(options: argparse.Namespace) -> int:
    """Start this program once more, with a copy of the collection; the folder is kept when something is wrong."""
    # A socket's name has a limit.
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=options.dir))
    mutant = known.find(options.mutant) if options.mutant else None
    path = trees.make(folder / "tree", mutant=mutant, has_two=options.controllers > 1)
    environment = {**os.environ, TREE: str(folder), "PYTHONPATH": f"{path}:{ROOT}"}
    child = subprocess.Popen([sys.executable, "-m", "tests.chaos.run", *sys.argv[1:]], env=environment)
    # It brings its lab down; the terminal may have told it already.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    code = child.wait()
    _clean_up(folder)
    if code == 0 and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"the lab, its logs and chaos.log are kept in {folder}", flush=True)
    return code


def _clean_up(folder: Path) -> None:
    """End what is left of a lab whose program was killed, and take its small disk away."""
    for pid in victims.naming(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    lib = tree.Tree(folder / "lab/controller").lib
    if lib.is_mount():
        subprocess.run(["umount", "--lazy", str(lib)], check=False)


def _chaos(folder: Path, options: argparse.Namespace) -> list[str]:
    chronicle = Chronicle(folder / "chaos.log")
    chronicle.note(f"seed {options.seed}, {options.minutes} minutes, mutant {options.mutant or 'none'}")
    print(f"seed {options.seed}, lab {folder}", flush=True)
    if options.controllers > 1:
        return _contest(folder, options, chronicle)
    with ExitStack() as stack:
        stack.callback(chronicle.close)
        lab = _up(folder / "lab", has_agents=options.seed % 3 != 0)
        stack.callback(labs.down, lab)
        if reason := small_disk.why_not():
            print(f"no full disk: none can be mounted here: {reason}", flush=True)
        else:
            lab.stop()
            stack.enter_context(small_disk.under(lab.where.lib, size=DISK))
            stack.callback(labs.down, lab)
            lab.start()
        chance = random.Random(options.seed)
        chaos = Chaos(lab, chance, chronicle, has_small_disk=not reason, scene=options.scene)
        stack.callback(chaos.end)
        expected = verdict.expected(has_agents=bool(lab.lab.agent_port))
        worked = functools.partial(verdict.seconds_of_opcodes, lab)
        return _play(folder, chaos, options, chronicle, expected=expected, worked=worked)


def _play(
    folder: Path,
    chaos: Chaos | contest.Contest,
    options: argparse.Namespace,
    chronicle: Chronicle,
    *,
    expected: Mapping[str, Iterable[str]],
    worked: Callable[[], list[float]],
) -> list[str]:
    """Carry it out, print what came of it, and return what is wrong; `worked` are the seconds of all opcodes."""
    speed = Speed()
    try:
        chaos.go_on(60 * options.minutes, stops_at_first=options.stop_at_first)
        wrong = chaos.wrong
        if not (wrong and options.stop_at_first):
            wrong = [*wrong, *chaos.settle()]
        chronicle.report(is_last=True)
        print(chronicle.summary(), flush=True)
        print(chronicle.missing(expected), flush=True)
        if problem := speed.problem(worked()):
            (folder / SLOW).write_text(problem)
        if wrong:
            print(f"the last events:\n{chronicle.last(LAST)}", flush=True)
    finally:
        speed.end()
    return list(dict.fromkeys(wrong))


def _contest(folder: Path, options: argparse.Namespace, chronicle: Chronicle) -> list[str]:
    """The same with two controllers; the nodes have agents, which vote."""
    with ExitStack() as stack:
        stack.callback(chronicle.close)
        lab = _up(folder / "lab", has_agents=True)
        stack.callback(labs.down, lab)
        chaos = contest.Contest(lab, random.Random(options.seed), chronicle)
        stack.callback(chaos.end)
        expected, worked = contest.expected(), chaos.seconds_of_opcodes
        return _play(folder, chaos, options, chronicle, expected=expected, worked=worked)


def _up(folder: Path, *, has_agents: bool) -> labs.Running:
    """A lab whose nodes are polled by their agents, or by runs of `diagnose.yml`."""
    settings = {
        "diagnose_interval": 2.0,
        "round_interval": 3.0,
        "dead_after": DEAD_AFTER,
        "dead_node_policy": "fence",
        "power_off_evacuated": True,
        "storm_fraction": 0.5,
    }
    folder.parent.mkdir(exist_ok=True)
    lab = labs.up(
        folder,
        nodes=NODES,
        instances=INSTANCES,
        settings=settings,
        migration_seconds=MIGRATION_SECONDS,
        agents=has_agents,
        edit=_edited,
    )
    # Archived jobs are a case of their own. It is read when the daemon starts.
    known_settings = json.loads(lab.where.daemon_settings.read_text())
    lab.where.daemon_settings.write_text(json.dumps({**known_settings, "archive_after": 120}))
    return lab


def _edited(cluster: clusters.Cluster) -> clusters.Cluster:
    """Guests that are not waited for long when they stop."""
    instances = {
        uuid: dataclasses.replace(one, hvparams={**one.hvparams, "shutdown_timeout": "5"})
        for uuid, one in cluster.instances.items()
    }
    return dataclasses.replace(cluster, instances=instances)


class Chaos:
    """Everything that goes wrong in one lab, from one seed."""

    def __init__(
        self,
        lab: labs.Running,
        chance: random.Random,
        chronicle: Chronicle,
        *,
        has_small_disk: bool,
        scene: str = "",
    ) -> None:
        self._lab, self._chance, self._chronicle = lab, chance, chronicle
        self._has_small_disk = has_small_disk
        self._services = Services(lab)
        self._services.tend()
        self._doors = Doors(lab, self._services, chance, chronicle)
        self._faults = Faults(lab, chance, chronicle)
        self._storm = Storm(lab, self._doors, chance, chronicle)
        self._stage = Stage(lab, self._doors, self._faults, chance, chronicle, only=scene)
        self._caretaker = Caretaker(lab, self._doors, self._faults)
        self._is_storm, self._changes = True, 0.0
        others = {
            Victim.HAND: self._doors.pids,
            Victim.AGENT: lambda: self._services.pids("agent"),
            Victim.RAPI: lambda: self._services.pids("rapi"),
            Victim.BMCS: lambda: [pid for pid in (processes.find_pid(lab.lab, "bmcs"),) if pid],
        }
        self._victims = Victims(lab, chance=chance, others=others)
        self._assaults = Assaults(lab, self._doors, self._victims, chance, chronicle)
        self._emergency = Emergency(lab, self._doors, self._assaults, chance, chronicle)
        self._agenda: list[Callable[[], bool]] = []
        self._watch = Watch(lab, self._doors, chronicle, stopped=self._assaults.stopped)

    @property
    def wrong(self) -> list[str]:
        """The violations that were seen."""
        return [*self._watch.wrong, *self._emergency.wrong]

    def go_on(self, seconds: float, *, stops_at_first: bool) -> None:
        """Let things happen for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (self.wrong and stops_at_first):
            if time.monotonic() >= self._changes and not self._emergency.is_on:
                self._change()
            self._tend()
            if self._emergency.is_on:
                self._emergency.tend()
                # The storm that follows has its time.
                self._changes = max(self._changes, time.monotonic() + STORM_SECONDS[0])
            elif self._is_storm:
                self._step()
            else:
                self._play()
            self._watch.look(is_answered=not self._assaults.is_daemon_stopped)
            self._chronicle.report()
            time.sleep(self._chance.uniform(0.05, 1.2))

    def settle(self) -> list[str]:
        """Repair everything, bring everything back, wait until all is at rest; returns what is wrong then."""
        self._chronicle.note("everything is repaired")
        self._assaults.resume()
        self._stage.end()
        self._faults.end_all()
        start_daemon(self._lab)
        while self._emergency.is_on:
            self._tend()
            self._emergency.tend()
            time.sleep(TICK)
        self._doors.end()
        self._storm.calm()
        settling = verdict.Settling(self._lab, self._doors, self._chronicle, tend=self._tend)
        unsettled = settling.settle()
        self._watch.look(is_due=True)
        return [*self.wrong, *unsettled, *verdict.wrong(self._lab, self._victims), *self._doors.defects]

    def end(self) -> None:
        """End all processes but those of the lab itself."""
        self._assaults.resume()
        self._doors.end()
        self._services.stop()

    def _tend(self) -> None:
        self._services.tend()
        self._doors.tend()
        self._faults.tend()
        self._stage.tend()
        if not processes.is_running(self._lab.lab, "daemon"):
            self._watch.wrong.append(f"the daemon ended by itself: {self._lab.told()[-1000:]}")
            start_daemon(self._lab)

    def _change(self) -> None:
        """From a storm to scenes, which begin with a lab that is repaired, or back once no scene is played.

        Now and then there is an emergency power off between the two.
        """
        if not self._is_storm and not self._stage.is_empty:
            return
        self._is_storm = not self._is_storm
        if self._is_storm and self._chronicle.counts["phases"]["scenes"] % EMERGENCY_EVERY == FIRST_EMERGENCY:
            self._chronicle.count("phases", "emergency")
            self._emergency.begin()
        self._changes = time.monotonic() + self._chance.uniform(*(STORM_SECONDS if self._is_storm else PLAY_SECONDS))
        if self._lab.lab.agent_port:  # without agents nobody takes a node for dead
            self._storm.take_for_dead_after(DEAD_AFTER_IN_STORMS if self._is_storm else DEAD_AFTER)
        if self._is_storm:
            self._chronicle.count("phases", "storm")
            # Not both: a crash ends what is stopped.
            is_odd = self._chronicle.counts["phases"]["storm"] % 2
            self._agenda = [self._assaults.pause_beyond_limit if is_odd else self._crash, self._die]
            return
        self._chronicle.count("phases", "scenes")
        self._faults.end_all()
        self._storm.calm()

    def _die(self) -> bool:
        """A node dies for so long that it is fenced, and its instances run elsewhere, if a node may be away."""
        seconds = self._chance.uniform(*DEAD_SECONDS)
        if not self._faults.lose_a_node(seconds=(seconds, seconds)):
            return False
        self._changes = max(self._changes, time.monotonic() + seconds)
        return True

    def _crash(self) -> bool:
        """The controller and a node lose their power by one cause, if a node may be away."""
        if name := self._faults.lose_a_node():
            self._chronicle.count("faults", "controller with a node", name)
        return self._assaults.crash()

    def _play(self) -> None:
        """Scenes, and now and then something else."""
        self._caretaker.tend()
        if time.monotonic() < self._changes:
            self._stage.begin()
        what = self._chance.random()
        if what < 0.03:
            self._storm.breathe()
        elif what < 0.045:
            self._assaults.kill(self._chance.choice(BYSTANDERS))
        elif what < 0.055:
            self._assaults.pause(self._chance.choice(BYSTANDERS), seconds=3)

    def _step(self) -> None:
        what = self._chance.random()
        if self._assaults.is_daemon_stopped:
            # Nobody answers: only the world goes on.
            self._faults.strike()
        elif what < 0.45:
            self._storm.blow()
        elif what < 0.80:
            self._faults.strike()
        elif what < 0.90 and self._agenda:
            # What each storm has once comes before what chance chooses.
            if self._agenda[-1]():
                self._agenda.pop()
        elif what < 0.90:
            self._assaults.kill(self._assaults.any())
        elif what < 0.97:
            self._assaults.pause(self._assaults.any(), seconds=self._chance.choice((3, 8, 20, 45)))
        elif self._has_small_disk:
            self._assaults.fill_disk(self._storm.blow)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30, help="how long things go wrong (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="where everything comes from (default: 1)")
    parser.add_argument("--mutant", default="", help="run an unsafe form of one rule, which has to be found")
    parser.add_argument("--scene", default="", help="play only this scene, such as 'split brain' (default: all)")
    parser.add_argument(
        "--controllers",
        type=int,
        choices=(1, 2),
        default=1,
        help="how many controllers the lab has; the second is a copy of the first (default: 1)",
    )
    parser.add_argument("--stop-at-first", action="store_true", help="end at the first violation")
    parser.add_argument("--keep", action="store_true", help="keep the lab even if nothing is wrong")
    parser.add_argument("--dir", default=None, help="where the lab is made (default: the system's temporary folder)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
