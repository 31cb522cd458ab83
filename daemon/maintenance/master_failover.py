"""The master role moves to the node of this machine: the vote, an epoch of its own, and then the configuration.

The order matters: once the nodes follow the new epoch the old controller does nothing more, whatever it believes. Ended
in between, the nodes follow the new master, and the command is repeated (docs/decisions/who-leads.md).
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from ...plugins.module_utils import own_addresses
from ...plugins.module_utils.domain.power import power
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import ansible_runs
from ...plugins.plugin_utils.cluster import changes, known_off
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.config import store
from ..configuration import Configuration
from . import leadership, leading
from .power_readings import Reader

if TYPE_CHECKING:
    from ...plugins.module_utils.domain.values import tree
    from . import electorate


async def run(
    where: tree.Tree,
    name: str,
    *,
    is_restored: bool,
    is_stated_off: bool,
    dry_run: bool,
    over_ssh: electorate.OverSsh | None = None,
) -> tuple[leading.Step, list[str]]:
    """Make a node the master, or only find out whether that would be possible; returns what was done, and how.

    The caller holds `config.lock`. `is_stated_off`: a person states that the master on record is off. `over_ssh` asks
    nodes without agents.

    Raises:
        Refused, NotFound: the node cannot be the master, or nothing shows that no other controller works.
        StoreFailed, StateUnknown: the epoch or the configuration could not be read or written.
    """
    configuration = Configuration(where, clock=time.time)
    cluster = configuration.current
    node, old = candidate(cluster, name), cluster.nodes[cluster.cluster.master_node]
    reads_off = not is_stated_off and await _reads_off(where, cluster, old)
    statement = leadership.Statement(
        is_restored=is_restored, master=node.uuid, is_master_off=is_stated_off or reads_off
    )
    lines = (
        [f"{old.name} is off: {'its BMC reads off' if reads_off else 'stated now'}"] if statement.is_master_off else []
    )
    leader = leadership.Leadership(where, configuration, is_at_work=lambda: False, over_ssh=over_ssh)
    step, said = await leader.preview(statement)
    if step is leading.Step.GO_ON and not statement.is_master_off:
        raise errors.Refused(
            f"no node votes, so nothing shows whether the controller on {old.name} works; if that machine is off and "
            f"stays off, state it: `{leading.CONFIRM_OFF}`"
        )
    lines += said
    if dry_run or step in {leading.Step.WAIT, leading.Step.END}:
        return step, lines
    step, reason = await leader.take_over(statement)
    if step in {leading.Step.WAIT, leading.Step.END}:
        return step, [reason]
    try:
        store.write(where.config, with_master(configuration.current, node, now=time.time()))
    except (errors.StoreFailed, errors.StateUnknown) as error:
        if leader.epoch is None:
            raise
        raise type(error)(f"{error}; the nodes follow {node.name} already: run this command again") from error
    led = f" in {leader.epoch}" if leader.epoch is not None else ""
    return step, [*lines, f"{node.name} is the master now{led}, instead of {old.name}"]


def candidate(cluster: clusters.Cluster, name: str) -> clusters.Node:
    """The node that is to be the master.

    Raises:
        NotFound: there is no such node. Refused: it is the master, cannot be it, or is another machine.
    """
    node = cluster.node(name)
    if node.uuid == cluster.cluster.master_node:
        raise errors.Refused(f"{node.name} is the master already: start roundsmand here")
    lacks = [
        word
        for word, is_so in (
            ("offline", node.offline),
            ("drained", node.drained),
            ("not master_capable", not node.master_capable),
        )
        if is_so
    ]
    if lacks:
        raise errors.Refused(f"{node.name} is {' and '.join(lacks)}: choose another node")
    if not own_addresses.is_own(node.primary_ip or node.name):
        raise errors.Refused(f"this machine is not {node.name}: run the command there, with the restored configuration")
    return node


def with_master(cluster: clusters.Cluster, node: clusters.Node, *, now: float) -> clusters.Cluster:
    """The configuration in which a node is the master; it is on, whatever was recorded of its power."""
    own = dataclasses.replace(cluster.cluster, master_node=node.uuid, mtime=now)
    moved = dataclasses.replace(cluster, cluster=own, serial_no=cluster.serial_no + 1, mtime=now)
    if not known_off.is_off(node):
        return moved
    return changes.apply(moved, changes.NodePowered(node.uuid, powered=True), now=now)


async def _reads_off(where: tree.Tree, cluster: clusters.Cluster, node: clusters.Node) -> bool:
    driver = clusters.parameter(cluster, node, "oob_program")
    if driver is None:
        return False
    try:
        read = Reader(where.bmc_credentials, ansible_runs.environment(where))
        return [outcome.after async for outcome in read({node.name: driver})] == [power.State.OFF]
    except (errors.Failed, OSError):
        return False
