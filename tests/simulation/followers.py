"""Whom the nodes of the world follow, and the locks of their steps: the product's code, on files of each node."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils import (
    instance_lock,
    leader_record,
    node_settings,
    whitelist,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs, signing, votes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import following

from tests.simulation.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world import World

BOOT_ID = "proc/sys/kernel/random/boot_id"


class NodeDisk(Disk):
    """The disk of a node, which neither fails nor is full."""

    def _refuse(self, _found: os.stat_result, *, is_folder: bool) -> None:
        pass


class Followed:
    """The files of a node that say whom it follows, and the agent that answers for them.

    `kept` is the highest epoch of which anybody was told that this node follows it, as seen from outside.
    """

    def __init__(self, world: World, node: str, name: str, key: bytes) -> None:
        self.world = world
        self.name = name
        self.kept: epochs.Kept | None = None
        self.root = world.root.parent / "nodes" / name
        self._disk = NodeDisk(world, self.root, concern=f"power loss of {name}")
        self._settings = node_settings.Settings(self.root, node, name, whitelist.Owner(0, 0), 60.0)
        path = self.root / "var/lib/roundsman/node.key"
        for made in (path, self.root / BOOT_ID, self.root / instance_lock.FOLDER / "any"):
            made.parent.mkdir(parents=True)
        path.write_bytes(key)
        path.chmod(0o600)
        self.boot(1)

    def boot(self, number: int) -> None:
        """The node boots, and its agent starts."""
        self.boot_id = str(uuid.UUID(int=number))
        (self.root / BOOT_ID).write_text(f"{self.boot_id}\n")
        self._look_at_kept()
        self._disk.settle()
        self._agent = following.Follower(self._settings, clock=lambda: self.world.now)

    def _look_at_kept(self) -> None:
        """Whatever it has said that it follows, it follows after a loss of power."""
        try:
            found = leader_record.load(self.root)
        except errors.StoreFailed:
            found = None
        if self.kept is not None and (found is None or found.epoch.number < self.kept.epoch.number):
            self.world.violated(f"{self.name} has forgotten that it follows epoch {self.kept.epoch.number}")

    def lose_power(self) -> None:
        self._disk.lose_power()

    def answer(self, data: bytes) -> bytes:
        """What the agent answers to a question of a controller; empty where it answers none."""
        with self.at_work():
            given = self._agent.answer(data)
        if given and (follows := votes.kept(json.loads(signing.read_envelope(given).msg)["follows"])) is not None:
            self._keeps(follows)
        return given

    @contextlib.contextmanager
    def held(self, instance: str, order: epochs.Order | None) -> Iterator[None]:
        """A step of an instance (name) holds its lock here, and its epoch is one that this node follows.

        Raises:
            NotFollowed: it is not. LockRefused: another step has the lock.
        """
        with contextlib.ExitStack() as lock:
            with self.at_work(order):
                lock.enter_context(instance_lock.held(instance, self.root, opcode="", time_limit=0))
            self.look_at_order(order)
            yield

    def refuses(self, epoch: epochs.Epoch | None) -> bool:
        """Whether the node has said that it follows another one."""
        return self.kept is not None and (epoch is None or not _is_followed(self.kept, epoch))

    def require(self, order: epochs.Order | None) -> None:
        """The same for a step without a lock."""
        with self.at_work(order):
            leader_record.require_ordered(self.root)
        self.look_at_order(order)

    def look_at_order(self, order: epochs.Order | None) -> None:
        """A step is at work here by this order: the node has not said that it follows a later one, nor booted since."""
        if order is not None and order.boot not in {"", self.boot_id}:
            self.world.violated(f"{self.name} does what was ordered for its boot before")
        if self.kept is not None and self.refuses(order.epoch if order is not None else None):
            told = f"epoch {order.epoch.number} orders" if order is not None else "no epoch orders"
            self.world.violated(f"{self.name} does what {told}, and follows epoch {self.kept.epoch.number}")
        if order is not None:
            self._keeps(epochs.Kept(order.epoch, order.master, order.serial))

    def _keeps(self, follows: epochs.Kept) -> None:
        before = self.kept
        if before is None or follows.epoch.number > before.epoch.number:
            self.world.tell(self.name, "follows epoch", follows.epoch.number)
        if before is None or (follows.epoch.number >= before.epoch.number and follows.goes_on >= before.goes_on):
            self.kept = follows

    @contextlib.contextmanager
    def at_work(self, order: epochs.Order | None = None) -> Iterator[None]:
        """What is written meanwhile is on this node's disk; what orders it is in the environment of modules."""
        before, self.world.writes_on = self.world.writes_on, self._disk
        os.environ[leader_record.VARIABLE] = "" if order is None else str(order)
        try:
            yield
        finally:
            self.world.writes_on = before
            del os.environ[leader_record.VARIABLE]


def _is_followed(kept: epochs.Kept, ours: epochs.Epoch) -> bool:
    return ours.number > kept.epoch.number or ours == kept.epoch or ours.id in kept.goes_on
