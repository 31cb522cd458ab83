"""The nodes that vote: who they are, what they are asked, and in which boots they have answered.

What half of them is, and for what it is enough, is in `leading.py`; who asks, in `leadership.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.agent import votes
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import voting
from ...plugins.plugin_utils.cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ...plugins.module_utils.domain.agent import epochs
    from ...plugins.module_utils.domain.values import tree
    from ..configuration import Configuration
    from .barrier import Barrier

    Asking = Callable[[str], votes.Question]
    """What a node (UUID) is asked."""
    OverSsh = Callable[[clusters.Cluster, Sequence[clusters.Node], Asking], Awaitable[voting.Poll]]
    """Asks nodes that have no agent (`ssh_votes.py`)."""

DEADLINE = 3.0
"""Seconds for the answers of all nodes, and again for their promises."""
ROUND_SECONDS = 5.0
"""Seconds for the answers of all nodes in a round of questions while the daemon serves."""


class Electorate:
    """Asks the nodes, and tells the barrier what they answer; `over_ssh` asks those that have no agent.

    `known` are the nodes (UUIDs) that have voted before, `boots` the boots in which agents have answered this daemon.
    `is_unvoted`: no node has an agent that votes.
    """

    def __init__(
        self, where: tree.Tree, configuration: Configuration, *, barrier: Barrier, over_ssh: OverSsh | None
    ) -> None:
        self._where = where
        self._configuration = configuration
        self._barrier = barrier
        self._over_ssh = over_ssh
        self._unable: frozenset[str] = frozenset()
        self.known: frozenset[str] = frozenset()
        self.boots: dict[str, str] = {}
        self.is_unvoted = False

    @property
    def can_ask_over_ssh(self) -> bool:
        """Whether nodes that have no agent can be asked."""
        return self._over_ssh is not None

    def reachable(self) -> list[clusters.Node]:
        """The nodes that are neither offline nor recorded as off."""
        cluster = self._configuration.current
        return [node for node in cluster.nodes.values() if clusters.reachable(cluster, node)]

    def voters(self) -> list[clusters.Node]:
        """The nodes whose agents are asked: they are neither offline nor recorded as off."""
        return self.reachable() if self._port else []

    def recorded_off(self) -> list[clusters.Node]:
        """The nodes in service that are recorded as off; another controller may have powered on one that answers."""
        cluster = self._configuration.current
        return [node for node in cluster.nodes.values() if not node.offline and not clusters.reachable(cluster, node)]

    def has_no_votes(self, asked: Sequence[clusters.Node], poll: voting.Poll) -> bool:
        """Whether no node has an agent that votes; where all are recorded as off, nobody knows that."""
        return not self._port or (bool(asked) and not self.able(asked, poll))

    def still_has_no_votes(self, asked: Sequence[clusters.Node], poll: voting.Poll) -> bool:
        """As `has_no_votes` while the daemon serves: silence alone does not show that a node has an agent by now."""
        has_voted = bool(poll.answers) or any(node.uuid in self.known for node in asked)
        return self.has_no_votes(asked, poll) or (self.is_unvoted and not has_voted)

    def unable(self, poll: voting.Poll) -> set[str]:
        """The nodes (UUIDs) that cannot vote; one that has voted before can, whatever says that it cannot."""
        return poll.unable - self.known

    def able(self, asked: Sequence[clusters.Node], poll: voting.Poll) -> frozenset[str]:
        """The nodes (UUIDs) that vote, be they silent now."""
        return frozenset(node.uuid for node in asked) - self.unable(poll)

    def able_to_obey(self, asked: Sequence[clusters.Node], poll: voting.Poll) -> frozenset[str]:
        """The nodes (UUIDs) of which half have to answer before others are fenced.

        One that has never voted, and could not when it answered last, does not count once it is silent.
        """
        return self.able(asked, poll) - (self._unable - self.known)

    async def ask(
        self,
        nodes: Sequence[clusters.Node],
        *,
        seconds: float,
        question: Asking = lambda uuid: votes.Question(uuid, voting.nonce()),
        is_enough: Callable[[voting.Poll], bool] = lambda _: False,
    ) -> voting.Poll:
        """Ask the agents of these nodes.

        Raises:
            StoreFailed: the cluster's key cannot be read.
        """
        if not nodes or not self._port:
            return voting.Poll()
        poll = await voting.ask(
            nodes, self._port, key=self._key(), seconds=seconds, question=question, is_enough=is_enough
        )
        self.boots |= boots_of(poll)
        self._unable = (self._unable | poll.unable) - poll.answers.keys()
        is_unvoted = self.still_has_no_votes(nodes, poll)
        self._barrier.hear(poll.answers, without_agents=() if is_unvoted else self.unable(poll))
        return poll

    async def ask_recorded_off(self) -> voting.Poll:
        """Ask the nodes that are recorded as off; the barrier does not hear them: it asks whether they are off."""
        nodes = self.recorded_off()
        return await voting.ask(nodes, self._port, key=self._key(), seconds=DEADLINE) if nodes else voting.Poll()

    async def ask_over_ssh(
        self,
        nodes: Sequence[clusters.Node],
        question: Asking = lambda uuid: votes.Question(uuid, voting.nonce()),
    ) -> voting.Poll:
        """Ask these nodes over SSH."""
        if not nodes or self._over_ssh is None:
            return voting.Poll()
        poll = await self._over_ssh(self._configuration.current, nodes, question)
        self._barrier.hear(poll.answers, without_agents=())
        return poll

    def offer(self, kept: epochs.Kept | None, *, ends: bool = False, boots: Mapping[str, str] | None = None) -> Asking:
        """An offer to each node whose boot is known, by `boots` or what agents said; others are only asked."""
        known = self.boots if boots is None else boots

        def question(uuid: str) -> votes.Question:
            boot = known.get(uuid)
            if boot is None or kept is None:
                return votes.Question(uuid, voting.nonce())
            return votes.Question(uuid, voting.nonce(), boot, kept, ends)

        return question

    async def offer_to(
        self, nodes: Sequence[clusters.Node], kept: epochs.Kept | None, *, seconds: float | None = None
    ) -> voting.Poll:
        """Offer an epoch to these nodes; those whose boot is learned by that are asked twice."""
        poll = await self.ask(nodes, seconds=ROUND_SECONDS if seconds is None else seconds, question=self.offer(kept))
        if kept is None:
            return poll
        behind = {
            uuid for uuid, found in poll.follows.items() if found is None or found.epoch.number < kept.epoch.number
        }
        again = [node for node in nodes if node.uuid in behind]
        poll.answers |= (await self.ask(again, seconds=ROUND_SECONDS, question=self.offer(kept))).answers
        return poll

    async def offer_over_ssh(self, nodes: Sequence[clusters.Node], kept: epochs.Kept | None) -> voting.Poll:
        """Offer an epoch to these nodes, once they have said in which boot they are; returns what they said then."""
        poll = await self.ask_over_ssh(nodes)
        behind = [node for node in nodes if node.uuid in poll.answers]
        await self.ask_over_ssh(behind, self.offer(kept, boots=boots_of(poll)))
        return poll

    @property
    def _port(self) -> int:
        return self._configuration.current.maintenance.settings.agent_port

    def _key(self) -> bytes:
        try:
            return self._where.hmac_key.read_bytes()
        except OSError as error:
            raise errors.StoreFailed(f"{self._where.hmac_key} cannot be read: {error.strerror}") from error


def boots_of(poll: voting.Poll) -> dict[str, str]:
    """The boot ids of the nodes (UUIDs) that answered."""
    return {uuid: answer.boot for uuid, answer in poll.answers.items()}
