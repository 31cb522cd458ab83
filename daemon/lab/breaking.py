"""`roundsman lab break`: which faults a person wants on a node, checked as a whole before any of them is applied."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors, json_values, tree
from ...plugins.plugin_utils.config import store
from . import chassis, standing_faults, world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SLOW_STOP, BOOT_SECONDS = 30.0, 5.0
MOST_SECONDS, MOST_PERCENT = 86400, 100
_GARBAGE = {
    "before": "garbage precedes each of its answers",
    "instead": "it answers nothing but garbage",
    "cut": "its answers are cut short",
}


@dataclass(frozen=True)
class Wanted:
    """The faults that one `roundsman lab break` names; each field is the option of that name, None if not given."""

    status: str | None = None
    details: str | None = None
    command: str | None = None
    link: Sequence[str] = ()
    disk: Sequence[str] = ()
    hang: bool = False
    silent: bool = False
    agent: bool = False
    ssh: bool = False
    replication: bool = False
    loss: float | None = None
    lies: bool = False
    clock: float | None = None
    full: bool = False
    slow_resync: int | None = None
    returns: float | None = None
    rack: Sequence[str] = ()
    garbage: str | None = None
    late: float | None = None
    slow_stop: Sequence[str] = ()
    ignore_stop: Sequence[str] = ()
    crash: Sequence[str] = ()
    user_shutdown: Sequence[str] = ()
    autostart: Sequence[str] = ()
    migration: str | None = None
    bmc: Sequence[str] = ()
    panic: bool = False
    reboot: bool = False
    boot_seconds: float | None = None
    power: bool = False


@dataclass(frozen=True)
class Step:
    """One fault: what it is, in words, and the act that brings it about."""

    text: str
    apply: Callable[[], object]


def plan(lab: world.Lab, node: world.LabNode, wanted: Wanted) -> list[Step]:
    """The steps that bring about every fault that is wanted, in their order; nothing is changed yet.

    Raises:
        InvalidInput: an option is invalid in any lab.
        NotFound: this lab has no such node, instance or replica, or the instance does not run on the node.
        Refused: the node has no power to lose.
    """
    planned = _Plan(lab, node, wanted)
    planned.check_words()
    planned.check_lab()
    steps = list(planned.steps())
    if not steps:
        raise errors.InvalidInput("these options break nothing: name a fault, or no option for a report")
    return steps


def check_instances(lab: world.Lab, names: Sequence[str]) -> None:
    """Check that a lab has these instances.

    Raises:
        NotFound: it has no instance of one of these names.
    """
    known = {instance.name for instance in store.read(tree.Tree(lab.controller).config).instances.values()}
    for name in names:
        if name not in known:
            raise errors.NotFound(f"there is no instance {name!r} in the lab {lab.folder}")


@dataclass(frozen=True)
class _Plan:
    lab: world.Lab
    node: world.LabNode
    wanted: Wanted

    def check_words(self) -> None:
        """Refuse what is invalid in any lab."""
        wanted = self.wanted
        _json_value("--details", wanted.details)
        _choice("--garbage", wanted.garbage, world.GARBAGE)
        _choice("--migration", wanted.migration, world.PHASES)
        if wanted.status == "":
            raise errors.InvalidInput("--status: expected a word, such as evacuate")
        for fault in wanted.bmc:
            chassis.check_fault(fault)
        kinds = [fault.partition("=")[0] for fault in dict.fromkeys(wanted.bmc)]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise errors.InvalidInput(f"--bmc {kind} has two values: choose one")
        if self.node.name in wanted.link:
            raise errors.InvalidInput(f"--link {self.node.name}: {self.node.name} has no link to itself")
        if wanted.boot_seconds is not None and not wanted.reboot:
            raise errors.InvalidInput("--boot-seconds needs --reboot")
        if sum((wanted.panic, wanted.reboot, wanted.power or bool(wanted.rack))) > 1:
            raise errors.InvalidInput("choose one of --panic, --reboot, --power and --rack")
        self._check_numbers()
        stops = [slow_stop(text)[0] for text in wanted.slow_stop]
        _once("--slow-stop", stops, "--ignore-stop", wanted.ignore_stop)
        _once("--crash", wanted.crash, "--user-shutdown", wanted.user_shutdown)

    def _check_numbers(self) -> None:
        wanted = self.wanted
        _seconds("--late", wanted.late)
        _seconds("--boot-seconds", wanted.boot_seconds, may_be_0=True)
        _seconds("--returns", wanted.returns)
        if wanted.clock is not None and not (math.isfinite(wanted.clock) and 0 < abs(wanted.clock) <= MOST_SECONDS):
            raise errors.InvalidInput(f"--clock {wanted.clock:g}: must be a number of seconds, at most {MOST_SECONDS}")
        if wanted.loss is not None and not 0 < wanted.loss <= MOST_PERCENT:
            raise errors.InvalidInput(f"--loss {wanted.loss:g}: must be > 0 and <= {MOST_PERCENT} percent")
        if wanted.slow_resync is not None and wanted.slow_resync < 1:
            raise errors.InvalidInput(f"--slow-resync {wanted.slow_resync}: must be > 0 KiB per second")

    def check_lab(self) -> None:
        """Refuse what this lab does not have."""
        wanted, node = self.wanted, self.node
        others = [other for fault in wanted.bmc if (other := chassis.other_node([fault]))]
        for peer in (*wanted.link, *wanted.rack, *others):
            self.lab.find_node(peer)
        ending = [*wanted.crash, *wanted.user_shutdown]
        guests = [*(slow_stop(text)[0] for text in wanted.slow_stop), *wanted.ignore_stop, *wanted.autostart]
        check_instances(self.lab, [*wanted.disk, *guests, *ending])
        replicas = node.replicas() if wanted.disk else []
        for name in wanted.disk:
            if name not in replicas:
                raise errors.NotFound(f"--disk {name}: {node.name} has no replica of {name}")
        running = node.running() if ending else []
        for name in ending:
            if name not in running:
                raise errors.NotFound(f"{name} does not run on {node.name}: only a running instance can crash or end")
        if (wanted.agent or wanted.lies or wanted.loss is not None) and not self.lab.agent_port:
            raise errors.Refused("the nodes of this lab have no agents: make one with `roundsman lab up`")
        options = {"--panic": wanted.panic, "--reboot": wanted.reboot, "--power": wanted.power}
        option = next((option for option, is_wanted in options.items() if is_wanted), "")
        if option and not node.is_powered():
            raise errors.Refused(f"{node.name} is off: power it on before `lab break {node.name} {option}`")

    def steps(self) -> Iterator[Step]:
        """Every step, links first and power last."""
        yield from self._links_and_disks()
        yield from self._answers()
        yield from self._guests()
        yield from self._migrations_and_bmc()
        yield from self._ends()
        yield from self._power()
        if self._wants_report():
            yield self._report()

    def _links_and_disks(self) -> Iterator[Step]:
        node = self.node
        for peer in self.wanted.link:
            unused = "" if self._uses_link(peer) else " (no replica uses it)"
            yield Step(f"its replication link to {peer} is cut{unused}", partial(node.cut_link, peer, is_cut=True))
        if self.wanted.silent:
            yield Step("its management link is cut, replication continues", partial(node.silence, is_silent=True))
        if self.wanted.replication:
            text = "its replication links are cut, and it is reached"
            yield Step(text, partial(node.cut_replication, is_cut=True))
        if self.wanted.slow_resync is not None:
            speed = self.wanted.slow_resync
            yield Step(f"its resyncs copy {speed} KiB per second", partial(node.slow_resync, speed))
        if self.wanted.full:
            yield Step("its volume groups are full", partial(node.fill_group, is_full=True))
        for name in self.wanted.disk:
            text = f"the disk below its replica of {name} fails"
            yield Step(text, partial(node.lose_disk, name, is_lost=True))

    def _uses_link(self, peer: str) -> bool:
        """Whether both nodes have a replica of the same instance."""
        return not set(self.node.replicas()).isdisjoint(self.lab.find_node(peer).replicas())

    def _answers(self) -> Iterator[Step]:
        node, garbage, late = self.node, self.wanted.garbage, self.wanted.late
        if self.wanted.hang:
            yield Step("commands on it hang", partial(node.hang, is_hung=True))
        yield from self._agent()
        if garbage is not None:
            yield Step(_GARBAGE[garbage], partial(node.garble, garbage))
        if late is not None:
            yield Step(f"its answers come {late:g} s late", partial(node.delay, late))

    def _agent(self) -> Iterator[Step]:
        node, loss, clock = self.node, self.wanted.loss, self.wanted.clock
        if self.wanted.agent:
            yield Step("nobody reaches its agent, SSH works", partial(node.cut_agent, is_cut=True))
        if self.wanted.ssh:
            yield Step("nobody logs in to it, its agent answers", partial(node.cut_ssh, is_cut=True))
        if loss is not None:
            yield Step(f"{loss:g} % of the packets to its agent are lost", partial(node.lose_packets, loss))
        if self.wanted.lies:
            yield Step("its agent claims that all its replicas are in sync", partial(node.lie, is_lying=True))
        if clock is not None:
            yield Step(f"its clock is {clock:+g} s wrong", partial(node.set_clock, clock))

    def _guests(self) -> Iterator[Step]:
        node = self.node
        for name, seconds in map(slow_stop, self.wanted.slow_stop):
            text = f"{name} takes {seconds:g} s for a soft stop"
            yield self._stop(name, text, partial(node.slow_stop, name, seconds))
        for name in self.wanted.ignore_stop:
            text = f"{name} ignores soft stops"
            yield self._stop(name, text, partial(node.ignore_stop, name, is_ignored=True))
        for name in self.wanted.autostart:
            yield Step(f"it starts {name} at each boot", partial(node.autostart, name, is_on=True))

    def _stop(self, name: str, text: str, apply: Callable[[], object]) -> Step:
        """A fault of a guest's soft stop; a guest has one, so an older one on any node ends."""
        older = [
            (node, fault)
            for node in self.lab.nodes()
            for fault in standing_faults.standing(node)
            if fault.option in {"slow-stop", "ignore-stop"} and fault.about == name
        ]

        def replace() -> None:
            for node, fault in older:
                standing_faults.fix(node, fault.option, name)
            apply()

        replaced = " and ".join(f"{fault.text} of {node.name}" for node, fault in older)
        return Step(f"{text} (this replaces {replaced})" if replaced else text, replace)

    def _migrations_and_bmc(self) -> Iterator[Step]:
        node, phase = self.node, self.wanted.migration
        if phase is not None:
            yield Step(f"migrations from it fail ({phase})", partial(node.fail_migrations, phase))
        if self.wanted.bmc:
            new = {fault.partition("=")[0] for fault in self.wanted.bmc}
            kept = {fault for fault in node.faults() if fault.partition("=")[0] not in new}
            faults = sorted(kept | set(self.wanted.bmc))
            yield Step(f"faults of its BMC: {', '.join(faults)}", partial(node.set_faults, faults))

    def _ends(self) -> Iterator[Step]:
        for name in self.wanted.crash:
            yield Step(f"{name} has crashed", partial(self._end, self.node.crash, name))
        for name in self.wanted.user_shutdown:
            text = f"{name} was shut down by its user"
            yield Step(text, partial(self._end, self.node.user_shutdown, name))

    def _end(self, act: Callable[[str], bool], name: str) -> None:
        if not act(name):
            raise errors.Failed(f"{name} stopped on {self.node.name} while this command was at work")

    def _power(self) -> Iterator[Step]:
        seconds = BOOT_SECONDS if self.wanted.boot_seconds is None else self.wanted.boot_seconds
        if self.wanted.returns is not None:
            text = f"it powers on by itself {self.wanted.returns:g} s after it is powered off"
            yield Step(text, partial(self.node.return_after, self.wanted.returns))
        if self.wanted.panic:
            yield Step("its kernel panics: guests and links are gone, its power is on", self.node.panic)
        if self.wanted.rack:
            names = tuple(dict.fromkeys((self.node.name, *self.wanted.rack)))
            text = f"the power and the BMCs of {', '.join(names)} are gone"
            yield Step(text, partial(self._lose_rack, names))
        if self.wanted.reboot:
            yield Step(f"it reboots, which takes {seconds:g} s", partial(self.node.reboot, seconds=seconds))
        if self.wanted.power:
            yield Step("its power is cut", self.node.lose_power)

    def _lose_rack(self, names: Sequence[str]) -> None:
        for name in names:
            node = self.lab.node(name)
            node.set_faults(sorted(node.faults() | {chassis.DEAD}))
            node.lose_power()

    def _wants_report(self) -> bool:
        """Whether a report is asked for: by its options, or because no fault is named."""
        wanted = self.wanted
        is_named = any(given is not None for given in (wanted.status, wanted.details, wanted.command))
        return is_named or wanted == Wanted()

    def _report(self) -> Step:
        status, details = self.wanted.status or "evacuate", self.wanted.details or "null"
        command = self.wanted.command or (world.REPAIR_COMMAND if status == "live-repair" else "")
        extra = f', "command": {json.dumps(command)}' if command else ""
        printed = f'{{"status": {json.dumps(status)}{extra}, "details": {details}}}'
        return Step(f"its diagnose command prints {printed}", partial(self.node.say, printed))


def _json_value(option: str, text: str | None) -> None:
    """Check that the text of an option is one JSON value.

    Raises:
        InvalidInput: it is not.
    """
    try:
        json_values.parse("null" if text is None else text)
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{option}: {error}") from error


def slow_stop(text: str) -> tuple[str, float]:
    """Instance and seconds of an `INSTANCE[=SECONDS]`.

    Raises:
        InvalidInput: no instance is named, or the seconds are no number or out of range.
    """
    name, joint, given = text.partition("=")
    if not name:
        raise errors.InvalidInput(f"--slow-stop {text}: expected INSTANCE[=SECONDS]")
    try:
        seconds = float(given) if joint else SLOW_STOP
    except ValueError as error:
        raise errors.InvalidInput(f"--slow-stop {text}: expected a number of seconds, got {given!r}") from error
    _seconds("--slow-stop", seconds, shown=text)
    return name, seconds


def _seconds(option: str, seconds: float | None, *, shown: str = "", may_be_0: bool = False) -> None:
    if seconds is None or (math.isfinite(seconds) and (0 < seconds <= MOST_SECONDS or (may_be_0 and seconds == 0))):
        return
    least = ">= 0" if may_be_0 else "> 0"
    raise errors.InvalidInput(f"{option} {shown or f'{seconds:g}'}: must be {least} and <= {MOST_SECONDS} seconds")


def _choice(option: str, word: str | None, words: tuple[str, ...]) -> None:
    if word is not None and word not in words:
        raise errors.InvalidInput(f"{option} {word}: use one of {', '.join(words)}")


def _once(option: str, names: Sequence[str], other: str, others: Sequence[str]) -> None:
    """Refuse an instance that is named by both options, or twice by one."""
    for name in names:
        if name in others:
            raise errors.InvalidInput(f"{name}: choose one of {option} and {other}")
    for named in (names, others):
        for name in named:
            if named.count(name) > 1:
                raise errors.InvalidInput(f"{name} is named twice by {option if named is names else other}")
