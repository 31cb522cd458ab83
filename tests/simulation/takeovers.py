"""A second controller with a copy of the state of the first: the first is lost, the other leads, and the first is back.

A copy is what a backup or a rash administrator makes. The daemon of the first is killed, suspended or stopped, or loses
power; its processes live on, act on nodes in their epoch, and record into the folder of the first. People start, wait
and stop what the daemons say, until one controller is left.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Statement

from tests.simulation.controllers import Controller
from tests.simulation.nodes import ON_WIRE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.daemon.service import Service

    from tests.simulation.world import World

FAULT = "second-controller"
HOWS = ("kill", "suspend", "suspend", "stop", "lose power", "nothing")
SOON, LATER = 60.0, 900.0
LAPSE = 200.0
"""Seconds after which a node takes no silent controller for one at work."""
NOBODY_VOTES = 0.5
"""How often a person says so where a daemon waits."""
MOST_STARTS = 12
MOST_WAITS = 10
LONGEST = 7200.0
"""Seconds after the copy within which people have left one controller."""
LOOK, UNNOTICED = 30.0, 600.0
"""Seconds from one look to the next, and for how long a controller works on whose nodes follow another one."""


class Takeover:
    """What becomes of the two controllers of a world; in most worlds there is only one."""

    def __init__(self, world: World, *, start: Callable[[Controller], None]) -> None:
        self._world = world
        self._start = start
        self._chances = world.rng("second controller")
        self._first = world.here
        self._second: Controller | None = None
        self._how = ""
        self._is_together = False
        self._refusals = 0
        self._waits = 0
        self._lost_since: dict[Controller, float] = {}
        self._stays: Controller | None = None
        self.is_over = True
        has_agents = world.known is not None and world.known.maintenance.settings.agent_port
        if has_agents and world.happens(FAULT):
            self.is_over = False
            world.modules_take_time = True
            last = world.case.steps[-1].at if world.case.steps else SOON
            world.at(self._chances.random() * last, self._copy)

    def _soon(self) -> float:
        return self._chances.random() * self._chances.choice((SOON, LATER))

    def _copy(self) -> None:
        """The folder is copied, as it is at this moment."""
        world, first = self._world, self._first
        second = self._second = Controller(world, first.root.with_name("second"), name="second", booted=world.now)
        shutil.copytree(first.root, second.root, ignore=shutil.ignore_patterns("run"), symlinks=True)
        second.boot()
        second.disk.settle()
        world.controllers.append(second)
        world.tell("the state is copied")
        self._how, self._is_together = self._chances.choice(HOWS), world.happens("controllers-start-together")
        self._how = "stop" if self._is_together else self._how
        world.at(self._chances.choice((0.0, self._soon())), self._lose)
        world.at(LONGEST, self._settle)
        world.at(LOOK, self._look)

    def _lose(self) -> None:
        first, world = self._first, self._world
        world.tell("the first controller:", self._how)
        assert self._second is not None
        with world.being(self._second):
            after = self._soon()
            world.at(after, partial(self._start, self._second))
        if self._is_together:
            world.at(after + self._chances.random() * ON_WIRE, self._back)
        if self._how != "nothing":
            first.restarts = False
        if self._how == "suspend":
            first.is_suspended = True
        elif first.loop is None or first.is_dead:
            return
        elif self._how == "stop":
            self._stop(first)
        elif self._how == "kill":
            world.kill("by a person")
        elif self._how == "lose power":
            world.lose_power("by a person")

    def _stop(self, controller: Controller) -> None:
        """A person ends the daemon; one that does not serve yet ends at once."""
        if controller.watch is not None and controller.watch.service is not None:
            controller.watch.stopping.set()
        else:
            with self._world.being(controller):
                self._world.kill("by a person")

    @property
    def _is_first_at_work(self) -> bool:
        return self._first.restarts and not self._first.is_suspended

    def leads(self, controller: Controller, made: Service) -> None:
        """A daemon has begun to lead."""
        epoch = made.leadership.epoch
        self._world.tell("leads in epoch", epoch.number if epoch is not None else 0)
        for each in self._world.controllers:
            is_voted = not (each.statement.no_voting or controller.statement.no_voting)
            if each is not controller and epoch is not None and is_voted and each.number == epoch.number:
                self._world.violated(f"two controllers lead in epoch {epoch.number}")
        controller.leads, controller.epoch = True, epoch
        controller.known = made.configuration.current
        if len(self._world.controllers) == 1 or self._world.leader is controller:
            return
        if controller.number < self._world.leader.number:
            # It goes on in the epoch that it had, and the nodes know a later one.
            return
        self._world.leader = controller
        if self._other(controller).epoch is not None:
            controller.took_over = self._world.now, controller.number
        self._world.look_for_strays()
        if controller is self._second and self._stays is None:
            self._world.at(self._soon(), self._back)

    def _back(self) -> None:
        """The first one goes on, or is started again by somebody who does not know of the second."""
        first = self._first
        if self._stays is not None or self._is_first_at_work:
            return
        self._world.tell("the first controller is back")
        first.restarts, first.is_suspended = True, False
        with self._world.being(first):
            self._start(first)

    def refused(self, controller: Controller, text: str) -> None:
        """A daemon has ended because it may not lead; a person reads why."""
        world = self._world
        if len(world.controllers) == 1:
            world.violated(f"the daemon ends, and there is no other controller: {text}")
            return
        controller.restarts = False
        self._refusals += 1
        if self._refusals > MOST_STARTS:
            world.violated(f"no controller can be started: {text}")
        if self._stays is None and self._is_other_at_work(controller):
            self._leave(self._other(controller))
            return
        controller.statement = Statement(is_restored="--restored" in text or controller.statement.is_restored)
        world.at(LAPSE, partial(self._start_again, controller))

    def helps(self, controller: Controller) -> None:
        """A daemon waits for silent nodes: a person has them answer, or says that nobody votes."""
        world = self._world
        if (
            not self.is_over
            and self._stays is None
            and not self._is_other_at_work(controller)
            and self._chances.random() < 0.5
        ):
            world.tell("a person says that nobody votes")
            controller.statement = Statement(no_voting=True, is_restored=controller.statement.is_restored)
            world.kill("by a person")
        world.tell("a person has the nodes answer")
        for node in sorted(world.nodes.values(), key=lambda node: node.name):
            node.recover()

    def _start_again(self, controller: Controller) -> None:
        controller.restarts = True
        self._start(controller)

    def _other(self, controller: Controller) -> Controller:
        return next(each for each in self._world.controllers if each is not controller)

    def _is_other_at_work(self, controller: Controller) -> bool:
        others = [each for each in self._world.controllers if each is not controller]
        return any(each.restarts and not each.is_suspended for each in others)

    def _settle(self) -> None:
        """A person makes an end of it: the one that led last stays."""
        if self._stays is None:
            leaders = [each for each in self._world.controllers if each.leads]
            self._leave(max(leaders, key=lambda each: each.number, default=self._second or self._first))

    def _leave(self, stays: Controller) -> None:
        """One controller stays, and the machine of the other is installed anew."""
        world, other = self._world, self._other(stays)
        self._stays = stays
        world.at(LAPSE, self._end)
        world.tell("the", stays.name or "first", "controller stays")
        other.restarts = other.is_suspended = False
        other.end_processes("ends: its machine is installed anew")
        if not stays.restarts or stays.is_suspended:
            stays.restarts, stays.is_suspended = True, False
            with world.being(stays):
                self._start(stays)
        with world.being(other):
            if other.loop is not None and not other.is_dead:
                world.kill("by a person")

    def _end(self) -> None:
        """Nodes that follow what the other one offered in vain follow the one that stays, without a person."""
        stays, world = self._stays, self._world
        assert stays is not None
        self._read_epochs()
        refuse = [node for node in world.nodes.values() if node.followed.refuses(stays.epoch)]
        if not refuse or not stays.leads:
            self.is_over = True
            return
        self._waits += 1
        if self._waits > MOST_WAITS and any(node.answers for node in refuse):
            world.violated(f"{', '.join(sorted(node.name for node in refuse))} refuse what the one that stays orders")
            self.is_over = True
            return
        world.at(LAPSE, self._end)

    def _read_epochs(self) -> None:
        """A daemon that serves may have begun one more epoch."""
        for each in self._world.controllers:
            made = each.watch.service if each.leads and each.watch is not None else None
            if made is not None and made.leadership.epoch is not None:
                each.epoch = made.leadership.epoch

    def _look(self) -> None:
        """No controller works on for minutes whose orders most of the nodes refuse."""
        world = self._world
        self._read_epochs()
        for each in world.controllers:
            refuse = [node for node in world.nodes.values() if node.answers and node.followed.refuses(each.epoch)]
            if each.leads and each.is_running and 2 * len(refuse) > len(world.nodes):
                since = self._lost_since.setdefault(each, world.now)
                if world.now - since > UNNOTICED:
                    world.violated(f"the {each.name or 'first'} controller works on, and the nodes follow another one")
            else:
                self._lost_since.pop(each, None)
        if not self.is_over:
            world.at(LOOK, self._look)
