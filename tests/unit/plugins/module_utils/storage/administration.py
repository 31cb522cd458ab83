"""The commands about an instance's replicas, done on the simulated disks in the order of their plays.

What they ask and refuse is the code of the product: its rules, its disk template, its table of repairs. A command
returns why it was refused, '' if it was done. Of a text that refuses, `named` are the commands that it tells a person.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_node, simulated_world
from ansible_collections.roundsman.cluster.plugins.action import replica_check
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import drbd_pairs, replacements, starts
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import Where
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    disks,
    drbd,
    drbd_node,
    drbd_repairing,
    drbd_sides,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import State
from ansible_collections.roundsman.cluster.plugins.plugin_utils import disk_repairs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import failovers, possible_loss

from .copies import NAME, UUID
from .machine import Clock, Machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INSTANCE, DEVICE = "web1", "/dev/drbd3"
LOOKS = 5


class Killed(Exception):
    """A play was killed at this step."""


@dataclass
class Played(Machine):
    """A node on which a play may be killed: `left` has how many more commands run, for all nodes."""

    left: list[int] = field(default_factory=list)

    def run(self, *command: str, time_limit: float = 120, accepted: tuple[int, ...] = (0,)) -> str:
        if self.left and not command[1].startswith(("status", "show", "get-gi")):
            if self.left[0] == 0:
                raise Killed
            self.left[0] -= 1
        return super().run(*command, time_limit=time_limit, accepted=accepted)


class Administration:
    """An instance with replicas on n1 and n2, which runs on n1; n3 is empty."""

    def __init__(self, nodes: Path) -> None:
        self.nodes, self.clock, self.left = nodes, Clock(), []  # type: ignore[var-annotated]
        self.primary, self.secondary = "n1", "n2"
        self.made = ""
        """The node on which a replacement that has not ended makes a replica."""
        self.left_behind: set[str] = set()
        self.offline: set[str] = set()
        self.guests: set[str] = set()
        self.is_loss_accepted = False
        """Whether what the secondary of a dead primary lacks is within the limit; else nothing is known of it."""
        for name in ("n1", "n2", "n3"):
            (nodes / name / "lab").mkdir(parents=True)
            simulated_node.new_boot(nodes / name)
        ends = (self.at("n1").end, self.at("n2").end)
        disk = simulated_world.NewDisks(INSTANCE, UUID, (64,), (3,), ends, "vg", "n1-and-n2", is_primary=True)
        simulated_world.place(nodes, [disk], opcode="", now=self.clock.now)
        self._guest("n1")

    def at(self, name: str) -> Played:
        """A node."""
        return Played(self.nodes / name, self.clock, left=self.left)

    def is_on(self, name: str) -> bool:
        return simulated_node.is_on(self.nodes / name)

    # What happens by itself.

    def link(self, one: str, other: str, *, is_cut: bool) -> None:
        simulated_node.set_fault(self.nodes / one, f"links/{other}", "cut" if is_cut else "")
        self.rest()

    def lose_power(self, name: str) -> None:
        (self.nodes / name / simulated_node.OFF).touch()
        simulated_world.lose_power(self.nodes / name, now=self.clock.now)
        self.guests.discard(name)
        self.rest()

    def boot(self, name: str) -> None:
        simulated_node.new_boot(self.nodes / name)
        (self.nodes / name / simulated_node.OFF).unlink(missing_ok=True)
        self.rest()

    def rest(self) -> None:
        """Ten seconds pass on all nodes."""
        self.clock.wait(10)
        for name in ("n1", "n2", "n3"):
            simulated_world.settle(self.nodes / name, now=self.clock.now)

    def kill(self, act: Callable[[], str], *, after: int) -> None:
        """A command whose play is killed after so many steps; then the daemon looks for the instance."""
        self.left.append(after)
        try:
            act()
        except Killed:
            pass
        finally:
            self.left.clear()
        self.find()

    def find(self) -> None:
        """As `find_instance`: where the guest runs, or the only primary of its replicas."""
        members = [self.primary, self.secondary]
        running = [name for name in members if name in self.guests]
        if running:
            self._moved(running[0])
        elif all(self.is_on(name) for name in members):
            roles = {name: self._role(name) for name in members}
            promoted = [name for name in members if roles[name] == "Primary"]
            if len(promoted) == 1:
                self._moved(promoted[0])

    def outdate(self) -> None:
        """As the daemon: on the word of the primary where the guest runs, alone."""
        if self.primary in self.guests and self.is_on(self.secondary):
            primary = self._side(self.primary)
            if primary is not None and not drbd_node.is_together(primary):
                self._try(lambda: self._repair_step(drbd_pairs.Action.OUTDATE, self.secondary))

    def stray(self, name: str) -> None:
        """The node starts the guest by itself, as behind a cut link after a boot, and a person ends it again."""
        if name in self.guests or not self.is_on(name) or not self.at(name).configured(NAME):
            return
        if not self._try(lambda: self._promote(name)):
            self._guest(name)
            self.rest()
            self._end(name)
            self._try(lambda: self.at(name).run("drbdadm", "secondary", NAME))

    def _promote(self, name: str) -> None:
        for verb in ("up", "primary"):
            self.at(name).run("drbdadm", verb, NAME)

    # Commands.

    def do(self, command: str) -> str:
        """Do a command as a text names it."""
        words = command.split()[1:]
        options = {word: words[i + 1] for i, word in enumerate(words[:-1]) if word in {"--discard", "--to"}}
        verb = " ".join(words[:2])
        if verb in {"node offline", "node online"}:
            (self.offline.add if words[1] == "offline" else self.offline.discard)(words[2])
            return ""
        acts: dict[str, Callable[[], str]] = {
            "instance start": lambda: self.start(discard=options.get("--discard", "")),
            "instance stop": self.stop,
            "instance repair-disks": lambda: self.repair(discard=options.get("--discard", "")),
            "instance failover": lambda: self.failover(ignores="--ignore-consistency" in words),
            "instance replace-disks": lambda: self.replace(options.get("--to", "n3")),
        }
        try:
            found = acts[verb]() if verb in acts else ""
        except errors.RoundsmanError as error:
            found = str(error)
        self.rest()
        return found

    def start(self, *, discard: str = "") -> str:
        if discard == self.primary:
            return self.repair(discard=discard) or self.start()
        second, answer = self.secondary, replacements.Node(self.secondary, None)
        if self._is_asked(second):
            failed = self._try(lambda: self._become(second, State.STANDBY if discard else State.UP))
            if failed and discard:
                return failed
            answer = self._told(second)
            if not any(replica.role for replica in answer.replicas or ()):
                answer = replacements.Node(second, None)
        if not self.is_on(self.primary):
            return f"{self.primary} does not answer"
        self._become(self.primary, State.UP)
        self.rest()
        if self._is_asked(second) and answer.replicas:
            answer = self._told(second)
        text = starts.objection(INSTANCE, self._told(self.primary), answer, discards=bool(discard))
        if text:
            return text
        failed = self._try(lambda: self._become(self.primary, State.ACTIVE, alone=True, force=bool(discard)))
        if failed:
            return failed
        self._guest(self.primary)
        return self.repair(discard=discard) if discard and self._is_asked(second) else ""

    def stop(self) -> str:
        self._end(self.primary)
        return self._try(lambda: self._become(self.primary, State.STANDBY))

    def repair(self, *, discard: str = "") -> str:
        nodes = {Where.PRIMARY: self.primary, Where.SECONDARY: self.secondary}
        if discard and discard in self.left_behind:
            self.left_behind.discard(discard)
            self._become(discard, State.ABSENT, peer=None, last=True)
            return ""
        for name in nodes.values():
            if name in self.offline:
                return f"{name} is not contacted"
        tried: list[dict[str, str]] = []
        undone: list[dict[str, str]] = []
        for _ in range(LOOKS):
            answers = {where: self._drbd_info(name) for where, name in nodes.items()}
            judged = disk_repairs.judge(
                [NAME],
                primary=answers[Where.PRIMARY],
                secondary=answers[Where.SECONDARY],
                tried=tried,
                undone=undone,
                discard=disk_repairs.node_to_discard(discard, nodes),
            )
            found = disk_repairs.as_result(judged, nodes, tried=tried)
            for step in found["steps"]:
                action = drbd_pairs.Action[step["action"].upper()]
                if self._try(lambda action=action, node=step["node"]: self._repair_step(action, node)):  # type: ignore[misc]
                    undone.append(step)
            tried += found["steps"]
            self.rest()
            if not found["steps"]:
                text = "; ".join([*found["refused"], *found["replaced"]])
                return self._named_in_repairs(text) if text else ""
        return "its disks are not repaired"

    def failover(self, *, ignores: bool) -> str:
        source, target = self.primary, self.secondary
        if not self._is_asked(target):
            return f"{target} does not answer"
        asked = failovers.Failover(INSTANCE, is_replicated=True, source=None, target=failovers.Node(target))
        is_asked = self._is_asked(source)
        # As `wait_synced`: a person who ignores consistency does not wait for replicas that stand alone.
        waits = is_asked and not ignores
        for state in (State.STANDBY, State.INFO):
            at_target = self._answered(target, state, waits=waits)
            other_state = state if not self.guests else State.INFO
            at_source = self._answered(source, other_state, waits=waits) if is_asked else {}
            asked = failovers.Failover(
                INSTANCE,
                is_replicated=True,
                source=failovers.node(source, INSTANCE, disks=at_source) if is_asked else None,
                target=failovers.node(target, INSTANCE, disks=at_target, guests={"states": {}}),
                ignore_consistency=ignores,
                is_stopped=is_asked and state is State.INFO,
                loss=possible_loss.Answer(possible_loss.Verdict.GO, 0.0) if self.is_loss_accepted else None,
                is_off=not self.is_on(source),
            )
            if text := failovers.objection(asked):
                return text
            self._end(source)
        if is_asked:
            self._become(source, State.STANDBY)
        forced = failovers.is_forced(asked)
        self._become(target, State.ACTIVE, alone=failovers.may_be_alone(asked), force=forced)
        self._moved(target)
        self._guest(target)
        return ""

    def replace(self, new: str) -> str:
        primary, old = self.primary, self.secondary
        if new == primary or not self._is_asked(primary) or not self._is_asked(new):
            return "it cannot be replaced there"
        if new in self.left_behind:
            return f"{INSTANCE} left a replica on {new}: `roundsman instance repair-disks {INSTANCE} --discard {new}`"
        is_old_asked = self._is_asked(old)
        if is_old_asked:
            self._try(lambda: self._become(old, State.STANDBY))
        is_elsewhere = new != old
        at_old = self._told(old) if is_old_asked else None
        text = replacements.objection(INSTANCE, self._told(primary), at_old, may_stay=is_elsewhere)
        if text:
            return text
        kept = replacements.kept(INSTANCE, self._told(primary), at_old) if is_elsewhere else ""
        if not is_elsewhere:
            self._become(old, State.ABSENT, last=True)
        self._made_on(new)
        if text := replacements.objection_to_new(INSTANCE, self._told(primary), self._told(new)):
            return f"{text}. Run `roundsman instance replace-disks {INSTANCE} --to {new}` again"
        left = old if is_elsewhere else self.made
        self.left_behind |= {left} - {""}
        self.secondary, self.made = new, ""
        is_removed = is_elsewhere and is_old_asked and not kept
        if is_removed and not self._try(lambda: self._become(old, State.ABSENT, peer=None, last=True)):
            self.left_behind.discard(old)
        return ""

    def _made_on(self, new: str) -> None:
        """The new replica is made, and the primary copies to it."""
        primary, old = self.primary, self.secondary
        peers = [(disk["peer"], disk["connected"]) for disk in self._answered(primary)["disks"]]
        is_copied = new != old and set(peers) == {(new, True)}
        let_go = [name for name in {old, self.made} - {"", new} if self._is_asked(name)]
        self.made = new if new != old else self.made
        # As `new_secret`: another one than the pair had.
        pair: dict[str, Any] = {"secret": f"s{self.clock.now}", "new_secret": not is_copied}
        self._become(new, State.PRESENT, peer=primary, **pair)
        if not is_copied:
            self._become(new, State.DISCONNECTED, peer=primary)
        for name in let_go:
            self._try(lambda name=name: self._become(name, State.DISCONNECTED))  # type: ignore[misc]
        state = State.ACTIVE if self.guests else State.PRESENT
        self._become(primary, state, peer=new, alone=True, **pair)
        self._become(new, State.PRESENT, peer=primary, **pair)
        self.rest()

    # The nodes.

    def _is_asked(self, name: str) -> bool:
        return name not in self.offline and self.is_on(name)

    def _moved(self, primary: str) -> None:
        if primary == self.secondary:
            self.primary, self.secondary = self.secondary, self.primary

    def _guest(self, name: str) -> None:
        if name not in self.guests:
            simulated_world.start_writing(self.nodes / name, INSTANCE, devices=[DEVICE], now=self.clock.now)
            self.guests.add(name)

    def _end(self, name: str) -> None:
        if name in self.guests:
            simulated_world.stop_writing(self.nodes / name, INSTANCE, now=self.clock.now)
            self.guests.discard(name)

    def _try(self, act: Callable[[], object]) -> str:
        """Why it failed, '' if it did not."""
        try:
            act()
        except errors.RoundsmanError as error:
            return str(error)
        return ""

    def _storage(self, name: str, *, peer: str | None = "", **options: Any) -> Any:
        other = self.secondary if name == self.primary else self.primary
        # While a replica is made on another node the primary keeps the peer that it has.
        keeps = self.made and not peer
        end = None if peer is None or keeps else self.at(peer or other).end
        machine = self.at(name)
        given = {"secret": "-and-".join(sorted((name, peer or other))), "generations": True, **options}
        asked = disks.Disks(INSTANCE, UUID, (disks.Disk(64, minor=3),), vg="vg", here=machine.end, peer=end, **given)
        return drbd.Template(asked, runner=machine, root=machine.root, node=machine.node, nodename=name)

    def _become(self, name: str, state: State, **options: Any) -> None:
        if name in self.guests and state in {State.STANDBY, State.ABSENT}:
            raise errors.Refused(f"{INSTANCE} runs on {name}")
        for step in self._storage(name, **options).steps(state):
            step.act()

    def _answered(self, name: str, state: State = State.INFO, *, waits: bool = True) -> dict[str, Any]:
        """What the module answers: its result, or why it failed, as where it `waits` for what will not become equal."""
        try:
            if state is not State.INFO and name not in self.guests:
                self._become(name, state)
                self.rest()
            found = self._storage(name).local_disks()
        except errors.RoundsmanError as error:
            return {"failed": True, "msg": str(error)}
        trouble = next((disk.trouble for disk in found if disk.trouble and not disk.is_synced), "")
        if state is not State.INFO and waits and trouble:
            return {"failed": True, "msg": trouble}
        return disks.as_result(found)

    def _told(self, name: str) -> replacements.Node:
        return replica_check._node({"name": name, "disks": self._answered(name)})

    def _side(self, name: str) -> Any:
        return self.at(name).node.side(NAME) if self.is_on(name) else None

    def _role(self, name: str) -> str:
        side = self._side(name)
        return "" if side is None else side.role.value

    def _drbd_info(self, name: str) -> dict[str, Any]:
        if not self.is_on(name):
            return {"unreachable": True}
        node = self.at(name).node
        node.load()
        sides = [drbd_repairing.parted(node, side) or side for side in node.resources().sides]
        return {"sides": [drbd_sides.encode(side) for side in sides]}

    def _repair_step(self, action: drbd_pairs.Action, name: str) -> None:
        machine = self.at(name)
        for step in drbd_repairing.Repairs(machine, machine.node).steps(action, NAME):
            step.act()

    def _named_in_repairs(self, text: str) -> str:
        """The table of repairs names no instance and no node."""
        words = {"NAME": INSTANCE, "OLD_PRIMARY": self.primary, "SECONDARY": self.secondary, "PRIMARY": self.primary}
        text = re.sub(r"\b(NAME|OLD_PRIMARY|SECONDARY|PRIMARY)\b", lambda found: words[found[0]], text)
        return re.sub(r"\((roundsman [^)]*)\)", r"`\1`", text)


def named(text: str) -> list[str]:
    """The commands that a text names, in their order; where it leaves a node open, one for each."""
    found: list[str] = []
    for command in re.findall(r"`(roundsman (?:instance|node) [^`]*)`", text):
        found += [command.replace("NODE", node) for node in ("n1", "n2")] if "NODE" in command else [command]
    return list(dict.fromkeys(found))
