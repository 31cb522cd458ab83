"""The simulated hypervisor of the lab: it starts, stops and hands over the guests of its node.

A live migration takes the instance's hypervisor parameter `migration_seconds`, then moves the guest's file to the other
node in one step; a soft stop takes `shutdown_seconds`. A migration that was interrupted leaves a note until the node
boots: meanwhile its instance is neither started here, nor taken for stopped, by the rules of the driver `kvm`.
Faults are in `simulated_node`. `recover` completes the journal after a step that was killed before its entry.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from ....plugins.module_utils.domain.values import errors
from ....plugins.module_utils.domain.values import hvparams as parameters
from ....plugins.module_utils.hypervisor import kvm_migration
from ....plugins.module_utils.hypervisor.kvm_migration import Where
from . import node_journal, simulated_guests, simulated_node, simulated_world

RUNNING = simulated_guests.RUNNING
JOURNAL = node_journal.JOURNAL
MIGRATING = "var/lib/roundsman/fake/migrating"
append = node_journal.append
PAUSED = "var/lib/roundsman/fake/paused"
ARRIVALS, DEPARTURES = simulated_guests.ARRIVALS, simulated_guests.DEPARTURES
WRITES_PER_SECOND = simulated_world.WRITES_PER_SECOND
"""How often an instance that has disks writes its counter to them."""
PHASES = ("before", "during", "after", "paused", "lost")
"""Where a migration can be made to fail: before anything moved; in mid copy; after the hand-over, when the instance
runs on the target; in the hand-over, where the target runs the guest and reboots, and the source stays paused; after
it, where the guest dies on the target."""


class Driver(simulated_guests.Guests):
    """The fake hypervisor of the node with this root; `opcode` is written beside every event.

    A driver belongs to the boot of its node in which it was made: after another boot it changes nothing any more.
    """

    @property
    def progress(self) -> Mapping[str, float]:
        """Nothing: a simulated migration has no memory to copy."""
        return {}

    def states(self) -> Dict[str, str]:
        """Of every instance that is here its state in plain words."""
        paused = dict.fromkeys(simulated_guests.names(self._root / PAUSED), "paused in migration")
        return {**paused, **dict.fromkeys(self.running(), "running")}

    def migrations(self) -> Dict[str, Dict[str, Any]]:
        """The migrations that were begun and have no known end."""
        return {name: {} for name in simulated_guests.names(self._root / MIGRATING)}

    def start(self, name: str, facts: Mapping[str, Any], *, runs_nowhere: bool = False) -> bool:
        """Start an instance on the `devices` of its facts; returns whether it was not running yet.

        With `runs_nowhere` it is known that no other node runs it, though the target of a migration that was
        interrupted does not answer.

        Raises:
            Failed: the node has no such hypervisor or no power, a device cannot be written, the instance is here and
                paused, or a migration that was interrupted took it to another node, where it runs or may run.
        """
        told, path = self._settled(name), self._path(name)
        if told is not None and not kvm_migration.may_start(told[0], runs_nowhere=runs_nowhere):
            lost = f"; if the target is off and will stay off, run `rm {self._intent(name)}`, then retry"
            raise errors.Failed(f"{name} was not started: {told[1]}{lost if told[0] is Where.UNANSWERED else ''}")
        with self._alive():
            if path.exists():
                return False
            if not path.parent.is_dir():
                raise errors.Failed(f"this node has no fake hypervisor at {path.parent}")
            counter = self._start_writing(name, facts)
            with path.open("x") as stream:
                json.dump(dict(facts), stream)
            self._note(name, "started", counter=counter)
        self._intent(name).unlink(missing_ok=True)
        return True

    def stop(self, name: str, *, time_limit: float, only_here: bool = False) -> bool:
        """Stop an instance softly, and hard after `time_limit` seconds; returns whether it was here.

        With `only_here` it only must not be here, in no state, and whoever starts it looks for it on both nodes of a
        migration that was interrupted.

        Raises:
            Failed: the node has no power, the instance is paused in migration, or a migration that was interrupted took
                it to another node, where it runs or may run.
        """
        told, paused = self._settled(name), self._root / PAUSED / f"{name}.json"
        is_left = told is not None and told[0] is not Where.NOT_THERE and not self._path(name).exists()
        if told is not None and is_left and not only_here:
            raise errors.Failed(f"{name} was not stopped: {told[1]}")
        if paused.exists():
            with self._alive():
                paused.unlink()
                self._note(name, "paused removed")
            return True
        if not self._path(name).exists():
            return False
        why = "stop" if time_limit > 0 and self._ends_softly(name, time_limit=time_limit) else "destroy"
        self.end(name, why=why)
        return True

    def die(self, *, why: str) -> None:
        """End everything here together with the node; nobody else may change its power meanwhile."""
        for name in sorted({*self.running(), *self.migrations()}):
            self.recover(name)
        counters = simulated_world.lose_power(self._root) if self._has_disks() else {}
        for name in self.running():
            self._path(name).unlink()
            self._note(name, "stopped", why=why, counter=counters.get(name))
        for name in simulated_guests.names(self._root / PAUSED):
            (self._root / PAUSED / f"{name}.json").unlink()
            self._note(name, "paused removed")
        for name in self.migrations():
            self._intent(name).unlink()

    def migrate(
        self, name: str, target: str, *, hvparams: Mapping[str, str], target_lacks: kvm_migration.TargetLacks
    ) -> bool:
        """Hand a running instance over to the node whose wire is the folder `target`.

        Returns whether it was here; when it runs there already, nothing is done.

        Raises:
            Failed: it runs on neither node, the other node does not answer, or the migration breaks off.
        """
        there = Path(target) / RUNNING / f"{name}.json"
        if not self._path(name).exists():
            if (self._root / PAUSED / there.name).exists():
                raise errors.Failed(f"{name} is paused in migration here: only what runs is migrated live")
            if there.exists():
                self._intent(name).unlink(missing_ok=True)
                return False
            raise errors.Failed(f"{name} does not run here, nor on the target")
        fails = simulated_node.fault(self._root, simulated_node.MIGRATION)
        if not there.parent.is_dir() or fails == "before":
            raise errors.Failed("the target node does not answer")
        if there.exists():
            raise errors.Failed(f"{name} runs on the target already: it must be stopped on one of the two")
        intent, root = self._intent(name), Path(target).resolve()
        begun = {"target": target, "opcode": self._opcode, "boot": simulated_node.boot_id(root)}
        intent.parent.mkdir(exist_ok=True)
        intent.write_text(json.dumps(begun))
        why = self._copy_memory(hvparams, target_lacks)
        if why or fails == "during":
            intent.unlink()
            raise errors.Failed(f"the migration of {name} broke off: {why or 'Input/output error'}; it still runs here")
        try:
            self._hand_over(name, there, root, begun, pauses=fails == "paused")
        except errors.Failed:
            intent.unlink(missing_ok=True)
            raise
        if fails == "paused":
            reboot(root, by="a migration that failed")
            raise errors.Failed(f"{name} was not migrated: the target's connection broke; it is paused here")
        if fails != "after":
            intent.unlink()
        self._break_end(name, root, fails)
        return True

    def _break_end(self, name: str, root: Path, fails: str) -> None:
        """Let what follows a hand-over fail: the guest ends on the target, or nobody hears that it runs there."""
        if fails == "lost":
            Driver(root, opcode=self._opcode).end(name, why="crash")
            raise errors.Failed(f"{name} was not migrated: the guest ended in the hand-over, and runs on neither node")
        if fails == "after":
            raise errors.Failed(f"{name} was not migrated: the connection broke before its end was confirmed")

    def _copy_memory(self, hvparams: Mapping[str, str], target_lacks: kvm_migration.TargetLacks) -> str:
        """Let the time of a migration pass; returns why it broke off, '' when it did not."""
        seconds, limit = float(hvparams.get("migration_seconds", "0")), parameters.kvm(hvparams).migration_limit
        watch, ends = kvm_migration.Watch(limit, target_lacks), time.monotonic() + seconds
        while True:
            time.sleep(min(max(0.0, ends - time.monotonic()), kvm_migration.PAUSE))
            if watch.is_to_end() or time.monotonic() >= ends:
                return watch.why

    def _hand_over(self, name: str, there: Path, root: Path, begun: Mapping[str, str], *, pauses: bool) -> None:
        paused = self._root / PAUSED / there.name
        with self._alive(), contextlib.ExitStack() as held:
            try:
                held.enter_context(simulated_node.alive(root, boot=begun["boot"]))
                if pauses:
                    paused.parent.mkdir(exist_ok=True)
                    paused.write_bytes(self._path(name).read_bytes())
                self._path(name).rename(there)
                counter = self._hand_over_disks(name, root)
            except (OSError, errors.Failed) as error:
                if not self._path(name).exists():
                    there.rename(self._path(name))
                paused.unlink(missing_ok=True)
                why = error.strerror if isinstance(error, OSError) else error
                raise errors.Failed(f"the migration of {name} broke off: {why}; it still runs here") from error
            self._note(name, "handed over", counter=counter)
            node_journal.append(root, self._entry(name, "received", counter=counter))

    def recover(self, name: str) -> str:
        """Write into the journals what a step that was killed had done to an instance; nobody else may work on it.

        Returns what a person has to know, "" where the journals say it all.
        """
        told = self._settled(name)
        if told is not None and told[0] is Where.THERE:
            self._intent(name).unlink(missing_ok=True)
        is_here, last = self._path(name).exists(), self._last(self._root, name)
        # Where it does not run its disks are closed, whatever a killed step had opened them for.
        counter = self._acknowledged(name) if is_here else self._stop_writing(name)
        if is_here and last not in ARRIVALS:
            self._note(name, "started", counter=counter)
        elif not is_here and last in ARRIVALS:
            self._note(name, "stopped", why="stop", counter=counter)
        return "" if told is None or told[0] in {Where.THERE, Where.NOT_THERE} else f"{name}: {told[1]}"

    def _settled(self, name: str) -> Optional[Tuple[Where, str]]:
        """Put in order what a migration left that was interrupted; None if there was none.

        A paused instance goes on only where its target is in the boot in which the migration began, and has not got it.
        """
        intent = self._intent(name)
        if (self._root / PAUSED / intent.name).exists():
            told = self._settled_paused(name, intent)
        elif intent.exists():
            told = self._settled_migration(name, intent)
        else:
            return None
        if told[0] is Where.NOT_THERE:
            intent.unlink(missing_ok=True)
        return told

    def _settled_migration(self, name: str, intent: Path) -> Tuple[Where, str]:
        begun = simulated_guests.read(intent)
        if begun is None:  # it was killed while it wrote down what it was about to do, and had done nothing
            return Where.NOT_THERE, "its migration was not begun"
        self._enter_hand_over(name, begun)
        target = Path(begun["target"])
        if self._path(name).exists():
            return Where.NOT_THERE, "it is running here"
        if not target.exists():
            return Where.UNANSWERED, "it is not here, and the target does not answer: it may run there"
        if (target / RUNNING / intent.name).exists():
            return Where.THERE, "it is running on the target, and not here"
        return Where.NOT_THERE, "it is neither here nor on the target"

    def _enter_hand_over(self, name: str, begun: Mapping[str, str]) -> None:
        """Put into both journals a hand-over that took place."""
        target = Path(begun["target"])
        if self._path(name).exists():
            return
        is_there = (target / RUNNING / f"{name}.json").exists()
        counter = self._hand_over_disks(name, target.resolve()) if is_there else None
        if is_there and counter is None and self._has_disks():  # they had been handed over before it was killed
            counter = simulated_world.acknowledged(target.resolve(), name)
        for root, event, is_new in (
            (self._root, "handed over", self._last(self._root, name) in ARRIVALS),
            (target, "received", is_there and self._last(target, name) not in ARRIVALS),
        ):
            if is_new:
                node_journal.append(root, {**self._entry(name, event, counter=counter), "opcode": begun["opcode"]})

    def _settled_paused(self, name: str, intent: Path) -> Tuple[Where, str]:
        begun, paused = simulated_guests.read(intent), self._root / PAUSED / intent.name
        end = f"; to end it, run `rm {paused}`"
        if begun is None:
            return Where.UNSURE, f"it is paused in migration here, and it is not known whether it ran elsewhere{end}"
        self._enter_hand_over(name, begun)
        target = Path(begun["target"])
        if self._path(name).exists():  # killed before the hand-over
            paused.unlink()
            return Where.NOT_THERE, "it is running here"
        if not target.exists():
            return Where.UNSURE, "it is paused in migration here, and the target does not answer: it may run there"
        if (target / RUNNING / intent.name).exists():
            paused.unlink()
            return Where.THERE, "it is running on the target, and not here"
        if simulated_node.boot_id(target) != begun["boot"]:
            text = f"it is paused in migration here, and may have run on the target, which has booted since{end}"
            return Where.UNSURE, text
        counter = self._start_writing(name, simulated_guests.read(paused) or {})
        paused.rename(self._path(name))
        self._note(name, "resumed", counter=counter)
        return Where.NOT_THERE, "it is running here again"

    def _intent(self, name: str) -> Path:
        return self._root / MIGRATING / f"{name}.json"


def lose_power(root: Path, *, by: str) -> None:
    """Take a node's power, and with it all that runs there; `by` is who takes it."""
    with _ending_boot(root, why="power", event="powered off", by=by):
        (root / simulated_node.PANIC).unlink(missing_ok=True)
        (root / simulated_node.OFF).write_text(by)
        simulated_node.plan_return(root)


def panic(root: Path) -> None:
    """Let a node's kernel panic: all that runs there and all its links are gone, and its power stays on."""
    with _ending_boot(root, why="panic", event="panicked", by="lab break"):
        (root / simulated_node.PANIC).touch()


def power_on(root: Path) -> None:
    """Give a node its power back: it boots at once."""
    simulated_node.begin_reboot(root, seconds=0)
    simulated_node.new_boot(root)
    for path in (simulated_node.OFF, simulated_node.RETURN_AT):
        (root / path).unlink(missing_ok=True)
    append(root, {"event": "powered on", "opcode": ""})
    come_up(root)


def reboot(root: Path, *, by: str, seconds: float = 0.0) -> None:
    """Let a node lose all that runs there and boot, which takes so many seconds."""
    with _ending_boot(root, why="reboot", event="rebooted", by=by):
        (root / simulated_node.PANIC).unlink(missing_ok=True)
        simulated_node.begin_reboot(root, seconds=seconds)
        simulated_node.new_boot(root)
    come_up(root)


@contextlib.contextmanager
def _ending_boot(root: Path, *, why: str, event: str, by: str) -> Iterator[None]:
    """Let all that runs on a node die; what the block does to its power follows while nothing can begin there."""
    with simulated_node.power_held(root, is_changing=True):
        driver = Driver(root, opcode="power off" if why == "power" else why)
        ran = driver.running()
        driver.die(why=why)
        append(root, {"event": event, "ran": ran, "by": by})
        yield
        simulated_node.rewire(root)
    simulated_node.end_processes(root)


def come_up(root: Path) -> None:
    """Finish a boot whose time is over: the node is reached again, and starts what it starts by itself."""
    if simulated_node.is_due_back(root):
        power_on(root)
    if not (root / simulated_node.REBOOTS).exists() or not simulated_node.is_on(root):
        return
    try:
        (root / simulated_node.REBOOTS).unlink()
    except FileNotFoundError:  # somebody else does it
        return
    simulated_node.rewire(root)
    for name, facts in simulated_node.faults(root, simulated_node.AUTOSTART).items():
        with contextlib.suppress(errors.Failed):  # its disks cannot be used here
            simulated_world.promote(root, name)
            Driver(root, opcode="autostart").start(name, json.loads(facts))
