"""What the repairs of replicas come to: the product's own table decides, and the model does its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_replica as model
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_generations import bare
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import Where
from ansible_collections.roundsman.cluster.plugins.plugin_utils import disk_repairs

from tests.simulation import sides
from tests.simulation.acts import LOOK, STOP, PlayFailed, check_answers, may_fail, replicas, tried, work

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.simulation.acts import Play
    from tests.simulation.disks import Replicas
    from tests.simulation.world import World

LOOKS = 5


def repair_disks(world: World, _run: Path, step: dict[str, Any]) -> Play:
    """Repair until nothing changes; what is left to people fails the play."""
    nodes = {"primary": step["primary"]["uuid"], "secondary": step["secondary"]["uuid"]}
    found = replicas(world, step["instance"]["uuid"])
    tried: list[dict[str, str]] = []
    may_fail(world, "before it looks")
    names = disk_repairs.resources(step["instance"])
    for _ in range(LOOKS):
        yield LOOK
        told = {key: _info(world, found, node, names[0]) for key, node in nodes.items()}
        judged = disk_repairs.judge(names, primary=told["primary"], secondary=told["secondary"], tried=tried)
        result = disk_repairs.as_result(judged, dict.fromkeys(Where, ""), tried=tried)
        for wanted in result["steps"]:
            if world.nodes[nodes[wanted["where"]]].answers:
                yield from _do(world, found, wanted["action"], nodes[wanted["where"]])
        tried += result["steps"]
        yield STOP
        if not result["steps"]:
            break
    left = [*result["refused"], *result["replaced"], *(["its disks are not repaired"] if result["steps"] else [])]
    if left:
        raise PlayFailed("; ".join(left))
    return None


def _info(world: World, found: Replicas, node: str, resource: str) -> dict[str, Any]:
    return sides.info(found, node, resource) if world.nodes[node].answers else {"msg": "it does not answer"}


def _do(world: World, found: Replicas, action: str, node: str) -> Play:
    acts: dict[str, Callable[[], object]] = {
        "up": lambda: found.up(node),
        "connect": lambda: found.command(node, lambda pair, i: pair.connect(i)),
        "invalidate": lambda: found.command(node, lambda pair, i: pair.invalidate(i)),
    }
    if action in acts:
        yield from tried(world, found.uuid, node, acts[action])
    else:
        world.violated(f"a repair wants to {action}")


def outdate_replica(world: World, _run: Path, step: dict[str, Any]) -> Play:
    """Only on the word of a primary on which the instance runs, and never what was written alone."""
    instance, node, primary = step["instance"]["uuid"], step["member"]["uuid"], step["primary"]["uuid"]
    yield LOOK
    if not world.nodes[primary].answers or primary not in world.guests[instance]:
        raise PlayFailed("it is not known to run on its primary")
    yield LOOK
    check_answers(world, node)
    found = replicas(world, instance)
    device, side = found.device(node), found.side(node)
    if device is None or device.role == model.PRIMARY:
        raise PlayFailed("it is down, or primary, on this node")
    if not device.is_together and side.metadata is not None and bare(side.metadata.bitmap):
        raise PlayFailed("it was written on this node since it lost its peer")
    if not device.is_together and device.disk in {model.UP_TO_DATE, model.CONSISTENT}:
        yield from work(world, instance, node, lambda: found.command(node, lambda pair, i: pair.outdate(i)))
    return None


PLAYS = {"repair_disks": repair_disks, "outdate_replica": outdate_replica}
"""By the kind of opcode."""
