"""Faults of the simulated world, each with its way back, within what redundancy survives.

At most one node at a time is away (no power, no link, hanging, rebooting), the master never is, and no instance loses
the disks of more than one node. All else may come together: above all a cut link and a dead node, whose BMC errs.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab import chassis, standing_faults
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.daemon.lab import world

    from tests.chaos.chronicle import Chronicle
    from tests.integration import labs

MASTER = "node1"
BMC_FAULTS = (*chassis.FAULTS, chassis.LYING, chassis.STALE_OFF)
KINDS = (
    *("power", "reboot", "silent", "cut", "hang", "panic", "agent", "ssh", "loss", "lies", "clock", "full", "returns"),
    *("slow resync", "link", "replication", "disk", "garbage", "late", "migration", "slow stop", "ignored stop"),
    *("crash", "user shutdown", "full disk", "controller with a node"),
    *(f"bmc {fault}" for fault in BMC_FAULTS),
)
"""Everything that can be counted among the faults of a run."""
MOST = 8
"""Faults that stand at the same time."""


@dataclass(frozen=True)
class Fault:
    """One fault that stands: what it is, the node that has it, when it is to end, and how."""

    kind: str
    node: str
    due: float
    end: Callable[[], object]
    is_away: bool = False


class Faults:
    """The faults of a lab, made and ended by chance; nodes that are reserved are left alone."""

    def __init__(self, lab: labs.Running, chance: random.Random, chronicle: Chronicle) -> None:
        self._lab, self._chance, self._chronicle = lab, chance, chronicle
        self.standing: list[Fault] = []
        self.reserved: frozenset[str] = frozenset()

    def tend(self) -> None:
        """End those whose time is over."""
        now = time.monotonic()
        for fault in [one for one in self.standing if one.due <= now]:
            self._end(fault)

    def end_all(self) -> None:
        """End all, and whatever else stands on a node."""
        for fault in list(self.standing):
            self._end(fault)
        for node in self._lab.lab.nodes():
            standing_faults.fix(node)
            node.set_faults([])

    def strike(self) -> None:
        """Let one thing go wrong."""
        kinds: tuple[Callable[[], Fault | None], ...] = (
            *(self._power, self._reboot, self._silent, self._cut, self._hang, self._panic),
            *(self._agent, self._ssh, self._loss, self._lies, self._clock, self._full, self._returns, self._resync),
            *(self._link, self._link, self._link, self._replication, self._disk, self._disk),
            *(self._garbage, self._late, self._migration, self._migration),
            *(self._slow_stop, self._ignored_stop, self._crash, self._user),
            *(self._bmc, self._bmc, self._bmc),
        )
        if len(self.standing) >= MOST:
            return
        kind, fault = self._chance.choice(kinds), None
        # A node may have lost its power a moment ago.
        with contextlib.suppress(errors.Failed):
            fault = kind()
        if fault is not None:
            self.standing.append(fault)

    def away(self) -> set[str]:
        """The nodes that are away."""
        return {one.node for one in self.standing if one.is_away}

    def _end(self, fault: Fault) -> None:
        self.standing.remove(fault)
        fault.end()
        self._chronicle.note(f"fault ends: {fault.kind} {fault.node}")

    def _begun(
        self, kind: str, node: str, end: Callable[[], object], *, seconds: tuple[float, float], is_away: bool = False
    ) -> Fault:
        lasts = self._chance.uniform(*seconds)
        self._chronicle.count("faults", kind, f"{node} for {lasts:.0f} s")
        return Fault(kind, node, time.monotonic() + lasts, end, is_away=is_away)

    def _any(self) -> world.LabNode:
        return self._chance.choice([node for node in self._lab.lab.nodes() if node.name not in self.reserved])

    def _leaving(self) -> world.LabNode | None:
        """A node that may be away for a while."""
        node = self._any()
        busy = self.away() or self.reserved or node.name == MASTER or not node.is_powered()
        return None if busy else node

    def _power(self, seconds: tuple[float, float] = (10, 60)) -> Fault | None:
        node = self._leaving()
        if node is None:
            return None
        node.lose_power()
        return self._begun(
            "power", node.name, lambda: standing_faults.fix(node, "power"), seconds=seconds, is_away=True
        )

    def lose_a_node(self, *, seconds: tuple[float, float] | None = None) -> str:
        """Have a node that may be away lose its power, or its kernel panic where the `seconds` of that are given.

        Returns its name, '' where there is none.
        """
        kinds = (self._power,) if seconds is None else (self._power, self._panic)
        fault = self._chance.choice(kinds)(*([] if seconds is None else [seconds]))
        if fault is None:
            return ""
        self.standing.append(fault)
        return fault.node

    def _reboot(self) -> Fault | None:
        node = self._leaving()
        if node is None:
            return None
        node.reboot(seconds=self._chance.uniform(0.5, 15))
        return self._begun(
            "reboot", node.name, lambda: standing_faults.fix(node, "reboot"), seconds=(16, 17), is_away=True
        )

    def _silent(self) -> Fault | None:
        node = self._leaving()
        if node is None:
            return None
        node.silence(is_silent=True)
        return self._begun(
            "silent", node.name, lambda: standing_faults.fix(node, "silent"), seconds=(5, 60), is_away=True
        )

    def _cut(self) -> Fault | None:
        node = self._leaving()
        if node is None:
            return None
        node.cut(is_cut=True)
        return self._begun("cut", node.name, lambda: standing_faults.fix(node, "cut"), seconds=(5, 60), is_away=True)

    def _hang(self) -> Fault | None:
        node = self._leaving()
        if node is None:
            return None
        node.hang(is_hung=True)
        return self._begun("hang", node.name, lambda: standing_faults.fix(node, "hang"), seconds=(5, 40), is_away=True)

    def _panic(self, seconds: tuple[float, float] = (10, 60)) -> Fault | None:
        node = self._leaving()
        if node is None:
            return None
        node.panic()
        return self._begun(
            "panic", node.name, lambda: standing_faults.fix(node, "panic"), seconds=seconds, is_away=True
        )

    def _agent(self) -> Fault:
        node = self._any()
        node.cut_agent(is_cut=True)
        return self._begun("agent", node.name, lambda: standing_faults.fix(node, "agent"), seconds=(5, 60))

    def _ssh(self) -> Fault | None:
        node = self._leaving()
        if node is None:
            return None
        node.cut_ssh(is_cut=True)
        return self._begun("ssh", node.name, lambda: standing_faults.fix(node, "ssh"), seconds=(5, 60), is_away=True)

    def _loss(self) -> Fault:
        node = self._any()
        node.lose_packets(self._chance.choice((10, 30, 60)))
        return self._begun("loss", node.name, lambda: standing_faults.fix(node, "loss"), seconds=(10, 90))

    def _lies(self) -> Fault:
        node = self._any()
        node.lie(is_lying=True)
        return self._begun("lies", node.name, lambda: standing_faults.fix(node, "lies"), seconds=(10, 60))

    def _clock(self) -> Fault:
        node = self._any()
        node.set_clock(self._chance.choice((-3600, 3600)))
        return self._begun("clock", node.name, lambda: standing_faults.fix(node, "clock"), seconds=(10, 60))

    def _full(self) -> Fault:
        node = self._any()
        node.fill_group(is_full=True)
        return self._begun("full", node.name, lambda: standing_faults.fix(node, "full"), seconds=(10, 60))

    def _returns(self) -> Fault:
        node = self._any()
        node.return_after(self._chance.uniform(5, 30))
        return self._begun("returns", node.name, lambda: standing_faults.fix(node, "returns"), seconds=(30, 90))

    def _resync(self) -> Fault:
        node = self._any()
        node.slow_resync(self._chance.choice((64 * 1024, 512 * 1024)))  # 10 GiB in 160 or 20 s
        return self._begun("slow resync", node.name, lambda: standing_faults.fix(node, "slow-resync"), seconds=(20, 90))

    def _replication(self) -> Fault | None:
        node = self._any()
        if self.away():
            return None
        node.cut_replication(is_cut=True)
        return self._begun("replication", node.name, lambda: standing_faults.fix(node, "replication"), seconds=(5, 60))

    def _pair(self) -> tuple[str, world.LabNode, world.LabNode] | None:
        """An instance with its primary and its secondary, by the configuration."""
        cluster = self._lab.cluster()
        reserved = {uuid for uuid, node in cluster.nodes.items() if node.name in self.reserved}
        pairs = [one for one in cluster.instances.values() if one.secondary_nodes]
        found = [one for one in pairs if not reserved & set(one.nodes)]
        if not found:
            return None
        one = self._chance.choice(sorted(found, key=lambda each: each.name))
        primary, secondary = (self._lab.lab.node(cluster.node_name(uuid)) for uuid in one.nodes[:2])
        return one.name, primary, secondary

    def _link(self) -> Fault | None:
        found = self._pair()
        if found is None:
            return None
        _, node, peer = found
        node.cut_link(peer.name, is_cut=True)
        return self._begun("link", node.name, lambda: node.cut_link(peer.name, is_cut=False), seconds=(5, 90))

    def _disk(self) -> Fault | None:
        found = self._pair()
        if found is None or any(one.kind == "disk" for one in self.standing):
            return None
        instance, primary, secondary = found
        node = self._chance.choice((primary, secondary, secondary))
        node.lose_disk(instance, is_lost=True)
        return self._begun("disk", node.name, lambda: node.lose_disk(instance, is_lost=False), seconds=(5, 60))

    def _garbage(self) -> Fault:
        node = self._any()
        node.garble(self._chance.choice(("before", "instead", "cut")))
        return self._begun("garbage", node.name, lambda: node.garble(""), seconds=(3, 20))

    def _late(self) -> Fault:
        node = self._any()
        node.delay(self._chance.uniform(1, 25))
        return self._begun("late", node.name, lambda: node.delay(0), seconds=(3, 25))

    def _migration(self) -> Fault:
        node = self._any()
        phases = [one for one in fake.PHASES if one != "paused" or not self.away()]
        node.fail_migrations(self._chance.choice(phases))
        return self._begun("migration", node.name, lambda: node.fail_migrations(""), seconds=(10, 60))

    def _slow_stop(self) -> Fault | None:
        found = self._pair()
        if found is None:
            return None
        instance, node, _ = found
        node.slow_stop(instance, self._chance.uniform(1, 20))
        return self._begun("slow stop", node.name, lambda: node.slow_stop(instance, 0), seconds=(20, 90))

    def _ignored_stop(self) -> Fault | None:
        found = self._pair()
        if found is None:
            return None
        instance, node, _ = found
        node.ignore_stop(instance, is_ignored=True)
        return self._begun(
            "ignored stop", node.name, lambda: node.ignore_stop(instance, is_ignored=False), seconds=(20, 90)
        )

    def _crash(self) -> None:
        found = self._pair()
        if found is not None and found[1].crash(found[0]):
            self._chronicle.count("faults", "crash", f"{found[0]} on {found[1].name}")

    def _user(self) -> None:
        found = self._pair()
        if found is not None and found[1].user_shutdown(found[0]):
            self._chronicle.count("faults", "user shutdown", f"{found[0]} on {found[1].name}")

    def _bmc(self) -> Fault:
        node = self._any()
        what = self._chance.choice(BMC_FAULTS)
        node.set_faults([what])
        return self._begun(f"bmc {what}", node.name, lambda: node.set_faults([]), seconds=(5, 60))
