"""The boots in which nodes do what a play by hand without a daemon orders: learned from their agents.

A node does nothing that was ordered for an earlier boot of it: docs/decisions/who-leads.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..module_utils.domain.agent import epochs
from ..module_utils.domain.values import errors
from . import controller_epoch, voting
from .cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..module_utils.domain.values import tree

DEADLINE = 3.0
"""Seconds for the answers of all nodes that are asked at a time."""


async def confirm(where: tree.Tree, cluster: clusters.Cluster, nodes: Collection[str]) -> set[str]:
    """Ask these nodes (UUIDs) for their boots, then those that vote for whom they follow; once, without a daemon.

    The boots are kept, and named by steps from then on, if half of the nodes that vote have followed no later epoch
    after the boots were known, and know no later version of the configuration: a clone of the controller's machine has
    its epoch, too. A node that is recorded as off votes if it answers: another controller has powered it on.

    Returns the nodes whose boots are not confirmed; a node of which steps name no boot does what is ordered anyway.

    Raises:
        StoreFailed, StateUnknown: the cluster's key, or what steps name, cannot be read or written.
    """
    record, port = controller_epoch.read(where), cluster.maintenance.settings.agent_port
    if record is None or record.order is None or not record.boots or not port:
        return set()
    voters = {node.uuid for node in cluster.nodes.values() if clusters.reachable(cluster, node)}
    asked = [cluster.nodes[uuid] for uuid in voters.intersection(nodes)]
    try:
        key = where.hmac_key.read_bytes()
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise errors.StoreFailed(f"{where.hmac_key} cannot be read: {error.strerror}") from error
    learned = await voting.ask(asked, port, key=key, seconds=DEADLINE)
    boots = {uuid: answer.boot for uuid, answer in learned.answers.items() if answer.boot}
    silent = {node.uuid for node in asked if node.uuid in record.boots} - boots.keys()
    if boots.items() <= record.boots.items():
        return silent
    own, known = record.order.epoch, record.voters
    online = [node for node in cluster.nodes.values() if not node.offline]

    def obeys(poll: voting.Poll) -> bool:
        able = (voters | poll.answers.keys()) - (poll.unable - known)
        return 2 * sum(epochs.obeys(kept, own, serial=cluster.serial_no) for kept in poll.follows.values()) >= len(able)

    def is_enough(poll: voting.Poll) -> bool:
        return len(online) == len(voters) and obeys(poll)

    if not obeys(await voting.ask(online, port, key=key, seconds=DEADLINE, is_enough=is_enough)):
        return silent | boots.keys()
    controller_epoch.confirm(where, boots)
    return silent
