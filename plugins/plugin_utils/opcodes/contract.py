"""What an opcode is to the queue: the locks it needs, when it is moot, and what it does."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

import pydantic

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from ..cluster.locks import Mode
from ..disks import possible_loss, unfinished_moves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..cluster.changes import Change as Stated
    from ..rounds import work

SHARED, EXCLUSIVE = Mode.SHARED, Mode.EXCLUSIVE
Loss: TypeAlias = Annotated[int, pydantic.Field(ge=0, le=possible_loss.MOST_ACCEPTED, strict=True)]
"""Seconds of writes that a person gives up, at most."""


class Execution(Enum):
    """How the queue executes an opcode: each class of opcodes says it, whatever else it has."""

    PLAY = "play"
    """Its playbook runs in a process of its own."""
    CHANGE = "change"
    """The daemon commits changes of the configuration."""
    SUBMIT = "submit"
    """The daemon plans jobs and submits them."""
    DELAY = "delay"
    """The daemon waits."""


Play: TypeAlias = Literal[Execution.PLAY]
Change: TypeAlias = Literal[Execution.CHANGE]
Submit: TypeAlias = Literal[Execution.SUBMIT]
Delay: TypeAlias = Literal[Execution.DELAY]


class Facts(Protocol):
    """What an opcode inside the daemon may ask beside the configuration."""

    async def take_all(self) -> bool:
        """Judge all reports that have arrived, which is done before an opcode that `hears` decides."""

    def reported_ok_since(self, node: str, since: float) -> bool:
        """Whether a node's last accepted report says Ok and is newer than a unix time."""

    def is_silent(self, node: str) -> bool:
        """Whether a node did not answer the last time it was asked."""

    def last_said(self, node: str) -> float:
        """When a node last reported or answered (unix seconds), 0 for never."""

    def off(self, node: str) -> tuple[float, float] | None:
        """When a node was first known to be off (unix seconds on record), and how many seconds ago; None: it is not."""


@dataclass(frozen=True)
class Notice:
    """A line for the log and the audit log; `is_trouble` makes it a warning."""

    text: str
    is_trouble: bool = False


@dataclass(frozen=True)
class Start:
    """An opcode may start, and its play is told since when its source is known to be off (`Facts.off`)."""

    off: tuple[float, float] | None = None


class Opcode(abc.ABC):
    """One kind of opcode, made of its parameters: what is abstract each kind says, all else is the rule for most.

    An opcode is checked against the cluster when its locks are granted, so `moot` and `variables` see what is true
    while it runs.
    """

    kind: ClassVar[str]
    execution: ClassVar[Execution]
    op_id: ClassVar[str] = ""
    """Its name in Ganeti's API; '' where that is `OP_` and its kind."""

    @abc.abstractmethod
    def wants(self, cluster: clusters.Cluster) -> Mapping[str, Mode]:
        """The locks it needs."""

    def moot(self, cluster: clusters.Cluster) -> str:  # noqa: ARG002 - some look there
        """Why there is nothing left to do, or ''."""
        return ""

    def is_urgent(self) -> bool:
        """Whether it gets one of the reserved slots, which are for short and urgent opcodes only.

        They are at work beside those that take hours, as a resync does.
        """
        return False


class PlayOpcode(Opcode):
    """An opcode that touches nodes, in a process of its own.

    The tasks `<kind>.yml` of its `role` are its play; without a role it has a playbook, `playbooks/opcodes/<kind>.yml`.
    Its run has a time limit: far more than it needs when all goes well, for its end is a violent one.
    """

    execution: ClassVar[Play] = Execution.PLAY
    role: ClassVar[str] = ""

    @abc.abstractmethod
    def time_limit(self, cluster: clusters.Cluster) -> int:
        """How many seconds its run gets: more than the sum of what its steps may take (`time_limits.py`)."""

    @abc.abstractmethod
    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        """The nodes (UUIDs) that its run may reach."""

    @abc.abstractmethod
    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        """The variables of its play."""

    def check_facts(self, cluster: clusters.Cluster, facts: Facts) -> Start | None:  # noqa: ARG002 - some look there
        """Check what is not in the configuration right before the run, with locks and slot.

        Returns what the run is told of it; None for nothing.

        Raises:
            Refused: a rule is against it.
        """
        return None

    def files(self) -> dict[str, str]:
        """Texts that come from a node, as files of the run folder: a variable would be taken for a template."""
        return {}

    def whole_reports(self) -> dict[str, str]:
        """The digests of the large reports that it is given whole, by the names of their files in the run folder."""
        return {}

    def included_playbook(self) -> str:
        """The playbook of the controller's, by its absolute path, that its run includes; '' for none."""
        return ""

    def forks(self, cluster: clusters.Cluster) -> int:  # noqa: ARG002 - some look there
        """On how many nodes it works at the same time; 0 for as many as Ansible does by default.

        Steps that are not for as many limit themselves (`throttle`).
        """
        return 0

    def about(self) -> tuple[str, ...]:
        """The UUIDs of the instance or the nodes that must be looked at when the run is lost."""
        return ()

    def notices(self, value: Any) -> list[Notice]:  # noqa: ARG002 - some look there
        """What people want to read later of what it did, from the value that its run left."""
        return []

    def outcome(self, value: Any) -> Any:  # noqa: ARG002 - some look there
        """The result of the opcode as a JSON value, from the value that its run left, also where that failed.

        None is for no result.
        """
        return None


class LookOpcode(PlayOpcode):
    """A play that only reads, and records what it read."""

    @abc.abstractmethod
    def told(self, cluster: clusters.Cluster) -> str:
        """What the configuration says, in a sentence."""


class ChangeOpcode(Opcode):
    """An opcode that only changes the configuration, inside the daemon."""

    execution: ClassVar[Change] = Execution.CHANGE
    hears: ClassVar[bool] = False
    """Whether it matters what nodes have reported, up to this moment."""
    removes: ClassVar[bool] = False
    """Whether it cannot be decided again once it is committed, for what it is about is not there any more."""

    @abc.abstractmethod
    def changes(self, cluster: clusters.Cluster, facts: Facts, *, since: float) -> list[Stated]:
        """What becomes true.

        Raises:
            Refused: a rule is against it.
        """

    def is_removed(self, cluster: clusters.Cluster) -> bool:  # noqa: ARG002 - those that remove look there
        """Whether nothing of what it removes is there."""
        return False

    def result(self, before: clusters.Cluster, stated: list[Stated]) -> Any:  # noqa: ARG002 - some look there
        """The result of the opcode as a JSON value, from the cluster as it was before these changes; None for none."""
        return None

    def told(self, before: clusters.Cluster, stated: list[Stated]) -> list[str]:  # noqa: ARG002 - some look there
        """What becomes different, in lines for people, from the cluster as it was before these changes."""
        return []


class SubmitOpcode(Opcode):
    """An opcode that plans inside the daemon and submits what it planned; it does not wait for those jobs.

    Its result is Ganeti's `{"jobs": [[true, ID], ...]}`, in the order of the plan.
    """

    execution: ClassVar[Submit] = Execution.SUBMIT

    @abc.abstractmethod
    def jobs(self, cluster: clusters.Cluster, facts: Facts) -> list[work.Job]:
        """The jobs to submit; `after` and `behind` name jobs of this list by their keys.

        Raises:
            Refused: a rule is against it; nothing is submitted.
        """


class DelayOpcode(Opcode):
    """An opcode that only waits, inside the daemon."""

    execution: ClassVar[Delay] = Execution.DELAY

    @abc.abstractmethod
    def seconds(self) -> float:
        """How long it waits once its locks are granted; 0 for not at all."""


def not_empty(cluster: clusters.Cluster, node: str) -> str:
    """Why a node that was to be empty is not, or ''."""
    there = [instance.name for instance in cluster.held(node)]
    return f"not done: {cluster.node_name(node)} holds {', '.join(there)} again" if there else ""


def in_use(cluster: clusters.Cluster, node: clusters.Node, instances: Iterable[clusters.Instance]) -> str:
    """Why a node keeps its power and its role without force: these instances run there, or may; '' for none."""
    found = list(instances)
    running = ", ".join(instance.name for instance in found if not instance.moving)
    texts = [f"{node.name} still runs {running}: evacuate it first"] if running else []
    texts += [unfinished_moves.text(cluster, instance) for instance in found if instance.moving]
    return f"{'; '.join(texts)}, or use --force" if texts else ""


def node_variables(cluster: clusters.Cluster, uuid: str) -> dict[str, str]:
    """A node as plays see it; `address` is the one that migrations and DRBD use."""
    node = cluster.node(uuid)
    return {"uuid": uuid, "name": node.name, "address": node.secondary_ip or node.primary_ip or node.name}


def agent(cluster: clusters.Cluster, node: clusters.Node) -> dict[str, Any]:
    """Where the agent of a node answers; port 0 where agents are not asked."""
    return {"address": node.primary_ip or node.name, "port": cluster.maintenance.settings.agent_port}


def instance_at(instance: str, nodes: Iterable[str]) -> dict[str, Mode]:
    """The locks of whoever works on an instance at nodes (UUIDs): it is for nobody else, and its nodes are shared."""
    return {f"instance/{instance}": EXCLUSIVE, **{f"node/{uuid}": SHARED for uuid in nodes}}


def power_of(nodes: Iterable[str], mode: Mode, *, node: Mode = SHARED) -> dict[str, Mode]:
    """The locks of whoever reads (shared) or commands (exclusive) the power of nodes (UUIDs), which it holds, too."""
    known = tuple(nodes)
    return {f"node/{uuid}": node for uuid in known} | {f"node-res/{uuid}": mode for uuid in known}


def observed(cluster: clusters.Cluster, facts: Facts) -> clusters.Cluster:
    """The cluster as it is planned for: silent nodes are no targets."""
    return clusters.observed(cluster, silent=[uuid for uuid in cluster.nodes if facts.is_silent(uuid)])


def refuse_silent(cluster: clusters.Cluster, facts: Facts, *nodes: str) -> None:
    """Refuse nodes (UUIDs) that did not answer when they were last asked.

    Raises:
        Refused: one of them did not. NotFound: it has left the cluster.
    """
    for uuid in nodes:
        name = cluster.node_name(uuid)
        if facts.is_silent(cluster.node(uuid).uuid):
            raise errors.Refused(
                f"{name} did not answer when it was last asked: see `roundsman explain {name}`; restore its network "
                "link if that is cut, or reboot the node if it hangs, then retry"
            )


def refuse_unfinished(cluster: clusters.Cluster, instance: clusters.Instance) -> None:
    """Nothing is done to an instance that may run on one of two nodes, until it was looked for.

    Raises:
        Refused: a migration of it has not ended.
    """
    if text := unfinished_moves.text(cluster, instance):
        raise errors.Refused(text)


def refuse_unreachable(cluster: clusters.Cluster, *nodes: str) -> None:
    """Nothing but a BMC is contacted of a node that is offline or has no power (UUIDs).

    Raises:
        Refused: one of them is so. NotFound: it has left the cluster.
    """
    for uuid in nodes:
        node = cluster.node(uuid)
        if not clusters.reachable(cluster, node):
            stated = "stated to be off (`roundsman node confirm-off --undo` takes that back)"
            why = "offline" if node.offline else stated if node.off_confirmed else "recorded as powered off"
            raise errors.Refused(f"{node.name} is {why}: it is not contacted")
