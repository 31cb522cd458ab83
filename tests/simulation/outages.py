"""Nodes that fail, what they report, and what people do about those that are silent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab.world import OK

from tests.simulation import nodes, replica_care

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from ansible_collections.roundsman.cluster.daemon.service import Service

    from tests.simulation.users import Users

REPORTING = 5.0
"""Seconds within which all nodes report that do so by themselves."""


def _any(users: Users, chances: random.Random) -> nodes.Node:
    """Any node but the first one, which is the master."""
    return chances.choice(_all(users)[1:])


def _all(users: Users) -> list[nodes.Node]:
    return sorted(users._world.nodes.values(), key=lambda node: node.name)


def _silent(users: Users) -> list[nodes.Node]:
    return [node for node in _all(users) if not node.answers]


async def _report(users: Users, _service: Service, chances: random.Random) -> None:
    node = _any(users, chances)
    status = chances.choice(("live-repair", "evacuate", "evacuate", "evacuate-failover", "Ok", "Ok"))
    node.say(OK if status == "Ok" else nodes.diagnosis(status, chances.randrange(100)))
    users._world.tell(node.name, "says", status)
    nodes.put_report(users._world, node)


async def _report_all(users: Users, _service: Service, chances: random.Random) -> None:
    """Every node reports once, as by a timer of its own."""
    for node in _all(users):
        users._world.at(chances.random() * REPORTING, lambda node=node: nodes.put_report(users._world, node))  # type: ignore[misc]


async def _fail(users: Users, _service: Service, chances: random.Random) -> None:
    node, world = _any(users, chances), users._world
    node.bmc_lies, node.bmc_is_dark = world.happens("bmc-lies"), world.happens("bmc-is-dark")
    how = chances.random()
    if how < 0.4:
        node.power_off()
    elif how < 0.7:
        node.hang()
    else:
        _cut_off(users, node)


async def _hang(users: Users, _service: Service, chances: random.Random) -> None:
    node = _any(users, chances)
    if node.is_on:
        node.hang()


async def _isolate(users: Users, _service: Service, chances: random.Random) -> None:
    _cut_off(users, _any(users, chances))


def _cut_off(users: Users, node: nodes.Node) -> None:
    node.is_isolated = True
    users._world.tell(node.name, "is isolated")
    replica_care.cut_links(users._world, node.uuid)


async def _return(users: Users, _service: Service, _chances: random.Random) -> None:
    for node in _silent(users):
        node.recover()
        users._world.tell(node.name, "is back")


async def _power_off(users: Users, service: Service, _chances: random.Random) -> None:
    """A person powers silent nodes off, as refusals say: `roundsman node power off NODE --force`."""
    await _ask(
        users, service, "power", [{"node": node.uuid, "command": "off", "force": True} for node in _silent(users)]
    )


async def _fail_over(users: Users, service: Service, _chances: random.Random) -> None:
    """A person fails the instances of silent nodes over, one by one."""
    silent = {node.uuid for node in _silent(users)}
    found = sorted(service.configuration.current.instances.items())
    wanted: list[dict[str, Any]] = [
        {"instance": uuid, "source": instance.primary_node, "target": instance.secondary_nodes[0]}
        for uuid, instance in found
        if instance.primary_node in silent and instance.secondary_nodes
    ]
    await _ask(users, service, "failover", wanted)


async def _ask(users: Users, service: Service, kind: str, wanted: list[dict[str, Any]]) -> None:
    """Submit a job for each of these opcodes."""
    if jobs := [values.Job(id=0, opcodes=(values.Opcode(kind, params),), received=1.0) for params in wanted]:
        await users.submit(service, *jobs)


SUBMISSIONS = frozenset({"power-off-silent", "fail-over-silent"})
DEEDS: dict[str, Callable[[Users, Service, random.Random], Awaitable[None]]] = {
    "report": _report,
    "report-all": _report_all,
    "node-fails": _fail,
    "node-hangs": _hang,
    "node-isolated": _isolate,
    "node-returns": _return,
    "power-off-silent": _power_off,
    "fail-over-silent": _fail_over,
}
