"""Asking the nodes' agents: all at once over HTTP; what they have signed goes into the spool, unopened.

Silence is never health: who does not answer is counted, told, and leaves a note in the spool, as `diagnose.yml` does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.agent import collected, reports, signing
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import http_reads
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.silent_nodes import dead_nodes
from . import rejected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from ..configuration import Configuration

LOG = logging.getLogger(__name__)
AT_ONCE = 100
"""Nodes that are asked at the same time."""
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""How long one request may take in all, from its turn on."""
NOTED = 12
"""The spool gets a note of one in so many questions that a node that is asked quickly misses."""
AT_HAND = 16384
"""The bytes of an answer whose signature is checked at once; for more the event loop is not kept waiting."""
STALL_SECONDS = 5.0
"""A question that took so much longer than it may is none: this process was suspended meanwhile, and not its node."""
GREETINGS = 2
"""How often a server of SSH has not greeted, at least, before that counts."""
OK = 200
MEASURED = 1.05
"""How much more than all CPUs an honest measurement may come to."""
OLD = 3.0
"""A load that is this many intervals old is none."""


@dataclass(frozen=True)
class Load:
    """How many CPUs of a node were busy on average, and when it said so: unix seconds, and monotonic ones."""

    cpus: float
    at: float
    read: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Seen:
    """How a node's agent answers: misses in a row, and when it signed an answer last (unix seconds).

    Answers that the node did not sign prove nothing: a machine that took its address may have given them. `unsigned`
    counts them since the last that it signed, `since` is when the first question after that was. `text` says why it did
    not answer, or what is wrong with its answer. `ssh_misses` counts the last of these misses in which its SSH server
    did not greet either, where that was asked.
    """

    misses: int = 0
    unsigned: int = 0
    since: float = 0.0
    answered: float = 0.0
    text: str = ""
    load: Load | None = None
    ssh_misses: int = 0

    @property
    def is_asked(self) -> bool:
        """Whether the node was asked the last time all were."""
        return self.is_silent or self.answered > 0

    @property
    def is_silent(self) -> bool:
        """Whether no answer has come since that the node signed."""
        return self.questions > 0

    @property
    def questions(self) -> int:
        """How many questions in a row brought no answer that the node signed."""
        return self.misses + self.unsigned


class Agents:
    """What is known of the agents; `ask` asks all of them once. Nothing of it outlives the daemon."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        spool: Path,
        key: Path,
        clock: Callable[[], float],
        seen: dict[str, Seen] | None = None,
        on_poll: Callable[[], None] = lambda: None,
        on_miss: Callable[[], None] = lambda: None,
        greets: Callable[[clusters.Node], Awaitable[bool]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configuration = configuration
        self._spool = spool
        self._key = key
        self._clock = clock
        self._on_poll = on_poll
        self._on_miss = on_miss
        self._greets = greets
        self._monotonic = monotonic
        self._last: dict[str, bytes] = {}
        self._in_flight: dict[str, asyncio.Future[bool]] = {}
        self._ungreeted: dict[str, tuple[int, int]] = {}
        self._writing = asyncio.Lock()
        self._waiting: list[tuple[str, str, bytes]] = []
        self.seen: dict[str, Seen] = {} if seen is None else seen
        self.suspects: set[str] = set()
        """The nodes (UUIDs) that are asked quickly, and not with the others (`suspects.py`)."""

    def silences(self) -> tuple[Mapping[str, dead_nodes.Silence], int]:
        """The nodes (UUIDs) that sign no answer, and at how many anything answered the last time they were asked."""
        silent = {
            uuid: dead_nodes.Silence(seen.misses, seen.since, seen.ssh_misses, seen.answered, seen.unsigned)
            for uuid, seen in self.seen.items()
            if seen.is_silent
        }
        return silent, sum(not seen.misses for seen in self.seen.values())

    def answering(self) -> set[str]:
        """The nodes (UUIDs) at which anything answered the last question, signed or not."""
        return {uuid for uuid, seen in self.seen.items() if not seen.misses and seen.is_asked}

    def forget_node(self, uuid: str) -> None:
        """Forget how one node answers, as if it had never been asked."""
        self.seen.pop(uuid, None)
        self._last.pop(uuid, None)
        self.forget_ssh(uuid)

    def count_anew(self) -> None:
        """Count the misses of all silent nodes from the start: while nobody answered, the fault may have been here."""
        self._ungreeted.clear()
        for uuid, seen in self.seen.items():
            if seen.questions > 1:
                first = min(seen.misses, 1)
                self.seen[uuid] = replace(seen, misses=first, unsigned=1 - first, ssh_misses=0)

    def busy_cpus(self) -> dict[str, float]:
        """The busy CPUs by node (UUID), where that was told lately."""
        oldest = self._monotonic() - OLD * max(60.0, self._configuration.current.maintenance.settings.diagnose_interval)
        loads = {uuid: seen.load for uuid, seen in self.seen.items()}
        return {uuid: load.cpus for uuid, load in loads.items() if load is not None and load.read >= oldest}

    def forget(self) -> None:
        """Know nothing any more: agents are not asked."""
        if self.seen:
            self._only(frozenset())
            self._on_poll()

    async def ask(self) -> None:
        """Ask the agents of all reachable nodes once, save those that are asked quickly anyway."""
        cluster = self._configuration.current
        settings = cluster.maintenance.settings
        nodes = [node for node in cluster.nodes.values() if clusters.reachable(cluster, node)]
        wants_load = settings.balance and settings.balance_dynamic_load
        key = self._key.read_bytes() if wants_load else b""
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask_node(node: clusters.Node) -> None:
            async with turns:
                if node.uuid not in self.suspects and await self.answers(node) and wants_load:
                    await self._loaded(node, settings.agent_port, key=key)

        await asyncio.gather(*(ask_node(node) for node in nodes))
        self._only({node.uuid for node in nodes})
        self._on_poll()

    async def answers(self, node: clusters.Node) -> bool:
        """Ask the agent of one node; whether anything answers. Where it is being asked, that question is awaited."""
        if node.uuid in self._in_flight:
            return await asyncio.shield(self._in_flight[node.uuid])
        question = self._in_flight[node.uuid] = asyncio.get_running_loop().create_future()
        answers = False
        settings = self._configuration.current.maintenance.settings
        try:
            answers = await self._diagnosed(node, settings.agent_port)
        finally:
            del self._in_flight[node.uuid]
            question.set_result(answers)
        if self._seen_of(node).is_silent and node.uuid not in self.suspects:
            self._on_miss()
        return answers

    @property
    def asks_ssh(self) -> bool:
        """Whether the SSH servers of suspects are asked: a fence may depend on that."""
        return self._greets is not None and self._configuration.current.maintenance.settings.dead_node_policy == "fence"

    async def ask_ssh(self, node: clusters.Node) -> None:
        """Ask the SSH server of a suspect beside its agent, whose questions do not wait for it.

        One that does not greet has missed as many questions as the agent has missed since it was asked first, and none
        before it has not greeted `GREETINGS` times: one of them may take as long as several questions of the agent.
        """
        if self._greets is None:
            return
        first, asked = self._ungreeted.get(node.uuid, (self._seen_of(node).misses, 0))
        self._ungreeted[node.uuid] = (first, asked + 1)
        has_greeted = await self._greets(node)
        seen = self.seen.get(node.uuid)
        if seen is None or has_greeted or seen.misses < first:
            self.forget_ssh(node.uuid)
        if seen is not None:
            # All misses may be counted anew meanwhile.
            since, asked = self._ungreeted.get(node.uuid, (seen.misses, 0))
            count = seen.misses - since if asked >= GREETINGS else 0
            self.seen[node.uuid] = replace(seen, ssh_misses=count)

    def forget_ssh(self, uuid: str) -> None:
        """Count the misses of a node's SSH server from the start: it greeted, or is not asked any more."""
        self._ungreeted.pop(uuid, None)

    def _only(self, nodes: AbstractSet[str]) -> None:
        """Forget how all other nodes answer."""
        for known in (self._last, self.seen):
            for uuid in set(known) - nodes:
                del known[uuid]

    async def _diagnosed(self, node: clusters.Node, port: int) -> bool:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            status, body = await _get(node, port, collected.DIAGNOSE)
        except (OSError, ValueError, OverflowError) as error:
            # The last two are of a name or a port that no host can have.
            if loop.time() - began <= ANSWER_SECONDS + STALL_SECONDS:
                await self._missed(node, _worded(error))
            return False
        except errors.Failed as error:
            self._unsigned(node, str(error))
            return True
        if status == OK:
            await self.take(node, body)
        else:
            self._unsigned(node, f"it answers with status {status}")
        return True

    def last_body(self, uuid: str) -> bytes | None:
        """The last answer of a node's agent."""
        return self._last.get(uuid)

    async def take(self, node: clusters.Node, body: bytes) -> None:
        """Take the answer of a node's agent, and put it into the spool if it is news."""
        if len(body) > AT_HAND:
            trouble = await asyncio.to_thread(self._trouble, node.uuid, body)
        else:
            trouble = self._trouble(node.uuid, body)
        if trouble:
            # What does not count is for the spool to reject, now and then.
            self._unsigned(node, f"its answer does not count: {trouble}")
            is_news = self.seen[node.uuid].unsigned % NOTED == 1
        else:
            # The same bytes again are no news, and would count as a replay.
            self.seen[node.uuid] = Seen(answered=self._clock(), load=self._seen_of(node).load)
            is_news = body != self._last.get(node.uuid)
        if is_news:
            await self._put(f"{rejected.file_name(node.name)}-{time.time_ns()}.json", body, said_by=node.uuid)

    def _trouble(self, uuid: str, body: bytes) -> str:
        """Why an answer does not prove that a node lives, or ''."""
        settings = self._configuration.current.maintenance.settings
        try:
            reports.prove(
                body,
                node=uuid,
                cluster_key=self._key.read_bytes(),
                accept_cluster_key=settings.accept_cluster_key,
                now=int(self._clock()),
                every=int(settings.diagnose_interval),
            )
        except (errors.ReportRejected, OSError) as error:
            return str(error)
        return ""

    def _unsigned(self, node: clusters.Node, text: str) -> None:
        """Count an answer that the node did not sign."""
        before, now = self._seen_of(node), self._clock()
        if not before.unsigned:
            LOG.warning("what answers as the agent of %s proves nothing: %s", node.name, text)
        since = before.since if before.is_silent else now
        self.seen[node.uuid] = replace(
            before, misses=0, unsigned=before.unsigned + 1, since=since, text=text, ssh_misses=0
        )

    async def _loaded(self, node: clusters.Node, port: int, *, key: bytes) -> None:
        try:
            _status, body = await _get(node, port, collected.CPU_LOAD)
            node_key = signing.node_key(key, node.uuid)
            now = self._clock()
            said = collected.read(body, subject=collected.CPU_LOAD, node=node.uuid, key=node_key, now=int(now))
            load = Load(cpus_of(said, recorded=node.ctotal), now, self._monotonic())
            self.seen[node.uuid] = replace(self.seen[node.uuid], load=load)
        except errors.Refused as error:
            LOG.warning("the load that %s reports does not count: %s", node.name, error)
            text = f"its load does not count: {error}"
            self.seen[node.uuid] = replace(self.seen[node.uuid], load=None, text=text)
        except (OSError, ValueError, OverflowError, errors.RoundsmanError) as error:
            LOG.debug("%s does not say how busy it is: %s", node.name, error)

    def _seen_of(self, node: clusters.Node) -> Seen:
        return self.seen.get(node.uuid, Seen())

    async def _missed(self, node: clusters.Node, text: str) -> None:
        before, now = self._seen_of(node), self._clock()
        since = before.since if before.is_silent else now
        self.seen[node.uuid] = replace(before, misses=before.misses + 1, since=since, text=text)
        if not before.misses:
            LOG.warning("the agent of %s does not answer: %s", node.name, text)
        if before.misses % NOTED and node.uuid in self.suspects:
            return
        note = {"node": node.name, "time": now, "text": text}
        await self._put(f"{rejected.file_name(node.name)}.unreachable", json.dumps(note).encode())

    async def _put(self, name: str, data: bytes, *, said_by: str = "") -> None:
        """Put a file into the spool; those that come while others are written share the next write."""
        self._waiting.append((said_by, name, data))
        async with self._writing:
            files, self._waiting = self._waiting, []
            if files:
                await asyncio.to_thread(_write, self._spool, {name: data for _, name, data in files})
                self._last.update({uuid: data for uuid, _, data in files if uuid})


def _write(spool: Path, files: Mapping[str, bytes]) -> None:
    # Whole by the rename, and made durable by whoever accepts it: one that is lost is asked for again.
    for name, data in files.items():
        made = spool / f".{name}.new"
        made.write_bytes(data)
        made.rename(spool / name)


def cpus_of(said: collected.Collected, *, recorded: int) -> float:
    """How many CPUs were busy, of a report of the load; no more than are on record for the node.

    Raises:
        Refused: the node could not tell, tells no number, or claims more than it has on record.
    """
    if said.data is None:
        raise errors.Refused(said.problem.text if said.problem is not None else "it says nothing")
    try:
        value = json.loads(said.data)
    except ValueError as error:
        # A signed report may still hold a number of more digits than Python reads.
        raise errors.Refused("its load is no number of CPUs") from error
    total = value.get("cpu_total") if isinstance(value, dict) else None
    if isinstance(total, bool) or not isinstance(total, (int, float)) or not 0 <= total < 2**20:
        raise errors.Refused("its load is no number of CPUs")
    if total > recorded * MEASURED:
        raise errors.Refused(f"it claims {total:g} busy CPUs, and its ctotal on record is {recorded}")
    return min(float(total), float(recorded))


async def _get(node: clusters.Node, port: int, subject: collected.Subject) -> tuple[int, bytes]:
    return await http_reads.get(
        node.primary_ip or node.name,
        port,
        collected.path(subject),
        limit=reports.LIMIT,
        connect_seconds=CONNECT_SECONDS,
        seconds=ANSWER_SECONDS,
    )


def _worded(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} s"
    return str(error) or type(error).__name__
