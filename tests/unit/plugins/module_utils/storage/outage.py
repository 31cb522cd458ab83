"""A pair of simulated replicas whose primary dies, and the controller that hears of it, minute by minute.

The looks, the reports and the rule are the product's, asked as the play of a failover asks them; what is true is kept
beside them by hand. Nothing changes while time passes: of the looks and reports in it only the last counts.
"""

from __future__ import annotations

import dataclasses
import math
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_world
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_replica import SECOND
from ansible_collections.roundsman.cluster.plugins.action import failover_check
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    drbd_node,
    programs,
    replica_facts,
    sights,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import State
from ansible_collections.roundsman.cluster.plugins.plugin_utils import out_of_sync, replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import failovers, possible_loss

from .administration import INSTANCE, Administration, Played
from .copies import NAME, UUID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

P, S, OTHER = "n1", "n2", "n3"
LOOK = 5.0
NOTICED = 20.0
"""Seconds that DRBD takes to notice that its peer has gone, at most; here the survivor does, its peer at once."""
EPOCH, BOOTED = 1_700_000_000.0, -50_000.0
READ: tuple[tuple[str, ...], ...] = (
    ("drbdsetup", "status", "--verbose", "--statistics"),
    ("drbdsetup", "show"),
    ("drbdadm", "get-gi", f"{NAME}/0"),
)


@dataclass
class Numb(Played):
    """A node that has not noticed yet: it answers with what it knew, by command."""

    known: dict[tuple[str, ...], str] = field(default_factory=dict)
    told: str = ""

    def run(self, *command: str, time_limit: float = 120, accepted: tuple[int, ...] = (0,)) -> str:
        said = super().run(*command, time_limit=time_limit, accepted=accepted)
        if self.known:
            (self.root / drbd_node.PROC).write_text(self.told)
        return self.known.get(command, said)


class Outage(Administration):
    """An instance that runs on P with its replica on S; all times are seconds of the controller's uptime."""

    def __init__(self, nodes: Path, patch: pytest.MonkeyPatch, *, limit: int) -> None:
        self.numb: Numb | None = None
        self.numb_until = math.inf
        self.asked = S
        self.booted = dict.fromkeys((P, S, OTHER), BOOTED)
        self.clock_ahead = EPOCH
        self.is_linked = self.is_heard = self.is_watched = self.has_agent = True
        super().__init__(nodes)
        made = [
            clusters.Node(name, name, "g1", primary_ip=f"198.51.100.{name[-1]}", secondary_ip=f"192.0.2.{name[-1]}")
            for name in (P, S, OTHER)
        ]
        instance = clusters.Instance(UUID, INSTANCE, P, (S,), disks=(clusters.Disk(64),))
        self.cluster = clusters.Cluster(
            cluster=clusters.Parameters("c", "c1", OTHER, failover_max_loss=limit),
            nodegroups={"g1": clusters.Group("g1", "g")},
            nodes={node.uuid: node for node in made},
            instances={UUID: instance},
        )
        self.tracks: dict[str, replicas.NodeTrack] = {}
        self.reports: dict[str, tuple[replicas.NodeFacts, replicas.Moment]] = {}
        # What is true, by hand.
        self.limit = limit
        self.seen_at: float | None = None
        self.first_off: float | None = None
        self.last_written = 0
        self.says_alone = self.is_outdated = self.is_elsewhere = self.was_set_back = False
        patch.setattr(programs, "runner_for", lambda root, **_: self.at(root.name))
        patch.setattr(sights, "uptime", lambda: self.now - self.booted[self.asked])
        clocks = {"clock_gettime": lambda _: self.now, "time": lambda: self.wall, "CLOCK_BOOTTIME": 7}
        patch.setattr(failover_check, "time", types.SimpleNamespace(**clocks))
        uptime = types.SimpleNamespace(read_text=lambda: f"{self.now:.6f} 1.00")
        patch.setattr(failover_check, "UPTIME", uptime)
        self.wait(LOOK)

    @property
    def now(self) -> float:
        return self.clock.now / SECOND

    @property
    def wall(self) -> float:
        return self.now + self.clock_ahead

    def at(self, name: str) -> Played:
        if self.numb is not None and name == S:
            return self.numb
        return super().at(name)

    def rest(self) -> None:
        for name in (P, S, OTHER):
            simulated_world.settle(self.nodes / name, now=self.clock.now)

    def happen(self, deed: str, about: Any) -> None:
        """One thing that happens; what cannot happen now does not. Then everybody hears of it who can."""
        acts: dict[str, Callable[[], object]] = {
            "wait": lambda: self.wait(about),
            "cut": lambda: self.cut(late=about),
            "restore": self.restore,
            "deaf": lambda: self._set(is_heard=False),
            "heard": lambda: self._set(is_heard=True),
            "away": lambda: self._set(is_watched=False, first_off=None),
            "back": lambda: self._set(is_watched=True),
            "no agent": lambda: self._set(has_agent=False),
            "agent": lambda: self._set(has_agent=True),
            "reboot": lambda: self.reboot(seconds=about),
            "outdate": self.mark,
            "elsewhere": lambda: self.connect_elsewhere(seconds=about),
            "clock": lambda: self._set(
                clock_ahead=self.clock_ahead + about, was_set_back=self.was_set_back or about < 0
            ),
        }
        acts[deed]()
        self._hear()

    def _set(self, **changed: object) -> None:
        vars(self).update(changed)

    # What happens.

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        if self.numb_until <= end:
            self._pass(self.numb_until)
            self.numb, self.numb_until = None, math.inf
            self.rest()
        self._pass(end)

    def cut(self, *, late: float) -> None:
        if self.is_linked:
            self._lose(late=late)
            self.is_linked = False
            self.link(P, S, is_cut=True)

    def restore(self) -> None:
        self.numb, self.numb_until, self.is_linked = None, math.inf, True
        self.link(P, S, is_cut=False)
        self.clock.wait(0.01)
        self.rest()
        if self.is_on(P) and self.is_on(S):
            self.is_outdated = False

    def reboot(self, *, seconds: float) -> None:
        """The survivor loses its power, and the controller brings its replica up after its boot."""
        self.numb, self.numb_until = None, math.inf
        self.lose_power(S)
        self._hear()
        self.wait(seconds)
        self.boot(S)
        self.booted[S], self.seen_at = self.now, None
        if not self.is_elsewhere:
            self._become(S, State.PRESENT)
            self.restore() if self.is_linked else None

    def mark(self) -> None:
        """The controller outdates the replica, on the word of P."""
        if self.says_alone and self.is_watched and self.is_heard and self.numb is None and self.is_on(P):
            self.outdate()
            self.is_outdated = not self._together()

    def connect_elsewhere(self, *, seconds: float) -> None:
        """A person connects the replica to an empty one on another node, which is lost then; P writes alone."""
        if self.is_elsewhere or self.is_outdated or self.numb is not None or not self.is_on(P):
            return
        self.is_elsewhere = True
        pair: dict[str, Any] = {"secret": "by-hand", "new_secret": True}
        self._become(OTHER, State.PRESENT, peer=S, **pair)
        self._become(OTHER, State.DISCONNECTED, peer=S)
        self._become(S, State.DISCONNECTED)
        self._become(S, State.PRESENT, peer=OTHER, **pair)
        self._become(OTHER, State.PRESENT, peer=S, **pair)
        self._try(lambda: self.at(S).drbdadm("connect", NAME))
        self.clock.wait(0.01)
        self.rest()
        self.wait(seconds)
        self.lose_power(OTHER)

    def die(self, *, late: float) -> None:
        """P loses its power."""
        self.last_written = simulated_world.acknowledged(self.nodes / P, INSTANCE, now=self.clock.now) or 0
        self._lose(late=late)
        self.lose_power(P)

    def _lose(self, *, late: float) -> None:
        """S does not notice for so long that it has lost P; a cut that it has not noticed yet is noticed first."""
        if late and self._together() and self.numb is None:
            self.asked = S
            machine = Numb(self.nodes / S, self.clock, left=self.left)
            known = {command: machine.run(*command) for command in READ}
            machine.known, machine.told = known, (machine.root / drbd_node.PROC).read_text()
            self.numb, self.numb_until = machine, self.now + late

    # Who sees and hears it.

    def _together(self) -> bool:
        return self.is_linked and not self.is_elsewhere and self.is_on(P) and self.is_on(S)

    def _pass(self, moment: float) -> None:
        look = math.floor(moment / LOOK) * LOOK
        if look >= self.now and self.is_on(S):
            self._go(look)
            self.asked = S
            if self.has_agent:
                sights.look(self.nodes / S, hypervisor="kvm", now=sights.uptime())
                if self._together() or self.numb is not None:
                    self.seen_at = self.now
        self._go(moment)
        self._hear()

    def _go(self, moment: float) -> None:
        self.clock.now = max(self.clock.now, round(moment * SECOND))

    def _hear(self) -> None:
        """Both nodes report, and what the controller accepts of that is on record."""
        heard = [name for name in (P, S) if self.is_watched and self.is_on(name) and (name == S or self.is_heard)]
        for name in heard:
            self.asked = name
            facts, at = replica_facts.read(self.nodes / name, hypervisor="kvm"), replicas.Moment(self.wall, self.now)
            self.reports[name] = facts, at
            self.tracks[name] = replicas.followed(self.tracks.get(name), facts, at=at)
        if P in heard:
            self.says_alone = not self._together()
        for change in (
            *out_of_sync.parted(self.cluster, self.tracks, heard),
            *out_of_sync.joined(self.cluster, self.tracks),
        ):
            instance = dataclasses.replace(self.cluster.instances[UUID], parted=change.parted)
            self.cluster = clusters.with_instance(self.cluster, instance)

    # The failover.

    def confirm_off(self) -> dict[str, Any]:
        """P is commanded off and read back; returns what the play is told of that when the daemon records it."""
        known = {"at": self.wall, "uptime": self.now}
        node = dataclasses.replace(self.cluster.nodes[P], powered=False, off_since=known["at"])
        self.cluster = clusters.with_node(self.cluster, node)
        self.first_off = self.now
        return known

    def judged(self, *, is_recorded: bool, waits: float) -> possible_loss.Answer:
        """What becomes of a failover whose source the daemon, or the play itself, commands off; a job may wait."""
        known: dict[str, Any] = {}
        times: dict[str, float] = {}
        if is_recorded:
            known = self.confirm_off()
            self.wait(waits)
        else:
            times["seen_off"] = self.first_off = self.now
        self.asked = S
        self._answered(S, State.STANDBY)
        self.wait(max(0.0, min(25.0, self.numb_until - self.now)) if self.numb is not None else 0.0)
        self.asked = S
        times["asked"] = self.now
        disks = {**self._answered(S), "uptime": sights.uptime()}
        asked = failovers.Failover(
            INSTANCE,
            is_replicated=True,
            source=None,
            target=failovers.node(S, INSTANCE, disks=disks, guests={"states": {}}),
            is_off=True,
        )
        options = {"was_in_sync": False, "fenced": "bmc", "known_off": known, "max_loss": -1, "times": times}
        answered = failover_check._answered(self.cluster, P, options, asked)
        instance = self.cluster.instances[UUID]
        return replica_evidence.judge(self.cluster, instance, _OnDisk(self.reports), answered, source=P, target=S)

    def allowed_loss(self) -> float | None:
        """The possible loss of a failover that section 1 of the rule allows, None of one that it does not."""
        is_doubtful = self.says_alone or self.is_outdated or self.is_elsewhere or self.was_set_back
        if is_doubtful or self.seen_at is None or self.first_off is None:
            return None
        return max(0.0, self.first_off - self.seen_at + NOTICED)

    def lost(self) -> int:
        """How many acknowledged writes the replica on S lacks."""
        return self.last_written - simulated_world.replicas(self.nodes, INSTANCE, now=self.clock.now)[S]


class _OnDisk:
    """What a play knows of the nodes: the last report of each."""

    def __init__(self, reports: dict[str, tuple[replicas.NodeFacts, replicas.Moment]]) -> None:
        self.tracks = {
            name: replicas.followed(None, facts, at=replicas.Moment(at.wall)) for name, (facts, at) in reports.items()
        }
        self.offs: dict[str, replicas.Moment] = {}
        self.now = replicas.Moment(0.0)
