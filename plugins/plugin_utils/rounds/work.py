"""What is submitted of a plan: jobs of opcodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping


@dataclass(frozen=True)
class Opcode:
    """One step on the cluster; every object in `params` is named by its UUID.

    Kinds and params: `node_role` {node, drained} or {node, offline, empty}; `migrate` and `failover` {instance,
    source, target}, a failover also {ignore_consistency}; `replace_disks` {instance, old, new}; `repair_command`
    {node, command, input, input_digest};
    `power` {node, command, empty}. With `empty` nothing is done when any instance has the node by then.
    """

    kind: str
    params: Mapping[str, object]


@dataclass(frozen=True)
class Job:
    """Opcodes that run one after the other; the key is unique in the plan, and the same when planned again.

    `after` are keys of jobs of the same plan that must succeed first; `behind` are keys of jobs of the same plan that
    must have ended first, however they ended (one node's trouble stops no other, nor does one failover that of another
    instance), `earlier` are numbers of jobs that were submitted before, likewise.
    """

    key: str
    opcodes: tuple[Opcode, ...]
    after: tuple[str, ...]
    incident: str | None
    reason: str
    behind: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
