"""Asking the nodes' agents who leads, each with its own key: many at once, and all within one deadline."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..module_utils.domain.agent import signing, votes
from ..module_utils.domain.values import errors
from . import http_reads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..module_utils.domain.agent.epochs import Kept
    from .cluster import cluster as clusters

LOG = logging.getLogger(__name__)
PATH = "/1/leader"
AT_ONCE = 200
"""Nodes that are asked at the same time."""
CONNECT_SECONDS = 2.0
OK, FORBIDDEN, CANNOT = 200, 403, frozenset({404, 405})
"""An agent forbids questions from other addresses than those of its controllers; the last know no such question."""
MOST_NAMES = 8


@dataclass
class Poll:
    """What nodes (UUIDs) answered; `unable` are those that cannot vote.

    No agent listens on them, or one of an earlier version, which is known by what nobody has signed. Agents of those
    that are `deaf` (names) take no questions from this machine.
    """

    answers: dict[str, votes.Answer] = field(default_factory=dict)
    unable: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)

    @property
    def follows(self) -> dict[str, Kept | None]:
        """Whom the nodes follow that answered."""
        return {uuid: answer.follows for uuid, answer in self.answers.items()}


async def ask(
    nodes: Sequence[clusters.Node],
    port: int,
    *,
    key: bytes,
    seconds: float,
    question: Callable[[str], votes.Question] = lambda uuid: votes.Question(uuid, nonce()),
    is_enough: Callable[[Poll], bool] = lambda _: False,
) -> Poll:
    """Ask all these nodes; returns when all have answered, what came is enough, or the time is over.

    `key` is the cluster's. The order is random: if the first are silent, others are among those asked at once.
    """
    poll, waiting = Poll(), random.sample(list(nodes), len(nodes))
    has_enough = asyncio.Event()

    async def work() -> None:
        while waiting and not has_enough.is_set():
            node = waiting.pop()
            await _asked(node, port, question(node.uuid), key=key, seconds=seconds, poll=poll)
            if is_enough(poll):
                has_enough.set()

    workers = [asyncio.create_task(work()) for _ in range(min(AT_ONCE, len(nodes)))]
    enough = asyncio.create_task(has_enough.wait())
    everybody = asyncio.gather(*workers)
    ends: list[asyncio.Future[Any]] = [everybody, enough]
    try:
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Who asks may be canceled, too.
        for task in (enough, *workers):
            task.cancel()
        ended = await asyncio.gather(*workers, return_exceptions=True)
        await asyncio.gather(enough, everybody, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
    if poll.deaf:
        LOG.warning(
            "the agents of %d nodes (%s) take no question who leads from this machine: apply the role node_agent with "
            "its address in node_agent_controllers, or restore the cluster's key",
            len(poll.deaf),
            ", ".join(sorted(poll.deaf)[:MOST_NAMES]),
        )
    return poll


def nonce() -> str:
    """What only the answer to one question repeats."""
    return secrets.token_hex(16)


async def _asked(
    node: clusters.Node, port: int, question: votes.Question, *, key: bytes, seconds: float, poll: Poll
) -> None:
    own_key = signing.node_key(key, node.uuid)
    try:
        status, body = await http_reads.post(
            node.primary_ip or node.name,
            port,
            PATH,
            votes.sealed_question(question, key=own_key, now=int(time.time())),
            limit=votes.LIMIT,
            connect_seconds=CONNECT_SECONDS,
            seconds=seconds,
        )
        if status == OK:
            poll.answers[node.uuid] = votes.answer(body, key=own_key, asked=question)
        elif status in CANNOT:
            poll.unable.add(node.uuid)
        elif status == FORBIDDEN:
            poll.deaf.add(node.name)
    except ConnectionRefusedError:
        poll.unable.add(node.uuid)
    except (errors.Refused, errors.Failed) as error:
        LOG.warning("what %s answered about who leads does not count: %s", node.name, error)
    except (OSError, ValueError, OverflowError) as error:
        # The last two are of a name or a port that no host can have.
        LOG.debug("%s did not answer who leads: %s", node.name, error)
