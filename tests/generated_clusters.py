"""Clusters for the planner's tests and figures: made from a seed, heterogeneous, out of balance, but possible.

Nodes have 128 GiB and, three in ten, 256 GiB of memory; instances are DRBD pairs that were put anywhere with room.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

SIZES = (1024, 1024, 2048, 2048, 4096, 4096, 4096, 8192, 8192, 16384)
DISKS = (10240, 20480, 20480, 51200, 51200, 102400, 204800)
TAGS = ("htools:iextags:service", "htools:nlocation:rack", "htools:desiredlocation:rack")
SPARE = 2048
POLICY = model.Policy(bounds=((model.Spec(128, 1, 1024), model.Spec(65536, 16, 1048576, 16, 8, 12)),))


@dataclass
class _Free:
    memory: int
    disk: int
    vcpus: float


def make(
    *,
    nodes: int = 20,
    instances: int = 200,
    seed: int = 1,
    groups: int = 1,
    offline: int = 0,
    exclusion: bool = False,
    locations: bool = False,
    shared: float = 0.0,
    plain: float = 0.0,
    stopped: float = 0.0,
    split: int = 0,
) -> model.Model:
    """A cluster of that many nodes and instances, the same for the same seed.

    The last `offline` nodes are offline and still hold instances. `exclusion` gives three in ten instances one of a
    few exclusion tags; `locations` puts the nodes into racks, and one in ten instances desires one. Of the instances,
    the shares `shared` (rbd) and `plain` are no DRBD pairs and `stopped` do not run; the first `split` pairs have
    their secondary in another group.
    """
    chance = random.Random(seed)
    made = [
        _node(number, chance, nodes=nodes, groups=groups, offline=offline, locations=locations)
        for number in range(nodes)
    ]
    free = {one.name: _Free(one.f_mem, one.f_disk, 4 * one.pcpus - 1) for one in made}
    found = []
    for number in range(instances):
        one = _instance(number, chance, exclusion=exclusion, locations=locations)
        kind = chance.random()
        template = model.Template.RBD if kind < shared else model.Template.DRBD
        template = model.Template.PLAIN if shared <= kind < shared + plain else template
        status = "ADMIN_down" if chance.random() < stopped else "running"
        one = replace(one, template=template, status=status)
        found.append(_placed(one, made, free, chance, split=number < split))
    return model.Model(
        groups=tuple(model.Group(_group(number), f"uuid-{number + 1}", policy=POLICY) for number in range(groups)),
        nodes=tuple(replace(one, f_mem=free[one.name].memory, f_disk=free[one.name].disk) for one in made),
        instances=tuple(found),
        tags=(*TAGS[:1] * exclusion, *TAGS[1:] * locations),
        policy=POLICY,
    )


def _group(number: int) -> str:
    return f"group-{number + 1}"


def _node(number: int, chance: random.Random, *, nodes: int, groups: int, offline: int, locations: bool) -> model.Node:
    size = 2 if chance.random() < 0.3 else 1
    memory, disk = size * 131072, size * 4194304
    racks = (f"rack:{number % max(2, nodes // 5)}",) if locations else ()
    return model.Node(
        name=f"node-{number + 1:04d}",
        group=f"uuid-{number * groups // nodes + 1}",
        t_mem=float(memory),
        n_mem=1024,
        f_mem=memory - 1024,
        t_disk=float(disk),
        f_disk=disk,
        pcpus=32.0 * size,
        offline=number >= nodes - offline,
        master=number == 0,
        spindles=8 * size,
        tags=racks,
    )


def _instance(number: int, chance: random.Random, *, exclusion: bool, locations: bool) -> model.Instance:
    tags = []
    if exclusion and chance.random() < 0.3:
        tags.append(f"service:{chance.randrange(12)}")
    if locations and chance.random() < 0.1:
        tags.append(f"rack:{chance.randrange(4)}")
    return model.Instance(
        name=f"inst-{number + 1:05d}",
        memory=chance.choice(SIZES),
        disk=chance.choice(DISKS),
        vcpus=chance.choice((1, 1, 2, 2, 4)),
        status="running",
        auto_balance=True,
        primary="",
        tags=tuple(tags),
    )


def _placed(
    one: model.Instance, nodes: list[model.Node], free: dict[str, _Free], chance: random.Random, *, split: bool
) -> model.Instance:
    local = one.template is not model.Template.RBD
    disk = one.disk if local else 0
    running = one.status == "running"
    for tries in range(1000):
        primary, secondary = chance.sample(nodes, 2)
        across = primary.group != secondary.group
        if one.template is model.Template.DRBD and across is not split and tries < 900:
            continue
        mine, other = free[primary.name], free[secondary.name]
        fits = mine.memory - one.memory >= SPARE and mine.vcpus >= one.vcpus and mine.disk - disk >= primary.t_disk / 4
        if fits and other.disk - disk >= secondary.t_disk / 4:
            break
    else:
        raise ValueError(f"no room for {one.name}: fewer instances or more nodes")
    mine.memory -= one.memory * running
    mine.vcpus -= one.vcpus
    mine.disk -= disk
    if one.template is not model.Template.DRBD:
        return replace(one, primary=primary.name)
    other.disk -= disk
    return replace(one, primary=primary.name, secondary=secondary.name)
