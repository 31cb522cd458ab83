"""Two controllers of one cluster: both are started, stopped, frozen, killed and copied by chance, with work at both.

The second one is a copy of the state of the first, made at a random moment; so is each later one, which takes the place
of whichever does not lead. Users submit their work to whichever answers. The judge reads the folders of all of them.
"""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab import checker, journals, processes
from ansible_collections.roundsman.cluster.daemon.maintenance import leading
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_records

from tests.chaos import machines, verdict
from tests.chaos.doors import Doors
from tests.chaos.faults import Faults
from tests.chaos.machines import Machine, Seat
from tests.chaos.services import Services
from tests.chaos.storm import Storm
from tests.chaos.turns import Turn, Turns
from tests.chaos.victims import Pauses, Victim, Victims
from tests.chaos.watch import Watch
from tests.integration import labs

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.chronicle import Chronicle

DEAD_AFTER = 3
"""Questions of five seconds each."""
LIMIT = 300.0
"""Seconds within which one leads once nothing goes wrong any more, and within which all runs then."""
PATIENCE = 20.0
"""Seconds after which a person starts a controller where none is at work."""
WAITS = 45.0
"""Seconds after which a person says that nobody votes where a daemon waits, and the other one is not at work."""
TOGETHER = 90.0
"""Seconds for which two daemons may serve: the one that was replaced asks the nodes once in ten, and may be slow."""
BETWEEN, TRIES = (5.0, 40.0), 6
"""Seconds from one thing that is done to a controller to the next, and how often something else is tried then."""
COPIES = 45.0
"""Seconds from one copy to the next, at least."""
FRESH = 0.75
"""How often that is a copy as it was when the one that led was lost: nodes refuse one whose configuration is older."""
NO_VOTING = tuple(leading.NO_VOTING.split()[1:])
STARTS = ("start", f"start {' '.join(NO_VOTING)}")
DEEDS = (*STARTS, "leads", "stop", "kill", "freeze", "thaw", "copy", "exit status 11")
KILLS = {
    Victim.OPCODE: 6,
    Victim.SERVER: 2,
    Victim.GUARD: 2,
    Victim.BMCS: 1,
    Victim.AGENT: 2,
    Victim.POLL: 1,
    Victim.HAND: 2,
}
FREEZES = (5.0, 20.0, 45.0, 70.0)
SETTLE_STEP = 1.0


def expected() -> dict[str, set[str]]:
    """What a run with two controllers may make by chance, by the kinds that are counted."""
    return {"controllers": {*DEEDS}, "kills": {kind.value for kind in KILLS}, "refused": {"by a node"}}


class Contest:
    """Everything that goes wrong with two controllers of one lab, from one seed; `first` is the lab with one."""

    def __init__(self, first: labs.Running, chance: random.Random, chronicle: Chronicle) -> None:
        first.put("/2/modify", {"dead_after": DEAD_AFTER}).raise_for_status()
        first.stop()
        self._chance, self._chronicle = chance, chronicle
        self._turns = Turns()
        machine = Machine(first.where.root, number=0, chronicle=chronicle)
        self._machines = [machine]
        self._roots = [machine.root]
        self._led: Machine = machine
        self._is_listened = True
        self._seen: dict[int, tuple[int, int]] = {}
        self._copied = self._worked = time.monotonic()
        self._together_since, self._next_deed = 0.0, time.monotonic() + BETWEEN[1]
        self.wrong: list[str] = []
        # One is whose state the judge compares with; the other is whom users ask at this moment.
        self._office, self._asked = self._running(machine, first), self._running(machine, first)
        self._services = Services(first)
        self._doors = Doors(self._office, self._services, chance, chronicle, folder="by-hand-judge", is_copied=True)
        self._users = Doors(self._asked, self._services, chance, chronicle, is_copied=True)
        self._storm = Storm(self._asked, self._users, chance, chronicle)
        self._faults = Faults(self._office, chance, chronicle)
        others = {
            Victim.HAND: self._users.pids,
            Victim.AGENT: lambda: self._services.pids("agent"),
            Victim.BMCS: lambda: [pid for pid in (processes.find_pid(first.lab, "bmcs"),) if pid],
        }
        self._victims = Victims(self._asked, chance=chance, others=others)
        self._at_office = Victims(self._office, chance=chance, others=others)
        self._pauses: Pauses | None = Pauses()
        self._watch = Watch(self._office, self._doors, chronicle, stopped=set())
        machine.start()

    def _running(self, machine: Machine, first: labs.Running) -> labs.Running:
        return labs.Running(self._seat(machine, first.lab.folder), {})

    def _seat(self, machine: Machine, folder: Path) -> Seat:
        return Seat(folder, machine.root, tuple(self._roots))

    def _point(self, running: labs.Running, machine: Machine) -> None:
        running.lab, running.where = self._seat(machine, running.lab.folder), machine.where

    def go_on(self, seconds: float, *, stops_at_first: bool) -> None:
        """Let things happen for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (self.wrong and stops_at_first):
            self._tend()
            self._care()
            self._step()
            self._judge()
            self._chronicle.report()
            time.sleep(self._chance.uniform(0.05, 1.2))

    def _step(self) -> None:
        now, what = time.monotonic(), self._chance.random()
        if now >= self._next_deed:
            self._next_deed = now + self._chance.uniform(*BETWEEN)
            self._do_to_controllers()
        elif what < 0.60:
            self._work()
        elif what < 0.80:
            self._faults.strike()
        elif what < 0.93:
            self._kill_or_pause()

    def _do_to_controllers(self) -> None:
        deeds: tuple[Callable[[Machine], object], ...] = (
            *(self._copy, self._copy, self._start, self._start, *(self._hand_over,) * 5),
            *(self._stop, self._kill, self._freeze, self._freeze, self._force),
        )
        before = self._chronicle.total("controllers")
        if len(self._machines) == 1:
            self._make_copy()
        elif not any(each.is_up for each in self._present):
            self._start(self._led)
        # Most of it can be done to one of the two only, or to none at this moment.
        for _ in range(TRIES):
            if self._chronicle.total("controllers") == before:
                self._chance.choice(deeds)(self._chance.choice(self._present))

    @property
    def _present(self) -> list[Machine]:
        """The machines that are there; at most two."""
        return [each for each in self._machines if not each.is_retired]

    def _others(self, machine: Machine) -> list[Machine]:
        return [each for each in self._present if each is not machine]

    def _copy(self, _: Machine) -> None:
        """A person makes a copy."""
        if len(self._machines) == 1 or time.monotonic() - self._copied >= COPIES:
            self._make_copy()

    def _make_copy(self) -> None:
        """A copy of the one that leads, or did last; it takes the place of the other one."""
        for other in self._others(self._led):
            other.retire()
            self._chronicle.count("controllers", "retire", str(other))
        made = machines.copy(self._led, number=len(self._machines), known=self._turns, chronicle=self._chronicle)
        self._machines.append(made)
        self._roots.append(made.root)
        self._copied = time.monotonic()
        self._see_turns()
        self._point(self._office, self._led)

    def _start(self, machine: Machine) -> None:
        down = [each for each in self._present if not each.is_up]
        if down:
            (machine if machine in down else self._chance.choice(down)).start()

    def _force(self, machine: Machine) -> None:
        """A person says that nobody votes, for the other one does not answer."""
        if not machine.is_up and not any(each.serves for each in self._others(machine)):
            machine.start(*NO_VOTING)

    def _stop(self, machine: Machine) -> None:
        machine.end(signal.SIGTERM)

    def _kill(self, machine: Machine) -> None:
        machine.end(signal.SIGKILL)

    def _freeze(self, machine: Machine) -> None:
        if not machine.is_frozen:
            machine.freeze(self._chance.choice(FREEZES))

    def _hand_over(self, _: Machine) -> None:
        """The one that leads is lost in some way, and a person starts the other one, or a copy of its disk, at once."""
        if not self._led.serves:
            return
        how = self._chance.choice((self._stop, self._kill, self._freeze, self._freeze))
        how(self._led)
        if self._chance.random() < FRESH:
            self._make_copy()
        others = [each for each in self._others(self._led) if not each.is_up]
        # Only a stop says to the nodes that it ends.
        if others:
            others[0].start(*(() if how == self._stop or self._chance.random() < 0.3 else NO_VOTING))

    def _care(self) -> None:
        """A person sees to it that one of the two is at work."""
        now = time.monotonic()
        if any(each.serves for each in self._present):
            self._worked = now
            return
        for each in self._present:
            is_alone = not any(other.is_up for other in self._others(each))
            if each.is_up and not each.is_frozen and each.seconds_up > WAITS and is_alone:
                self._chronicle.note(f"{each} waits: {each.last_lines(1)}")
                each.end(signal.SIGKILL)
                each.start(*NO_VOTING)
        if now - self._worked > PATIENCE:
            self._worked = now
            self._start(max(self._present, key=lambda each: each.serial))

    def _work(self) -> None:
        """A user asks whichever answers."""
        serving = [each for each in self._present if each.serves]
        if serving:
            self._ask(self._chance.choice(serving))
            self._storm.blow()

    def _ask(self, machine: Machine) -> None:
        self._point(self._asked, machine)
        self._users.kinds = ("socket", "rapi") if machine.number == 0 else ("socket",)

    def _kill_or_pause(self) -> None:
        self._point(self._asked, self._chance.choice(self._present))
        kind = self._chance.choices(list(KILLS), weights=list(KILLS.values()))[0]
        if self._chance.random() < 0.6:
            if pid := self._victims.kill(kind):
                self._chronicle.count("kills", kind.value, str(pid))
        elif self._pauses is not None:
            seconds = self._chance.choice((3, 8, 20, 45))
            if self._victims.pause(kind, self._pauses, seconds=seconds):
                self._chronicle.count("stops", kind.value, f"for {seconds:g} s")

    def _tend(self) -> None:
        self._services.tend()
        self._users.tend()
        self._doors.tend()
        self._faults.tend()
        now = time.monotonic()
        for each in self._present:
            if each.is_frozen and now >= each.frozen_until:
                each.thaw()
                self._tempt(each)
            self._report(each.tend())
        self._see_turns()
        leader = machines.leader(self._present)
        if leader is not None and leader is not self._led:
            self._led = leader
            self._point(self._office, leader)
            self._watch.forget_strays()
        is_listened = leader is not None
        if is_listened != self._is_listened:
            self._is_listened = is_listened
            self._office.lab.note_controller("leaderless", is_deaf=not is_listened)

    def _tempt(self, machine: Machine) -> None:
        """A user asks one for a move that has just come back, and does not know that another one leads."""
        if machine.is_ready and any(each.serves for each in self._others(machine)):
            self._ask(machine)
            name = self._chance.choice(sorted(instance.name for instance in self._asked.cluster().instances.values()))
            self._chronicle.count("controllers", "asked after a takeover", f"{machine}: {name}")
            self._users.ask("migrate", "PUT", f"/2/instances/{name}/migrate", {}, door="socket")

    def _see_turns(self) -> None:
        """Note each epoch in which one leads; it acted in it not before it was looked at last."""
        for each in self._present:
            number, now = each.epoch, time.monotonic_ns()
            before, looked = self._seen.get(each.number, (0, 0))
            if number and number != before:
                self._turns.turns.append(Turn(number, each.number, looked))
                self._chronicle.note(f"epoch {number}: {each}")
            self._seen[each.number] = number, now

    def _judge(self) -> None:
        self._watch.look(is_answered=self._led.serves)
        self._report(self._watch.wrong)
        serving = [each for each in self._present if each.serves]
        now = time.monotonic()
        if len(serving) < 2:
            self._together_since = now
        elif now - self._together_since > TOGETHER:
            self._together_since = now
            named = ", ".join(f"{each} in epoch {each.epoch}" for each in serving)
            self._report([f"two controllers have served for {TOGETHER:g} s: {named}"])

    def _report(self, sentences: list[str]) -> None:
        for sentence in sentences:
            if sentence not in self.wrong:
                self.wrong.append(sentence)
                if sentence not in self._watch.wrong:
                    self._chronicle.note(f"VIOLATION: {sentence}")
                    print(f"{self._chronicle.seconds:6.0f} s: violation: {sentence}", flush=True)

    def settle(self) -> list[str]:
        """Leave one controller, repair everything, and wait until all is at rest; returns what is wrong then."""
        self._chronicle.note("everything is repaired")
        self._resume()
        self._faults.end_all()
        self._users.end()
        if not self._leave_one():
            return [*self.wrong, f"no controller has led for {LIMIT:g} s: {self._led.last_lines(2)}"]
        self._ask(self._led)
        self._storm.calm()
        self._users.ask("dead after", "PUT", "/2/modify", {"dead_after": 22}, door="socket")
        settling = verdict.Settling(self._office, self._doors, self._chronicle, tend=self._keep_up, seconds=LIMIT)
        unsettled = settling.settle()
        self._watch.look(is_due=True)
        self._report(self._watch.wrong)
        self._turns.find_owners(self._roots)
        self._report(self._turns.overtaken(journals.read(self._office.lab)))
        self._count_refusals()
        return [*self.wrong, *unsettled, *verdict.wrong(self._office, self._at_office), *self._defects()]

    def _defects(self) -> list[str]:
        return [*self._doors.defects, *self._users.defects]

    def _leave_one(self) -> bool:
        """A person leaves the one that leads, or that knows most, and stops the other for good."""
        end, is_told = time.monotonic() + LIMIT, False
        stays = machines.leader(self._present) or max(self._present, key=lambda each: (each.serial, each.epoch))
        while time.monotonic() < end:
            self._tend()
            for other in self._others(stays):
                if other.is_up:
                    other.end(signal.SIGTERM)
            if stays.serves and not any(other.is_up for other in self._others(stays)):
                self._chronicle.note(f"{stays} stays, in epoch {stays.epoch}")
                return True
            if not stays.is_up:
                last = stays.last_lines(1)
                if "newer configuration" in last and not is_told and self._others(stays):
                    stays, is_told = self._others(stays)[0], True
                stays.start(*(() if time.monotonic() < end - LIMIT / 2 else NO_VOTING))
            time.sleep(SETTLE_STEP)
        return False

    def _keep_up(self) -> None:
        """Tend, and start the one that stays where it has ended, as systemd does."""
        self._tend()
        if not self._led.is_up:
            self._led.start()

    def _count_refusals(self) -> None:
        """Count the opcodes that failed because a node follows another controller, by all queues.

        A run that ended when its daemon did not work any more left only its result.
        """
        refused = {}
        for job in checker.jobs(self._office.lab).values():
            for index, opcode in enumerate(job.opcodes):
                if epochs.is_refusal(opcode.text):
                    refused[f"{job.id}/{index}"] = opcode.text
                elif "another controller led before" in opcode.text:
                    self._chronicle.count("refused", "by the barrier", f"{job.id}/{index}: {opcode.text}")
        for root in self._roots:
            for path in tree.Tree(root).queue.rglob(run_records.RESULT):
                if epochs.is_refusal(text := path.read_text(errors="replace")):
                    refused.setdefault("/".join(path.parent.parts[-2:]), text[-300:])
        for name, text in sorted(refused.items()):
            self._chronicle.count("refused", "by a node", f"{name}: {text}")

    def _resume(self) -> None:
        for each in self._present:
            each.thaw()
        if self._pauses is not None:
            self._pauses.end()
            self._pauses = None

    def seconds_of_opcodes(self) -> list[float]:
        """How long each opcode took that succeeded."""
        return verdict.seconds_of_opcodes(self._office)

    def end(self) -> None:
        """End all processes but those of the lab itself."""
        self._resume()
        self._users.end()
        self._doors.end()
        self._services.stop()
        for each in self._present:
            with contextlib.suppress(OSError):
                each.end(signal.SIGTERM)
        for each in self._present:
            each.retire()
