"""Where an instance is of which a migration has not ended, by what its two nodes answer, when it is to be started.

The migration may have ended in libvirt after its play was killed. So both nodes may run the instance, or may have
written its disks last: each answers that it does not run there, or is known to be off, and a guest that runs is
recorded where it runs, and never started a second time.

| the primary on record has | the other node | what follows |
|---|---|---|
| no answer | any | refused |
| the guest | has it, too | refused |
| the guest, and it does not run | does not answer | refused: the guest may run there |
| the guest, and its migration goes on, or how it ended is not known | does not run it, or does not answer | refused |
| the guest, and it runs | does not have it, or does not answer | it is there: the migration did not happen |
| the guest, and it does not run | does not have it | it runs nowhere: the replicas say who has the newer data |
| nothing | runs it | it is there: the migration happened |
| nothing | has it, and does not run it | refused |
| nothing | has nothing | it runs nowhere: the replicas say who has the newer data |
| nothing | does not answer | it is failed over from there: that node has to be off, and its possible loss counts |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Tuple

from ..cluster import cluster as clusters
from .failovers import RUNNING, Node


class Step(Enum):
    """What becomes of the start; `STAYS` and `MOVED` are recorded, `NOWHERE` once the replicas were compared."""

    STAYS = "stays"
    NOWHERE = "nowhere"
    MOVED = "moved"
    FAIL_OVER = "fail over"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Answer:
    """What becomes of the start of an instance, and why it is refused."""

    step: Step
    objection: str = ""


def text(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """That a migration has not ended, with what ends that; '' where none is under way."""
    return f"{sentence(cluster, instance)}: {step(cluster, instance)}" if instance.moving else ""


def sentence(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """That a migration has not ended, so that an instance may run on one of two nodes."""
    primary, other = (cluster.node_name(uuid) for uuid in instance.places)
    return f"a migration of {instance.name} from {primary} to {other} has not ended, so it may run on {other}"


def step(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """What a person does about an instance of which a migration has not ended."""
    start = f"run `roundsman instance start {instance.name}`, which looks for it on both"
    primary, other = cluster.nodes.get(instance.primary_node), cluster.nodes.get(instance.moving)
    if primary is None or clusters.answers(cluster, primary):
        return start
    if other is None or not clusters.answers(cluster, other):
        return f"bring {primary.name} back, then {start}"
    return (
        f"run `roundsman instance failover {instance.name}`, which records it on {other.name} if it runs there, and "
        "starts it there if not"
    )


def judge(instance: str, primary: Node, other: Node, *, end: str, goes_on: bool = False) -> Answer:
    """What becomes of the start of an instance that a migration was to take from its primary to another node.

    `end` is the command by which a person ends the guest on a node: no command of Roundsman does while both may run it.
    `goes_on` is the word of the primary that the migration has no known end, although it has waited for it.
    """
    if not primary.answers or primary.why:
        return _refused(
            f"{primary.name} does not say whether {instance} runs there ({primary.why}): restore its network link, or "
            f"reboot it if it hangs, then retry{_without(instance, primary, other)}"
        )
    if primary.guest:
        return _at_primary(instance, primary, other, end=end, goes_on=goes_on)
    if not other.answers or other.why:
        # Alive or not is for the fence of the failover.
        return Answer(Step.FAIL_OVER)
    if other.guest and other.guest != RUNNING:
        return _refused(
            f"{instance} is on {other.name}, {other.guest}, where a migration that has not ended was to take it: it is "
            f"not started on {primary.name}. Run `{end}` on {other.name}, then retry"
        )
    return Answer(Step.MOVED if other.guest else Step.NOWHERE)


def _without(instance: str, primary: Node, other: Node) -> str:
    """What a person does if the primary on record is lost, and the other node answers."""
    if not other.answers or other.why:
        return ""
    return (
        f". If {primary.name} is lost, run `roundsman instance failover {instance}`, which needs {primary.name} to be "
        f"off and records {instance} on {other.name}"
    )


def _at_primary(instance: str, primary: Node, other: Node, *, end: str, goes_on: bool) -> Answer:
    if other.guest:
        return _refused(_twice(instance, (primary, other), end=end))
    # A guest that was halted to be handed over may have gone on at the other node.
    if primary.guest != RUNNING and (not other.answers or other.why):
        return _refused(
            f"{instance} is {primary.guest} on {primary.name}, and {other.name} does not say whether it runs there: "
            f"restore the network link of {other.name}, then retry. If {other.name} is lost, run `{end}` on "
            f"{primary.name}, which loses what only its memory has, then run `roundsman instance start {instance}`, "
            f"which needs {other.name} to be off"
        )
    if primary.guest == RUNNING and goes_on:
        return _refused(
            f"the migration of {instance} from {primary.name} to {other.name} goes on, or how it ended is not known: "
            "retry, which waits for its end and aborts it after its migration_limit"
        )
    # One that does not run may have run on the other node meanwhile.
    return Answer(Step.STAYS if primary.guest == RUNNING else Step.NOWHERE)


def _twice(instance: str, nodes: Tuple[Node, Node], *, end: str) -> str:
    found = " and ".join(f"{node.guest} on {node.name}" for node in nodes)
    halted = [node.name for node in nodes if node.guest != RUNNING]
    where = halted[0] if len(halted) == 1 else "the node whose guest has the older data"
    return f"{instance} is {found}: run `{end}` on {where}, then retry"


def _refused(text: str) -> Answer:
    return Answer(Step.REFUSE, text)
