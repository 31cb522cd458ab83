"""What a failover comes to: it looks, stops or fences, looks again, and asks the product's own rules."""

from __future__ import annotations

import dataclasses
import types
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_replica import Rejected
from ansible_collections.roundsman.cluster.plugins.action import failover_check
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import failovers as rule

from tests.simulation.acts import (
    LOOK,
    RECORD,
    STOP,
    PlayFailed,
    check_answers,
    may_fail,
    record,
    replicas,
    start,
    stop,
    tried,
    work,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.simulation.acts import Play
    from tests.simulation.world import World

NOTICED, PAUSE = 25.0, 2.5
"""Seconds in which the target may notice that the source is off, and from one look to the next."""


class Failover:
    """One failover, of an instance from a source to a target."""

    def __init__(self, world: World, run: Path, step: dict[str, Any]) -> None:
        self.world = world
        self.run = run
        self.step = step
        self.instance: str = step["instance"]["uuid"]
        self.source = world.nodes[step["source"]["uuid"]]
        self.target = world.nodes[step["target"]["uuid"]]
        self.is_up = step["instance"]["admin_state"] == "up"
        self.replicas = replicas(world, self.instance)
        self.is_stopped = False
        self.fenced_by = ""
        self.was_in_sync = False
        self.times: dict[str, float] = {}

    def play(self) -> Play:
        look = self._uptime()
        yield LOOK
        yield from self._bring_up()
        yield LOOK
        found = self._look(asks_source=self.step["source_reachable"])
        self._refuse(found)
        if rule.adopts(found):
            return (yield from self._adopt())
        self.was_in_sync = rule.is_in_sync(found)
        yield STOP
        if found.source_answers and self.source.answers:
            yield from self._work(self.source.uuid, partial(stop, self.world, self.instance, self.source.uuid))
            self.is_stopped = True
        else:
            yield from self._fence()
        self.times = {"look": look, "seen_off": self._uptime()}
        yield from self._until_noticed()
        try:
            stated = yield from self._hand_over()
        except (PlayFailed, Rejected) as failure:
            yield from self._back(failure)
        record(self.world, self.run, self._moved())
        yield STOP
        check_answers(self.world, self.target.uuid)
        if self.is_up:
            yield from self._work(self.target.uuid, partial(start, self.world, self.instance, self.target.uuid))
        return {"source_stopped": self.is_stopped, "possible_loss": stated, "forced": ""}

    def _uptime(self) -> float:
        return self.world.now - self.world.booted

    def _moved(self) -> changes.InstanceNodes:
        return changes.InstanceNodes(self.instance, self.target.uuid, tuple(self.step["secondaries"]))

    def _work(self, node: str, act: Callable[[], object]) -> Play:
        return work(self.world, self.instance, node, act)

    def _bring_up(self) -> Play:
        for node, is_asked in ((self.target, True), (self.source, not self.is_up and self.step["source_reachable"])):
            if node.answers and is_asked and node.uuid not in self.world.guests[self.instance]:
                yield from self._standby(node.uuid)

    def _standby(self, node: str) -> Play:
        return tried(self.world, self.instance, node, partial(self.replicas.standby, node))

    def _look(self, *, asks_source: bool) -> rule.Failover:
        """What both nodes say, and what becomes of the failover by that, as the action `failover_check` finds it."""
        name, options = self.step["instance"]["name"], self._options()
        source = rule.node(self.source.name, name, disks=self._disks(self.source.uuid)) if asks_source else None
        is_there = self.target.uuid in self.world.guests[self.instance]
        guests = {"states": {name: rule.RUNNING} if is_there else {}}
        asked = rule.Failover(
            name,
            is_replicated=True,
            source=source,
            target=rule.node(self.target.name, name, disks=self._disks(self.target.uuid), guests=guests),
            is_stopped=self.is_stopped,
            is_off=bool(self.fenced_by),
            is_unfinished=self.step["unfinished"],
        )
        if not rule.is_silent(asked) or rule.adopts(asked) or asked.target.replicas is None:
            return asked
        where = tree.Tree(self.world.root)
        play: Any = types.SimpleNamespace(where=where)
        loss = failover_check._possible_loss(play, store.read(where.config), options, asked)
        self.world.tell(self.replicas.name, "asks what may be lost:", loss.verdict.name, loss.seconds)
        return dataclasses.replace(asked, loss=loss)

    def _options(self) -> dict[str, Any]:
        return {
            "instance": self.step["instance"],
            "source": {"name": self.source.name},
            "target": {"name": self.target.name},
            "was_in_sync": self.was_in_sync,
            "fenced": self.fenced_by,
            "known_off": self.step["source_off"],
            "max_loss": self.step["max_loss"],
            "times": {**self.times, "asked": self._uptime()},
        }

    def _disks(self, node: str) -> dict[str, Any]:
        assert self.world.disks is not None
        if not self.world.nodes[node].answers:
            return {"unreachable": True, "msg": "it does not answer"}
        return self.world.disks.answer(self.instance, node)

    def _refuse(self, found: rule.Failover) -> None:
        if objection := rule.objection(found):
            cluster, waits = store.read(tree.Tree(self.world.root).config), dict(rule.waits(found))
            basis = replica_evidence.basis(cluster, cluster.instance(self.instance))
            raise PlayFailed(objection, {"waits": {**waits, "basis": basis}} if waits else None)

    def _fence(self) -> Play:
        yield LOOK
        if self.source.greets:
            record(self.world, self.run, changes.NodeLived(self.source.uuid))
            raise PlayFailed(f"{self.source.name} did not confirm the stop, and is alive")
        outcome = self.source.command(power.Command.CONFIRM_OFF)
        if outcome.read_on:
            record(self.world, self.run, changes.NodeLived(self.source.uuid))
        if not outcome.confirmed or outcome.read_on:
            raise PlayFailed(f"{self.source.name} does not answer, and nobody knows that it is off")
        self.fenced_by = "bmc"

    def _until_noticed(self) -> Play:
        until = self.world.now + NOTICED
        while not self.is_stopped and self.world.now < until:
            if not self.replicas.is_connected(self.target.uuid):
                return
            yield PAUSE

    def _hand_over(self) -> Play:
        """Look again, and let the target write; returns what may be lost."""
        yield LOOK
        check_answers(self.world, self.target.uuid)
        found = self._look(asks_source=self.is_stopped)
        self._refuse(found)
        if not self.is_stopped and self.source.read_power() is not power.State.OFF:
            raise PlayFailed(f"{self.source.name} does not read off any more")
        if self.is_stopped:
            check_answers(self.world, self.source.uuid)
            yield from self._work(self.source.uuid, partial(self.replicas.standby, self.source.uuid))
        yield RECORD
        check_answers(self.world, self.target.uuid)
        stated = rule.stated_loss(found)
        if stated:
            self._give_up(stated["seconds"])
        if self.is_up:
            yield from self._work(self.target.uuid, self._active(self.target.uuid, alone=rule.may_be_alone(found)))
        yield RECORD
        may_fail(self.world, "after the promotion")
        return stated

    def _active(self, node: str, *, alone: bool) -> Callable[[], object]:
        return partial(self.replicas.active, node, alone=alone)

    def _give_up(self, seconds: Any) -> None:
        """What is stated is within what is allowed where no person said more, and the source has not said otherwise."""
        assert self.world.known is not None
        if self._said_alone():
            self.world.violated(f"{self.replicas.name} fails over although its source had said that it writes alone")
        limit = replica_evidence.max_loss(self.world.known, self.source.uuid)
        if not isinstance(seconds, (int, float)) or seconds > limit:
            self.world.violated(f"a failover of {self.replicas.name} may lose {seconds} s, and {limit} s are allowed")
        else:
            self.replicas.give_up(self.target.uuid, seconds)

    def _said_alone(self) -> bool:
        """Whether the last report of the source that was accepted says that its replica has no peer."""
        assert self.world.disks is not None
        where, resource = tree.Tree(self.world.root), self.world.disks.resources[self.instance]
        for path in where.reports.glob(f"{self.source.uuid}.json"):
            report = reports.read(path.read_bytes(), cluster_key=where.hmac_key.read_bytes(), accept_cluster_key=True)
            return any(fact.resource == resource and fact.is_alone for fact in report.facts.replicas or ())
        return False

    def _back(self, failure: Exception) -> Play:
        """It broke off after the stop: the instance is started again where it was."""
        yield LOOK
        if self.target.answers:
            yield from self._standby(self.target.uuid)
        if self.is_stopped and self.is_up and self.source.answers:
            try:
                yield from self._work(self.source.uuid, self._active(self.source.uuid, alone=True))
                yield from self._work(self.source.uuid, partial(start, self.world, self.instance, self.source.uuid))
            except (PlayFailed, Rejected) as error:
                self.world.tell(self.replicas.name, "is not started again:", error)
        raise failure

    def _adopt(self) -> Play:
        """A migration that did not end took it to the target: the source must say so, or be off."""
        if self.step["source_reachable"] and self.source.answers:
            if self.source.uuid in self.world.guests[self.instance]:
                raise PlayFailed("both nodes have it")
        else:
            yield from self._fence()
        record(self.world, self.run, self._moved())
        yield RECORD
        if self.source.answers:
            yield from self._standby(self.source.uuid)
        return None
