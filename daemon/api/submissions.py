"""Jobs that an administrator asks for."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from ...plugins.module_utils.domain.power import power as power_rules
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import changes, roles
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.opcodes import node_power
from ..jobs import values
from . import asking, auditing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..service import Service

IN_SERVICE = frozenset({"regular", "master-candidate"})


def role(cluster: clusters.Cluster, name: str, wanted: str, *, force: bool) -> list[values.Opcode]:
    """The opcodes that give a node its role; `online` confirms the power and asks for a fresh diagnosis first.

    Whatever is forced, a node that comes back is looked at: it may still run what runs elsewhere now.

    `regular` and `master-candidate` are Ganeti's words for in service, from wherever the node is.

    Raises:
        NotFound: there is no such node. Refused: the master keeps its role, offline is not drained, and candidates
        are chosen by the size of their pool.
    """
    node = cluster.node(name)
    if wanted in {"drained", "offline"} and clusters.role(cluster, node) is clusters.Role.MASTER:
        raise errors.Refused(f"{node.name} is the master: move the master role to another node first")
    if wanted in IN_SERVICE:
        if wanted == "master-candidate":
            _refuse_beyond_the_pool(cluster, node)
        wanted = "online" if node.offline else "undrained"
    if wanted in {"drained", "undrained"} and node.offline:
        raise errors.Refused(f"{node.name} is offline: bring it back with `roundsman node online {node.name}` first")
    fields: dict[str, dict[str, Any]] = {
        "drained": {"drained": True},
        "undrained": {"drained": False},
        "offline": {"offline": True, "force": force},
        "online": {"drained": False, "offline": False, "force": force},
    }
    opcodes = [values.Opcode("node_role", {"node": node.uuid, **fields[wanted]})]
    if wanted == "online":
        opcodes.insert(0, values.Opcode("second_copies", {"node": node.uuid}))
    if wanted == "online" and not force:
        opcodes.insert(0, values.Opcode("diagnose", {"node": node.uuid}))
        if clusters.parameter(cluster, node, "oob_program") is not None:
            opcodes.insert(0, values.Opcode("power", {"node": node.uuid, "command": "status", "expect": "on"}))
    return opcodes


def _refuse_beyond_the_pool(cluster: clusters.Cluster, node: clusters.Node) -> None:
    stated = roles.change(cluster, node, drained=False, offline=False)
    if not any(
        isinstance(change, changes.NodeRole) and change.node == node.uuid and change.master_candidate
        for change in stated
    ):
        size = cluster.cluster.candidate_pool_size
        raise errors.Refused(f"{node.name} would be no candidate: the pool has its {size}, or it is not master_capable")


def power(
    cluster: clusters.Cluster,
    names: Sequence[str],
    command: str,
    *,
    force: bool = False,
    offline: bool = False,
    delay: float = 0.0,
    check: bool = False,
) -> list[values.Opcode]:
    """The opcode that changes or reads the power of nodes together; with `offline` those that are off leave service.

    Raises:
        NotFound: there is no such node. Refused: one has no BMC, or is the master whose power is to be taken.
    """
    nodes = _with_oob(cluster, names)
    if command in node_power.TAKING:
        for node in nodes:
            if node.uuid == cluster.cluster.master_node:
                raise errors.Refused(node_power.master_objection(cluster, node, command))
    wanted = {"force": force, "delay": delay, "check": check}
    params = {"command": command, **{name: value for name, value in wanted.items() if value}}
    opcodes = [values.Opcode("power", {**_at(nodes), **params})]
    if offline and command == "off" and not check:
        left = [node for node in nodes if not node.offline]
        opcodes += [values.Opcode("node_role", {"node": node.uuid, "offline": True, "force": force}) for node in left]
    return opcodes


def health(cluster: clusters.Cluster, names: Sequence[str]) -> list[values.Opcode]:
    """The opcode that reads the health of nodes together.

    Raises:
        NotFound: there is no such node. Refused: one has no BMC.
    """
    return [values.Opcode("health", _at(_with_oob(cluster, names)))]


def _with_oob(cluster: clusters.Cluster, names: Sequence[str]) -> list[clusters.Node]:
    nodes = list({node.uuid: node for node in map(cluster.node, names)}.values())
    lacking = [node.name for node in nodes if clusters.parameter(cluster, node, "oob_program") is None]
    if lacking:
        raise errors.Refused("; ".join(power_rules.NO_OOB.format(name) for name in lacking))
    return nodes


def _at(nodes: Sequence[clusters.Node]) -> dict[str, Any]:
    return {"node": nodes[0].uuid} if len(nodes) == 1 else {"nodes": [node.uuid for node in nodes]}


async def submit(
    service: Service,
    opcodes: Sequence[values.Opcode],
    *,
    priority: int = 0,
    reason: Sequence[tuple[str, str]] = (),
    dry_run: bool = False,
    names: Mapping[str, str] | None = None,
) -> values.Job:
    """Have the queue take a new job of these opcodes, all of one priority; jobs that come together share one write.

    `names` are those of objects (UUIDs) that the job makes; `reason` are the sources and texts of its trail; without
    one the kinds of the opcodes are told as the user's.

    Raises:
        InvalidInput: an opcode is unknown, its parameters are wrong, or it cannot be tried without being done.
        StoreFailed: the job could not be made durable. Refused: the queue takes no jobs.
    """
    values.check_submittable(priority)
    steps = [dataclasses.replace(opcode, priority=priority, dry_run=dry_run) for opcode in opcodes]
    job = _job(service, steps, trail=reason or [(asking.USER, ", ".join(opcode.kind for opcode in opcodes))])
    job = dataclasses.replace(job, names={**job.names, **(names or {})})
    (submitted,) = await service.queue.submit([job])
    auditing.add_job(submitted)
    return submitted


async def submit_question(service: Service, opcode: values.Opcode, *, asked: asking.Asked, text: str) -> values.Job:
    """The job that answers a question: the unfinished one that answers it already, or a new one.

    Raises:
        HTTPException: too many of these jobs have not ended. Otherwise as `submit`.
    """
    questions = service.queue.questions
    async with questions.submitting:
        known = questions.unfinished(opcode)
        if known is not None:
            auditing.add_job(known)
            return known
        if objection := questions.objection(asked.user):
            raise HTTPException(429, objection)
        job = await submit(service, [opcode], reason=asked.because(text), dry_run=opcode.dry_run)
        await questions.add(job)
        return job


def ignore_consistency(asked: asking.Asked) -> tuple[tuple[str, str], ...]:
    """The entry of the reason trail that names who accepts the loss of writes; the audit log names them too."""
    return _accepted(asked, "ignore_consistency")


def max_loss(asked: asking.Asked, seconds: int) -> tuple[tuple[str, str], ...]:
    """The entry of the reason trail that names who gives up the writes of so many seconds; so does the audit log."""
    return _accepted(asked, f"loss of writes up to {seconds} s accepted")


def discard(asked: asking.Asked, node: str) -> tuple[tuple[str, str], ...]:
    """The entry of the reason trail that names who gives up what a node wrote; the audit log names them too."""
    return _accepted(asked, f"discard what {node} wrote")


def _accepted(asked: asking.Asked, what: str) -> tuple[tuple[str, str], ...]:
    text = f"{what} by {asked.user}"
    auditing.add_text(text)
    return ((asking.USER, text),)


def _job(service: Service, opcodes: Sequence[values.Opcode], *, trail: Sequence[tuple[str, str]]) -> values.Job:
    now = service.queue.now()
    return values.Job(
        id=0,  # the queue numbers it
        opcodes=tuple(opcodes),
        reason=tuple(values.Reason(source, text, int(now * 1e9)) for source, text in trail),
        received=now,
        names=_names(service.configuration.current, opcodes),
    )


def _names(cluster: clusters.Cluster, opcodes: Sequence[values.Opcode]) -> dict[str, str]:
    named: dict[str, Any] = {**cluster.nodegroups, **cluster.nodes, **cluster.instances}
    given = [value for opcode in opcodes for value in opcode.params.values()]
    uuids = {str(entry) for value in given for entry in (value if isinstance(value, list) else [value])}
    return {uuid: named[uuid].name for uuid in sorted(uuids) if uuid in named}
