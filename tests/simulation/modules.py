"""Modules at work on nodes, in worlds where they take time: they come late, wait for locks, and outlive plays."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs

    from tests.simulation.nodes import Node
    from tests.simulation.world import World

TEXT = "of a play"
ON_WAY, WORKS, LONG = 0.5, 3.0, 400.0
"""Seconds that a module is on its way and at work at the most, and either where it is slow."""
PAUSE = 5.0
"""Seconds after which a module goes on that was at work on a node that hangs."""


class Gone(Exception):
    """The node of a module lost its power while that waited for a lock."""


class Module:
    """One module of an instance, ordered by a controller: it does what it is for at the end, under the lock."""

    def __init__(
        self, world: World, node: Node, instance: str, order: epochs.Order | None, act: Callable[[], object]
    ) -> None:
        self.world = world
        self.node = node
        self.instance = instance
        self.order = order
        self.controller = world.here
        self.is_over = False
        self.failure: Exception | None = None
        self.has_lock = False
        self._act = act
        self._boot = node.boots
        self._held = contextlib.ExitStack()
        self._waiter: Waiter | None = None
        self._chances = world.rng("modules")
        world.at(self._seconds(ON_WAY), self._arrive)

    def _seconds(self, usual: float) -> float:
        return self._chances.random() * (LONG if self.world.happens("module-is-slow") else usual)

    def end(self, failure: Exception | None = None) -> None:
        """It ends; its lock is free."""
        if not self.is_over:
            self.is_over, self.failure, self.has_lock = True, failure, False
            self._held.close()
            if self._waiter is not None:
                self._waiter.give_up()
            if self in self.node.modules:
                self.node.modules.remove(self)

    def _arrive(self) -> None:
        if not self.node.answers:
            self.end(errors.Failed(f"{self.node.name} does not answer"))
            return
        self._boot = self.node.boots
        self.node.modules.append(self)
        self._take()

    def _take(self) -> None:
        """Take the lock; the module sleeps while another one has it."""
        name, root = self.world.names[self.instance], self.node.followed.root
        lock = instance_lock.held(name, root, opcode=TEXT, time_limit=0)
        try:
            with self.node.followed.at_work(self.order):
                self._held.enter_context(lock)
        except errors.LockRefused:
            lock = instance_lock.held(name, root, opcode=TEXT)
            self._waiter = Waiter(lambda: self._held.enter_context(lock))
            self._wait()
        except errors.RoundsmanError as error:
            self.end(error)
        else:
            self._begin()

    def _wait(self) -> None:
        """Let it look at the lock again."""
        waiter = self._waiter
        if self.is_over or waiter is None:
            return
        if self.node.is_hung:
            self.world.at(PAUSE, self._wait)
            return
        with self.node.followed.at_work(self.order):
            pause = waiter.go_on()
        if pause is not None:
            self.world.at(pause, self._wait)
        elif waiter.failure is not None:
            self.end(waiter.failure)
        else:
            self._begin()

    def _begin(self) -> None:
        self.has_lock = True
        self.node.followed.look_at_order(self.order)
        self._look_at_others()
        self.world.at(self._seconds(WORKS), self._finish)

    def _look_at_others(self) -> None:
        """No other controller is at work on the instance, on a node of which this one knows."""
        known = self.controller.known
        its = known.instances[self.instance].nodes if known is not None else ()
        for node in self.world.nodes.values():
            for other in node.modules:
                is_its = other.has_lock and other.instance == self.instance and node.uuid in its
                if is_its and other.controller is not self.controller:
                    name = self.world.names[self.instance]
                    self.world.violated(f"two controllers are at work on {name}: on {self.node.name} and {node.name}")

    def _finish(self) -> None:
        if self.is_over:
            return
        if self.node.is_hung:
            self.world.at(PAUSE, self._finish)
            return
        try:
            self._act()
        except Exception as error:  # noqa: BLE001 - it is raised in its play
            self.end(error)
        else:
            self.end()


class Waiter(threading.Thread):
    """The module's own wait for a lock, which sleeps: it runs only while the world waits for it to sleep, or to end."""

    def __init__(self, enter: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.failure: Exception | None = None
        self._enter = enter
        self._turn, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._pause: float | None = 0.0
        self._is_gone = False
        self.start()

    def run(self) -> None:
        self._turn.acquire()
        try:
            if not self._is_gone:
                self._enter()
        except Exception as error:  # noqa: BLE001 - it is what the module answers
            self.failure = error
        self._pause = None
        self._done.release()

    def sleep(self, seconds: float) -> None:
        """As the module's `time.sleep`."""
        self._pause = seconds
        self._done.release()
        self._turn.acquire()
        if self._is_gone:
            raise Gone

    def go_on(self) -> float | None:
        """Let it run; returns for how many seconds it sleeps, None once it has ended."""
        self._turn.release()
        self._done.acquire()
        return self._pause

    def give_up(self) -> None:
        if self._pause is not None:
            self._is_gone = True
            self.go_on()
            self.join()


def sleep(seconds: float) -> None:
    """As `time.sleep` of a module that waits for a lock."""
    waiter = threading.current_thread()
    assert isinstance(waiter, Waiter)
    waiter.sleep(seconds)
