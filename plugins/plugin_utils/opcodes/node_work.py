"""Opcodes at a node: its repair command, its diagnosis, its role."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain.values import errors
from .. import whereabouts
from ..cluster import changes, roles
from ..cluster import cluster as clusters
from ..disks import replica_texts
from ..settings import modifications
from . import contract, time_limits

if TYPE_CHECKING:
    from ..cluster.locks import Mode


@dataclass(frozen=True)
class RepairCommand(contract.PlayOpcode):
    """Run a whitelisted live-repair command on a node, with the whole diagnosis on its standard input.

    With `input_digest`, `input` is only an abbreviation: the whole is read when the run begins.
    """

    kind: ClassVar[str] = "repair_command"
    role: ClassVar[str] = "node"
    node: str
    command: str
    input: str
    input_digest: str = ""

    def time_limit(self, _cluster: clusters.Cluster) -> int:
        return time_limits.limit(time_limits.TASK, time_limits.REPAIR_COMMAND)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{self.node}": contract.EXCLUSIVE}

    def hosts(self, _cluster: clusters.Cluster) -> list[str]:
        return [self.node]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        if not re.fullmatch("[a-zA-Z0-9_-]+", self.command):
            raise errors.Refused(f"the repair command {self.command!r} is no file name of a whitelist")
        contract.refuse_unreachable(cluster, self.node)
        return {
            "node": contract.node_variables(cluster, self.node),
            "command": self.command,
        }

    def files(self) -> dict[str, str]:
        return {} if self.input_digest else {"input.json": self.input}

    def whole_reports(self) -> dict[str, str]:
        return {"input.json": self.input_digest} if self.input_digest else {}


@dataclass(frozen=True)
class Diagnose(contract.PlayOpcode):
    """Have a node diagnose itself now, even one that is offline: that is its way back."""

    kind: ClassVar[str] = "diagnose"
    node: str

    def time_limit(self, _cluster: clusters.Cluster) -> int:
        return time_limits.limit(time_limits.TASK, time_limits.DIAGNOSE)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{self.node}": contract.SHARED}

    def hosts(self, _cluster: clusters.Cluster) -> list[str]:
        return [self.node]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        node = cluster.node(self.node)
        contract.refuse_unreachable(clusters.with_node(cluster, dataclasses.replace(node, offline=False)), self.node)
        return {"command": cluster.maintenance.settings.diagnose_command}


@dataclass(frozen=True)
class SecondCopies(contract.PlayOpcode):
    """See that a node runs nothing, and may write no disk, of an instance whose primary is another node.

    It fails if it does, and if that cannot be seen: a node that comes back from being offline may have run on.
    """

    kind: ClassVar[str] = "second_copies"
    role: ClassVar[str] = "node"
    node: str

    def time_limit(self, cluster: clusters.Cluster) -> int:
        looks = len(whereabouts.hypervisors(cluster)) + len(whereabouts.replicated(cluster))
        return time_limits.limit(looks * time_limits.look())

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{self.node}": contract.SHARED}

    def moot(self, cluster: clusters.Cluster) -> str:
        node = cluster.node(self.node)
        if not node.vm_capable:
            return f"{node.name} is not vm_capable: it runs no instances"
        return "" if cluster.instances else "there are no instances"

    def hosts(self, _cluster: clusters.Cluster) -> list[str]:
        return [self.node]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        node = cluster.node(self.node)
        contract.refuse_unreachable(clusters.with_node(cluster, dataclasses.replace(node, offline=False)), self.node)
        return {
            "node": contract.node_variables(cluster, self.node),
            "hypervisors": whereabouts.hypervisors(cluster),
            "replicated_hypervisors": whereabouts.replicated(cluster),
            "records": whereabouts.records(cluster),
        }


@dataclass(frozen=True)
class NodeRole(contract.ChangeOpcode):
    """Drain, offline or bring back a node.

    Back from offline needs power on record and an Ok report, or `force`; offline needs that no instance may run there,
    or `force`; with `empty` there is nothing to do while any instance has the node.
    """

    kind: ClassVar[str] = "node_role"
    op_id: ClassVar[str] = "OP_NODE_SET_PARAMS"
    hears: ClassVar[bool] = True
    node: str
    drained: bool | None = None
    offline: bool | None = None
    force: bool = False
    empty: bool = False

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        mode = contract.SHARED if self.offline is None else contract.EXCLUSIVE
        return {f"node/{self.node}": mode}

    def moot(self, cluster: clusters.Cluster) -> str:
        if self.empty and (text := contract.not_empty(cluster, self.node)):
            return text
        node = cluster.node(self.node)
        drained = node.drained if self.drained is None else self.drained
        offline = node.offline if self.offline is None else self.offline
        if (node.drained, node.offline) == (drained, offline):
            return f"{node.name} is so already"
        return ""

    def told(self, before: clusters.Cluster, stated: list[changes.Change]) -> list[str]:
        after = changes.apply_all(before, stated, now=before.mtime)
        return modifications.lines(before, after, about=self.node)

    def changes(self, cluster: clusters.Cluster, facts: contract.Facts, *, since: float) -> list[changes.Change]:
        node = cluster.node(self.node)
        if self.offline is False and not self.force:
            if not node.powered and clusters.parameter(cluster, node, "oob_program") is not None:
                raise errors.Refused(
                    f"{node.name} is recorded as powered off: run `roundsman node power on {node.name}`"
                )
            if not facts.reported_ok_since(self.node, since):
                raise errors.Refused(
                    f"{node.name} has not reported Ok: see `roundsman explain {node.name}`, repair it, or use --force"
                )
        in_use = contract.in_use(cluster, node, cluster.possibly_running(self.node))
        if self.offline and in_use and not self.force:
            raise errors.Refused(in_use)
        return roles.change(cluster, node, drained=self.drained, offline=self.offline)


@dataclass(frozen=True)
class NodeConfirmOff(contract.ChangeOpcode):
    """Take the word of a person, the user `by`, that a node has no power since `off_since` (unix seconds, 0: now).

    It is for nodes of which no BMC can say it; with `undo` it is taken back. A node that answers, and has reported Ok
    within the last minute, is not off. It is off since no time in the future, and none before its last sign of life.
    """

    kind: ClassVar[str] = "node_confirm_off"
    hears: ClassVar[bool] = True
    node: str
    undo: bool = False
    off_since: float = 0.0
    by: str = ""

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        """As a fence: it says the same of a node on which others may be at work for hours."""
        return contract.power_of((self.node,), contract.EXCLUSIVE)

    def moot(self, cluster: clusters.Cluster) -> str:
        node = cluster.node(self.node)
        return f"{node.name} is not stated to be off" if self.undo and not node.off_confirmed else ""

    def told(self, before: clusters.Cluster, stated: list[changes.Change]) -> list[str]:
        after = changes.apply_all(before, stated, now=before.mtime)
        return modifications.lines(before, after, about=self.node)

    def changes(self, cluster: clusters.Cluster, facts: contract.Facts, *, since: float) -> list[changes.Change]:
        node = cluster.node(self.node)
        if self.undo:
            return [changes.NodeOffConfirmed(node.uuid, 0.0)]
        if node.uuid == cluster.cluster.master_node:
            raise errors.Refused(f"{node.name} is the master, which runs this: it is not off")
        if not facts.is_silent(self.node) and facts.reported_ok_since(self.node, since - _JUST_NOW):
            raise errors.Refused(f"{node.name} has just reported Ok, and answers: it is not off")
        if self.off_since:
            self._refuse_impossible(node, facts, now=since)
        return [changes.NodeOffConfirmed(node.uuid, self.off_since or since, self.by)]

    def _refuse_impossible(self, node: clusters.Node, facts: contract.Facts, *, now: float) -> None:
        stated = replica_texts.clock(self.off_since)
        if not 0 < self.off_since <= now:
            raise errors.Refused(f"--since {stated} is in the future: it is {replica_texts.clock(now)} now")
        last = max(facts.last_said(node.uuid), node.alive_at)
        if self.off_since < last:
            raise errors.Refused(
                f"{node.name} was not off since {stated}: its last sign of life came at {replica_texts.clock(last)}"
            )


_JUST_NOW = 60.0
