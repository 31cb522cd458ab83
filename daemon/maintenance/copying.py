"""Copies of the configuration on the nodes that a person named in `roundsmand.json`: candidates for the master role.

Each change is sent to each of them: the newest version only, one at a time, from the bytes that are on the disk. What
the copies are for, and what they must not hold: docs/decisions/who-leads.md.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.agent import copies, signing
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import http_reads, sealed_json, voting
from ...plugins.plugin_utils.cluster import known_off
from .. import failures
from ..writing import Writer
from . import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...plugins.module_utils.domain.agent.epochs import Epoch
    from ...plugins.module_utils.domain.values import tree
    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ..configuration import Configuration

LOG = logging.getLogger(__name__)
PATH = "/1/configuration-copy"
SECONDS = 20.0
"""For the answer to a part; the node writes it to its disk."""
LEAST, SHARE = 1.0, 60.0
"""Seconds from one copy to the next: at least so many, and so many times the processor time that making one took."""
FIRST, MOST = 5.0, 60.0
"""Seconds until a try that failed is repeated, doubled each time, and at the most."""
PATIENCE = 3
"""Tries in a row that fail before a person hears of it."""
LIMIT = 64 * 1024
"""Bytes of an answer."""
OLD = frozenset({404, 405})
FORBIDDEN = 403


@dataclass(frozen=True)
class Copy:
    """The sealed copy of a version."""

    stamp: copies.Stamp
    data: bytes
    digest: str


@dataclass
class Candidate:
    """How it stands with the copy on one node (name): what it keeps, since when that is known, and what it lacks.

    `problem` says why it did not get the newest one, in so many `tries`.
    """

    name: str
    awake: asyncio.Event
    kept: copies.Stamp | None = None
    confirmed: float = 0.0
    lacks: tuple[str, ...] = ()
    problem: str = ""
    tries: int = 0


class Copying:
    """The copies on all candidates; `wake` says that the configuration has changed."""

    def __init__(
        self,
        where: tree.Tree,
        configuration: Configuration,
        *,
        names: Sequence[str],
        epoch: Callable[[], Epoch | None],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._where = where
        self._configuration = configuration
        self._epoch = epoch
        self._on_change = on_change
        self._candidates = [Candidate(name, asyncio.Event()) for name in dict.fromkeys(names)]
        self._thread = Writer("copies")
        self._making = asyncio.Lock()
        self._newest: Copy | None = None
        self._rests_until = 0.0

    def wake(self) -> None:
        """The configuration has changed."""
        for candidate in self._candidates:
            candidate.awake.set()

    def listed(self) -> list[dict[str, Any]]:
        """How it stands with each copy, as a JSON value: its version, when that was confirmed, what the node lacks."""
        cluster = self._configuration.current
        present, nodes = cluster.serial_no, cluster.nodes.values()
        off = {node.name for node in nodes if known_off.is_off(node) and not known_off.has_lived(node)}
        return [
            {
                "node": candidate.name,
                "serial_no": candidate.kept.serial if candidate.kept is not None else None,
                "made": candidate.kept.made if candidate.kept is not None else None,
                "confirmed": candidate.confirmed or None,
                "is_newest": candidate.kept is not None and candidate.kept.serial >= present,
                "is_off": candidate.name in off,
                "lacks": list(candidate.lacks),
                "problem": candidate.problem if candidate.tries >= PATIENCE else None,
            }
            for candidate in self._candidates
        ]

    async def run(self) -> None:
        """Work for ever; without candidates it ends."""
        await asyncio.gather(*map(self._keep, self._candidates))

    async def _keep(self, candidate: Candidate) -> None:
        while True:
            candidate.awake.clear()
            try:
                await self._send(candidate)
            except (errors.RoundsmanError, OSError, ValueError, OverflowError) as error:
                # The last two are of a name or a port that no host can have.
                candidate.tries += 1
                text = failures.one_line(str(error) or type(error).__name__)
                if text != candidate.problem:
                    LOG.warning("%s does not get the copy of the configuration: %s", candidate.name, text)
                candidate.problem = text
                self._on_change()
                await asyncio.sleep(parts.pause(FIRST, times=candidate.tries, most=MOST))
                continue
            if candidate.problem:
                LOG.info("%s gets copies of the configuration again", candidate.name)
                self._on_change()
            candidate.tries, candidate.problem = 0, ""
            await candidate.awake.wait()

    async def _send(self, candidate: Candidate) -> None:
        """Send the newest version, if the node may be asked and is another one than the master.

        Raises:
            RoundsmanError, OSError: it does not arrive.
        """
        cluster = self._configuration.current
        port, node = cluster.maintenance.settings.agent_port, _node(cluster, candidate.name)
        if node.uuid == cluster.cluster.master_node:
            return
        if not port:
            raise errors.Refused("copies are sent to agents: set agent_port, and apply the role node_agent")
        copy = await self._made()
        cluster_key = await self._thread.write(self._where.hmac_key.read_bytes)
        key = signing.node_key(cluster_key, node.uuid)
        last = await self._transfer(copy, node, port, key=key)
        candidate.lacks = await self._thread.write(self._lacked, last.lacks)
        if last.refusal:
            raise errors.Refused(last.refusal)
        candidate.kept, candidate.confirmed = copy.stamp, time.time()

    async def _transfer(self, copy: Copy, node: clusters.Node, port: int, *, key: bytes) -> copies.Received:
        """Send the parts that the node wants; returns its last answer, a refusal or that it has the whole copy.

        Raises:
            RoundsmanError, OSError: a part gets no answer, or the node wants parts in no order.
        """
        offset, restarts = 0, 0
        while True:
            part = self._part(copy, node.uuid, offset)
            received = await posted(node, port, part, key=key)
            if received.refusal or received.wanted >= len(copy.data):
                return received
            if received.wanted not in {0, offset + len(part.data)}:
                raise errors.Failed("the node wants a part that is not the next one")
            restarts += received.wanted == 0
            if restarts > 1:
                raise errors.Failed("the node takes no part after the first one")
            offset = received.wanted

    def _part(self, copy: Copy, node: str, offset: int) -> copies.Part:
        data = copy.data[offset : offset + copies.PART]
        nonce, size = voting.nonce(), len(copy.data)
        return copies.Part(node, nonce, self._epoch(), copy.stamp, copy.digest, size, offset, data)

    async def _made(self) -> Copy:
        """The copy of the newest version; made at most so often that it takes a sixtieth of a processor."""
        async with self._making:
            while not self._is_newest():
                loop = asyncio.get_running_loop()
                if (rest := self._rests_until - loop.time()) > 0:
                    await asyncio.sleep(rest)
                # The file has this version, or a later one.
                stamp = copies.Stamp(*self._version(), int(time.time()))
                self._newest, spent = await self._thread.write(_made, self._where, stamp)
                self._rests_until = loop.time() + max(LEAST, SHARE * spent)
            assert self._newest is not None
            return self._newest

    def _is_newest(self) -> bool:
        return self._newest is not None and self._newest.stamp.version >= self._version()

    def _version(self) -> tuple[int, int]:
        """The version of the configuration as it is now, as a stamp has it."""
        epoch = self._epoch()
        return (epoch.number if epoch is not None else 0), self._configuration.current.serial_no

    def _lacked(self, lacks: Sequence[str]) -> tuple[str, ...]:
        """What a node lacks of that this controller has."""
        return tuple(name for name in lacks if (self._where.root / name).exists())


def _node(cluster: clusters.Cluster, name: str) -> clusters.Node:
    found = [node for node in cluster.nodes.values() if node.name == name]
    if not found:
        raise errors.Refused(f"there is no node {name}: correct `configuration_copies` in roundsmand.json")
    return found[0]


def _made(where: tree.Tree, stamp: copies.Stamp) -> tuple[Copy, float]:
    began, configuration = time.thread_time(), where.config.read_bytes()
    try:
        sealed_json.unseal(configuration)
    except errors.InvalidInput as error:
        raise errors.StoreFailed(
            f"{where.config} is damaged, and the copies before are left as they are: {error}"
        ) from error
    data = copies.sealed(configuration, stamp, cluster_key=where.hmac_key.read_bytes())
    return Copy(stamp, data, copies.digest(data)), time.thread_time() - began


async def posted(node: clusters.Node, port: int, part: copies.Part, *, key: bytes) -> copies.Received:
    """The node's answer to a part.

    Raises:
        RoundsmanError, OSError: it gave none that counts.
    """
    status, body = await http_reads.post(
        node.primary_ip or node.name,
        port,
        PATH,
        copies.sealed_part(part, key=key, now=int(time.time())),
        limit=LIMIT,
        connect_seconds=voting.CONNECT_SECONDS,
        seconds=SECONDS,
    )
    if status in OLD:
        raise errors.Refused(f"the agent of {node.name} knows no copies: apply the role node_agent")
    if status == FORBIDDEN:
        raise errors.Refused(
            f"the agent of {node.name} takes none from this machine: apply the role node_agent with its address in "
            "node_agent_controllers, or restore the cluster's key"
        )
    if status != voting.OK:
        raise errors.Failed(f"the agent of {node.name} answers with status {status}")
    return copies.received(body, key=key, asked=part)
