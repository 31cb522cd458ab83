"""Where a new instance goes: what is asked for is kept, and an allocator, ours or an external one, chooses the rest."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..module_utils.domain import errors
from . import allocator_programs, trusted_files
from .placement.allocation import allocator
from .placement.protocol import own_allocator
from .rounds import configured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..module_utils.domain import cluster as clusters
    from ..module_utils.domain import tree


@dataclass(frozen=True)
class Wish:
    """What is asked for: the name of a group or "", and nodes (UUIDs), the primary first, as far as they are named."""

    group: str = ""
    nodes: tuple[str, ...] = ()


def chosen(cluster: clusters.Cluster, name: str, *, where: tree.Tree) -> allocator.Allocator:
    """The allocator of this name, else the cluster's default one, else ours; external ones are programs of root's.

    Raises:
        InvalidInput: there is no such program. Refused: others than root can write it.
    """
    wanted = name or cluster.cluster.default_iallocator
    if not wanted:
        return own_allocator.make()
    path = where.allocators / wanted
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", wanted) or not os.access(path, os.X_OK):
        raise errors.InvalidInput(f"iallocator: there is no program {wanted!r} in {where.allocators}")
    trusted_files.refuse_untrusted(path, root=where.root)
    return allocator_programs.Program(path)


def place(cluster: clusters.Cluster, draft: clusters.Instance, wish: Wish, *, by: allocator.Allocator) -> list[str]:
    """The nodes (UUIDs) of a new instance, the primary first.

    Raises:
        Refused: there is no place for it; the text says why, group by group. InvalidInput: more nodes are named than
            it can have, or the allocator names others. CommandFailed: an external allocator fails.
    """
    copies = 2 if draft.disk_template == "drbd" else 1
    if len(wish.nodes) > copies:
        raise errors.InvalidInput(f"nodes: an instance with the disk template {draft.disk_template} has {copies}")
    names = {node.uuid: node.name for node in cluster.nodes.values()}
    primary, secondary = (*(names[uuid] for uuid in wish.nodes), "", "")[:2]
    newcomer = replace(configured.instance_of(draft, {"": ""}), primary=primary, secondary=secondary)
    wanted = allocator.Wanted(newcomer, tuple(disk.size for disk in draft.disks), wish.group)
    result = by.decide(configured.model_of(cluster), allocator.Allocate(wanted))
    if not result.placements:
        told = result.unplaced[0].text if result.unplaced else result.info
        raise errors.Refused(f"{draft.name} has no place: {told}")
    found = result.placements[0].nodes
    if len(found) != copies:
        raise errors.InvalidInput(f"the allocator gives {draft.name} the nodes {', '.join(found)}, and it has {copies}")
    return _uuids(cluster, found)


def _uuids(cluster: clusters.Cluster, names: Sequence[str]) -> list[str]:
    return [cluster.node(name).uuid for name in names]
