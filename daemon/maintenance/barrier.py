"""The barrier between two epochs: which nodes may still have steps of another controller at work, and until when.

What it waits for by the rules is `leading.barrier`; why: docs/decisions/who-leads.md.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.power import power
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.cluster import known_off
from . import leading

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

    from ...plugins.module_utils.domain.agent import epochs, votes
    from ..configuration import Configuration

LOG = logging.getLogger(__name__)
SECONDS = 60.0
"""How long an opcode waits for nodes on which steps of another controller may still be at work."""
LEAST = 5.0
"""Seconds from one question to a node, or to its BMC, to the next."""


class Barrier:
    """What nodes (UUIDs) said last, which of them are off, and which this controller has to wait for."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        epoch: Callable[[], epochs.Epoch | None],
        read_power: Callable[[Mapping[str, str]], AsyncIterator[power.Outcome]] | None = None,
    ) -> None:
        self._configuration = configuration
        self._epoch = epoch
        self._read_power = read_power
        self.waits: frozenset[str] = frozenset()
        """The nodes that have not answered yet that they follow this controller and that no step is at work."""
        self._past: dict[str, float] = {}
        self._power: dict[str, tuple[float, power.State]] = {}
        self._reading = asyncio.Lock()
        self._replies: dict[str, votes.Answer] = {}

    def forget_statements(self) -> None:
        """What people have stated until now of nodes that are off does not count: another controller may have led."""
        self._past = {node.uuid: node.off_confirmed for node in self._configuration.current.nodes.values()}

    def raise_for(self, nodes: frozenset[str]) -> None:
        """Wait for these nodes, because another controller led; what BMCs have read until now is of before."""
        self.waits = nodes
        self._power.clear()

    def hear(self, answers: Mapping[str, votes.Answer], *, without_agents: Collection[str]) -> None:
        """Note what nodes answered; those that have never had an agent cannot answer, and are not waited for.

        What was stated, or read of its power, before a node answered says nothing of it any more.
        """
        known = self._configuration.current.nodes
        self._replies |= answers
        self._past |= {uuid: known[uuid].off_confirmed for uuid in answers.keys() & known.keys()}
        for uuid in answers.keys() & self._power.keys():
            del self._power[uuid]
        self.waits -= frozenset(without_agents)

    def still(self, epoch: epochs.Epoch) -> frozenset[str]:
        """The nodes that have not answered yet that they follow this epoch and that no step is at work.

        Nor were they off since it began.
        """
        off = self._off_since_start()
        return frozenset(uuid for uuid in self.waits - off if self._reply(uuid) != leading.Reply(epoch))

    async def wait(
        self,
        instances: Collection[str],
        nodes: Collection[str],
        *,
        ask: Callable[[Sequence[clusters.Node]], Awaitable[object]],
        keep: Callable[[], Awaitable[None]],
    ) -> None:
        """Return once no step of another controller can be at work on these instances; nodes are asked again meanwhile.

        `keep` has what BMCs have read kept durably.

        Raises:
            Refused: that is not so; the text names the node, and what helps.
        """
        touched, clock = self.touched(instances, nodes), asyncio.get_running_loop().time
        end = clock() + SECONDS
        while text := self._blocked(instances, nodes):
            if clock() > end:
                raise errors.Refused(text)
            if await self._read_off(touched):
                await keep()
            if not self._blocked(instances, nodes):
                break
            waited = self.waits & touched
            await ask([node for node in self._configuration.current.nodes.values() if node.uuid in waited])
            if self._blocked(instances, nodes):
                await asyncio.sleep(LEAST)

    def touched(self, instances: Collection[str], nodes: Collection[str]) -> set[str]:
        """These nodes, and those of instances (UUIDs); of one that an import has removed there are none."""
        known = self._configuration.current.instances
        its = (known[uuid] for uuid in instances if uuid in known)
        return {*nodes, *(node for instance in its for node in (*instance.nodes, *instance.places))}

    def _off_since_start(self) -> set[str]:
        """The nodes that are known to be off by what their BMCs, or people, have said since this daemon began.

        They have not answered since then. What is on record may be older: another controller may have powered a node on
        since this folder was copied.
        """
        nodes = [node for node in self._configuration.current.nodes.values() if known_off.is_known_off(node)]
        stated = {node.uuid for node in nodes if node.off_confirmed not in {0.0, self._past.get(node.uuid)}}
        return stated | {node.uuid for node in nodes if self._state(node.uuid) is power.State.OFF}

    def _state(self, uuid: str) -> power.State:
        """What the BMC of a node has read since this daemon began."""
        return self._power.get(uuid, (0.0, power.State.UNKNOWN))[1]

    async def _read_off(self, nodes: Collection[str]) -> bool:
        """Read those of these nodes that are known to be off, and that are waited for; returns whether any was."""
        cluster, clock = self._configuration.current, asyncio.get_running_loop().time
        async with self._reading:
            waited = self.waits & set(nodes)
            due = {
                node.name: node.uuid
                for node in cluster.nodes.values()
                if node.uuid in waited
                and known_off.is_known_off(node)
                and self._power.get(node.uuid, (-math.inf,))[0] < clock() - LEAST
            }
            drivers = {
                name: clusters.parameter(cluster, cluster.nodes[uuid], "oob_program") for name, uuid in due.items()
            }
            asked = {name: driver for name, driver in drivers.items() if driver is not None}
            if not asked or self._read_power is None:
                return False
            found = dict.fromkeys(asked, power.State.UNKNOWN)
            try:
                async for outcome in self._read_power(asked):
                    found[outcome.name] = power.State.ON if outcome.read_on else outcome.after
            except (errors.RoundsmanError, OSError, ValueError) as error:
                LOG.warning("the power of %s could not be read: %s", ", ".join(sorted(asked)), error)
            self._power |= {due[name]: (clock(), found[name]) for name in asked}
        return True

    def _reply(self, uuid: str, *, instance: str = "") -> leading.Reply | None:
        """What a node said last: whom it follows, and the steps at work there, or only those on one instance (name)."""
        answer = self._replies.get(uuid)
        if answer is None or answer.follows is None:
            return None
        steps = {name: note for name, note in answer.steps.items() if instance in {"", name}}
        return leading.Reply(answer.follows.epoch, tuple(f"{name}: {note}" for name, note in sorted(steps.items())))

    def _blocked(self, instances: Collection[str], nodes: Collection[str]) -> str:
        cluster, epoch = self._configuration.current, self._epoch()
        if epoch is None or not self.waits:
            return ""
        fenced = dict.fromkeys(self._off_since_start(), epoch)
        names = {node.uuid: node.name for node in cluster.nodes.values()}
        # One that an import has removed while it was waited for is nobody's any more.
        for instance in (cluster.instances[uuid] for uuid in instances if uuid in cluster.instances):
            touched = {*instance.nodes, *instance.places, *nodes} & self.waits
            said = {node: self._reply(node, instance=instance.name) for node in touched}
            replies = {node: reply for node, reply in said.items() if reply is not None}
            for node, why in sorted(leading.barrier(epoch, sorted(touched), replies, fenced=fenced).items()):
                return (
                    f"another controller led before {epoch}, and its steps on {instance.name} may still be at work: "
                    f"{names.get(node, node)} {self._why(node, why)}; have it answer (its agent, or over "
                    f"SSH), or power that node off with `roundsman node power off {names.get(node, node)}`"
                    f"{self._or_state(node)}"
                )
        return ""

    def _why(self, uuid: str, why: str) -> str:
        """Why a node is waited for, which may be recorded as off."""
        cluster = self._configuration.current
        node = cluster.nodes.get(uuid)
        if node is None or not known_off.is_known_off(node) or uuid in self._replies:
            return why
        has_bmc = clusters.parameter(cluster, node, "oob_program") is not None
        read = "its BMC reads on" if self._state(uuid) is power.State.ON else "its BMC does not answer"
        return f"is recorded as off, but {read if has_bmc else 'it has no BMC'}"

    def _or_state(self, uuid: str) -> str:
        node = self._configuration.current.nodes.get(uuid)
        if node is None or not known_off.is_known_off(node):
            return ""
        return (
            f", or check on site that it is off and stays off, then state that with `roundsman node confirm-off "
            f"{node.name}`"
        )
