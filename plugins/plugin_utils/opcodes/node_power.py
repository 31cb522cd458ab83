"""Opcodes at the BMCs of nodes: their power, and their health."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...module_utils.domain.power import health, power, power_record
from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from ..cluster import known_off
from ..rounds import holdings
from ..silent_nodes import dead_nodes
from ..values import capitals
from . import contract, time_limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cluster.locks import Mode

FENCING = frozenset({"fence", "confirm_off"})
"""The commands for a silent node: nobody who still answers is fenced for silence."""
TAKING = frozenset({"off", "cycle"})
"""The commands that take the power from what runs on a node."""
BATCH = 10
"""So many nodes are powered on together when there is a delay between."""
LONGEST_WAIT = 1800.0
"""Seconds that all delays of one opcode may take together; the rest of its time is for BMCs that do not answer."""
MASTER = (
    "{} is the master: its power cannot be taken from here. Elsewhere it is done with `{} power-{} {}`, "
    "once the master role has moved or the cluster may stop"
)
HELPER = "roundsman-oob"


def nodes_of(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The nodes (UUIDs) that the parameters of a power opcode name, each once."""
    return tuple(dict.fromkeys(params.get("nodes") or (params["node"],)))


@dataclass(frozen=True)
class _AtBmcs(contract.PlayOpcode):
    """A node, or several of them (UUIDs), that are served together: one node's trouble stops no other's."""

    node: str = ""
    nodes: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if bool(self.node) is bool(self.nodes):
            raise errors.InvalidInput("node, nodes: give one of them")

    @property
    def all_nodes(self) -> tuple[str, ...]:
        return nodes_of({"node": self.node, "nodes": self.nodes})

    def hosts(self, _cluster: clusters.Cluster) -> list[str]:
        return []

    def _targets(self, cluster: clusters.Cluster) -> list[clusters.Node]:
        """Those of its nodes that are in the cluster, by name.

        Raises:
            NotFound: none is.
        """
        found = [cluster.nodes[uuid] for uuid in self.all_nodes if uuid in cluster.nodes]
        return sorted(found or [cluster.node(self.all_nodes[0])], key=lambda node: clusters.natural(node.name))


@dataclass(frozen=True)
class Power(_AtBmcs):
    """Change or read the power of nodes through their BMCs; success is the state read back.

    Before `off` and `cycle` no instance may run there by the configuration, unless `force`, with which `off` is sent to
    a node that reads off, too: only what its BMC took is known, and ends a statement. `expect` fails a `status` that
    reads otherwise; with `empty` there is nothing to do while any instance has one of the nodes. With a
    `delay` (seconds) `on` is done a few nodes at a time; with `check` nothing is sent, and it is told what would be.
    `fence` and `confirm_off` are for silent nodes: what runs there is not asked, and a node that still answers is
    refused. So is a `confirm_off`, which only the daemon submits, of a node that has lived since it was known off.
    """

    kind: ClassVar[str] = "power"
    op_id: ClassVar[str] = "OP_OOB_COMMAND"
    command: Literal["on", "off", "cycle", "status", "fence", "confirm_off"] = field(kw_only=True)
    force: bool = field(default=False, kw_only=True)
    expect: str = field(default="", kw_only=True)
    empty: bool = field(default=False, kw_only=True)
    delay: float = field(default=0.0, kw_only=True)
    check: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        pauses = (len(self.all_nodes) - 1) // BATCH
        if not (0 <= self.delay < math.inf and self.delay * pauses <= LONGEST_WAIT):
            raise errors.InvalidInput(
                f"delay: {self.delay:g} seconds, {pauses} times, are not from 0 to {LONGEST_WAIT:g} seconds together"
            )

    def time_limit(self, cluster: clusters.Cluster) -> int:
        count, looked_at = len(self.all_nodes), len(self.hosts(cluster))
        if self.delay:
            # A few at a time, and each time a call of its own.
            times = math.ceil(count / BATCH)
            return time_limits.limit(times * (time_limits.bmcs(BATCH) + self.delay))
        return time_limits.limit(looked_at * time_limits.look(), time_limits.bmcs(count))

    def is_urgent(self) -> bool:
        """A silent node's power is read and cut while resyncs have all slots; only a delay makes it long."""
        return not self.delay

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.power_of(self.all_nodes, self._power_mode, node=self._node_mode)

    @property
    def _node_mode(self) -> Mode:
        """A dead node loses its power beside whatever works on it: a copy between others may hold it for hours."""
        is_beside = self.command in {"status", *FENCING} or (self.command == "off" and self.force)
        return contract.SHARED if is_beside else contract.EXCLUSIVE

    @property
    def _power_mode(self) -> Mode:
        return contract.SHARED if self.command == "status" else contract.EXCLUSIVE

    def moot(self, cluster: clusters.Cluster) -> str:
        if not self.empty:
            return ""
        return next(filter(None, (contract.not_empty(cluster, uuid) for uuid in self.all_nodes)), "")

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        refused = self._refused(cluster)
        return [node.uuid for node in (*self._looked_at(cluster, refused), *self._asked(cluster, refused))]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        targets = self._targets(cluster)
        refused = self._refused(cluster)
        if len(refused) == len(targets):
            raise errors.Refused("; ".join(refused.values()))
        return {
            "command": self.command,
            "node_mode": self._node_mode.value,
            "power_mode": self._power_mode.value,
            "targets": [bmc_variables(cluster, target) for target in targets if target.name not in refused],
            "refused": refused,
            "look_first": [node.name for node in self._looked_at(cluster, refused)],
            "ask_first": [node.name for node in self._asked(cluster, refused)],
            "agents": {node.name: contract.agent(cluster, node) for node in self._asked(cluster, refused)},
            "expected": self.expect,
            "forced": self.force,
            "delay": self.delay,
            "batch": BATCH,
            "check": self.check,
        }

    def about(self) -> tuple[str, ...]:
        return () if self.command == "status" or self.check else self.all_nodes

    def notices(self, value: Any) -> list[contract.Notice]:
        if self.check:
            return []
        lines = power_record.log_lines([power.parse_outcome(result) for result in value])
        return [contract.Notice(line) for line in lines]

    def _looked_at(self, cluster: clusters.Cluster, refused: Mapping[str, str]) -> list[clusters.Node]:
        """Whoever loses its power is looked at first: what is on record may be wrong.

        Out of reach nobody is, and who runs no instances by its settings has none.
        """
        if self.command not in TAKING or self.force:
            return []
        targets = self._targets(cluster)
        seen = (target for target in targets if target.vm_capable and clusters.reachable(cluster, target))
        return [target for target in seen if target.name not in refused]

    def _asked(self, cluster: clusters.Cluster, refused: Mapping[str, str]) -> list[clusters.Node]:
        """Whoever is fenced is asked for a sign of life first, however it is recorded."""
        targets = self._targets(cluster) if self.command in FENCING else []
        return [target for target in targets if target.name not in refused]

    def _refused(self, cluster: clusters.Cluster) -> dict[str, str]:
        """The nodes (names) that are left alone, and why."""
        held = holdings.Holdings(cluster.instances)
        told = {
            target.name: self._objection(cluster, target, held.possibly_running(target.uuid))
            for target in self._targets(cluster)
        }
        return {name: text for name, text in told.items() if text}

    def _objection(self, cluster: clusters.Cluster, node: clusters.Node, running: list[clusters.Instance]) -> str:
        if clusters.parameter(cluster, node, "oob_program") is None:
            return power.NO_OOB.format(node.name)
        if self.command not in TAKING | FENCING:
            return ""
        if node.uuid == cluster.cluster.master_node:
            return master_objection(cluster, node, "off" if self.command in FENCING else self.command)
        if self.command in FENCING:
            return _lived_objection(cluster, node) if self.command == "confirm_off" else ""
        return "" if self.force else contract.in_use(cluster, node, running)


def _lived_objection(cluster: clusters.Cluster, node: clusters.Node) -> str:
    """Why the daemon does not command off by itself what has lived since it was known to be off, or ''."""
    if not known_off.has_lived(node):
        return ""
    cure = dead_nodes.to_confirm_again(cluster, node)
    return f"{node.name} is not commanded off: {dead_nodes.lived_text(node)}. {capitals.capitalized(cure)}"


@dataclass(frozen=True)
class Health(_AtBmcs):
    """Read the health of nodes from their BMCs; what is wrong is logged (seed 001, "health")."""

    kind: ClassVar[str] = "health"
    op_id: ClassVar[str] = "OP_OOB_COMMAND"
    role: ClassVar[str] = "node"

    def time_limit(self, _cluster: clusters.Cluster) -> int:
        return time_limits.limit(time_limits.bmcs(len(self.all_nodes)))

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{uuid}": contract.SHARED for uuid in self.all_nodes}

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        targets = self._targets(cluster)
        has_oob = {target.name: clusters.parameter(cluster, target, "oob_program") is not None for target in targets}
        refused = {name: power.NO_OOB.format(name) for name, has in has_oob.items() if not has}
        if len(refused) == len(targets):
            raise errors.Refused("; ".join(refused.values()))
        return {
            "targets": [bmc_variables(cluster, target) for target in targets if has_oob[target.name]],
            "refused": refused,
        }

    def notices(self, value: Any) -> list[contract.Notice]:
        return [
            contract.Notice(f"{result['name']}: {item} is {status}", is_trouble=True)
            for result in value
            for item, status in result["items"]
            if health.Status(status) in health.TROUBLE
        ]


def bmc_variables(cluster: clusters.Cluster, node: clusters.Node) -> dict[str, Any]:
    """A node with OOB as plays see it: what is on record of its power, and the driver or program of its BMC."""
    driver = clusters.parameter(cluster, node, "oob_program")
    return {"uuid": node.uuid, "name": node.name, "powered": node.powered, "driver": driver}


def master_objection(cluster: clusters.Cluster, node: clusters.Node, command: str) -> str:
    """Why the master's power is not taken, and how it is done elsewhere (seed 001, "epo", Note)."""
    driver = clusters.parameter(cluster, node, "oob_program") or HELPER
    program = driver if driver.startswith("/") else HELPER
    return MASTER.format(node.name, program, command, node.name)
