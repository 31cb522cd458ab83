"""How long each step of an opcode may take at most, and the limit of a whole run: more than the sum of its steps.

All limits are collected here, in seconds. The order is: a run's limit > a task's `timeout` > what the module's own
parts may take. The end of a run at its limit is a violent one, so a limit is no estimate: a step that ends at its own
limit says why it failed, a run that is killed leaves others to find out. Users set `shutdown_timeout` and
`migration_limit` of an instance, so the limits of its opcodes follow (`docs/decisions/time-limits.md`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...module_utils import instance_lock, instance_with_disks
from ...module_utils.domain.values import hvparams
from ...module_utils.hypervisor import kvm_migration, virsh
from ...module_utils.oob import program
from ...module_utils.storage import drbd_roles, programs
from .. import reaching

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..cluster import cluster as clusters

RUN = 300.0
"""Starting and ending a run, and whatever its play does on the controller."""
QUICK_TASK = 4 * reaching.SECONDS
TASK = QUICK_TASK - reaching.SECONDS + reaching.MOST
"""Reaching a node, handing a module over, starting its interpreter, and taking its answer; or on a node as most are."""
LOCK = instance_lock.TIME_LIMIT
"""Waiting for the step before this one on the same instance."""
HYPERVISOR = 3 * virsh.TIME_LIMIT
"""The calls of libvirt in one step: some are slow, and the first that hangs fails the step."""
TOOLS = 2 * programs.TIME_LIMIT
"""The tools of DRBD and LVM in one step that look at all disks: the first that hangs fails the step."""
DISK = programs.TIME_LIMIT + drbd_roles.PATIENCE + drbd_roles.IN_USE
"""What is done to one disk of an instance in one step, with the waits of changing its role."""
SYNC_BASE, SYNC_RATE = 86400.0, 10.0
"""Waiting until replicas are in sync: a day, and a second for each so many MiB."""
SYNC_LOOK = 60
"""How long one look of that wait takes."""
OS_PLAYBOOK = 86400.0
"""A playbook of the user that installs an operating system."""
REPAIR_COMMAND = 3600.0
"""A live-repair command: the default of the module `repair_command`."""
DIAGNOSE = 3600.0
"""A diagnose command, whose own limit is in the settings of the node."""
FORKS = 5
"""On how many nodes Ansible does a task at the same time: its default."""
REPAIR_LOOKS, REPAIR_SETTLE = 6, 15.0
"""How often the role `repair` looks at disks, and how long it lets connections settle each time."""
BMC = program.deadline(5)
"""Commanding one BMC and reading its power back: five calls of a helper program are the slowest way."""


def limit(*parts: float) -> int:
    """The limit of a run with these parts, one after the other."""
    return math.ceil(RUN + sum(parts))


def soft_stop(instance: clusters.Instance, *, most: float | None = None) -> float:
    """How long a guest gets to shut down before it is destroyed; never more than `most`."""
    own = hvparams.kvm(instance.hvparams).shutdown_timeout
    return own if most is None else min(own, most)


def stopping(instance: clusters.Instance, *, most: float | None = None) -> float:
    """Stopping an instance on its node: softly, then hard.

    A migration that was interrupted is waited for as long as a soft stop, then aborted.
    """
    soft = soft_stop(instance, most=most)
    return LOCK + soft + kvm_migration.END_LIMIT + soft + HYPERVISOR


def migrating(instance: clusters.Instance) -> float:
    """A migration that ends, or is aborted at its limit."""
    simulated = float(instance.hvparams.get("migration_seconds", "0"))
    return max(hvparams.kvm(instance.hvparams).migration_limit, simulated) + kvm_migration.END_LIMIT


def starting(instance: clusters.Instance) -> float:
    """Starting an instance on its node, after a migration that was interrupted has ended."""
    return LOCK + migrating(instance) + HYPERVISOR


def handling_disks(instance: clusters.Instance) -> float:
    """One step at all disks of an instance on its node."""
    return LOCK + TOOLS + len(instance.disks) * DISK


def stop(instance: clusters.Instance) -> float:
    """The task that stops an instance."""
    return TASK + stopping(instance)


def start(instance: clusters.Instance) -> float:
    """The task that starts an instance."""
    return TASK + starting(instance)


def migrate(instance: clusters.Instance) -> float:
    """The task that migrates an instance, after one that was interrupted has ended."""
    return TASK + LOCK + migrating(instance) + migrating(instance) + HYPERVISOR


def look() -> float:
    """A task that reads what runs on a node, or how its disks are."""
    return TASK + HYPERVISOR + TOOLS


def turns(nodes: int, *, at_once: int = FORKS) -> int:
    """How many turns a task takes on so many nodes, some of them at a time: `FORKS` as Ansible does by default."""
    return math.ceil(nodes / at_once)


def find(instance: clusters.Instance, *, nodes: int) -> float:
    """Looking for an instance on so many nodes, one after the other, each after an interrupted migration has ended."""
    return nodes * (look() + LOCK + migrating(instance))


def disks(instance: clusters.Instance, *, steps: int) -> float:
    """So many tasks at the disks of an instance, one after the other."""
    return steps * (TASK + handling_disks(instance))


def at_disks(instance: clusters.Instance) -> int:
    """The `timeout` of one task at all disks of an instance."""
    return math.ceil(disks(instance, steps=1))


def sync(instance: clusters.Instance) -> float:
    """Waiting until all replicas of an instance are in sync."""
    return sync_looks(instance) * (TASK + SYNC_LOOK + TOOLS)


def sync_looks(instance: clusters.Instance) -> int:
    """How many looks of `SYNC_LOOK` seconds the replicas of an instance get until they are in sync."""
    return math.ceil((SYNC_BASE + instance.disk_size / SYNC_RATE) / SYNC_LOOK)


def repair(instance: clusters.Instance) -> float:
    """Looking at the disks of an instance on both nodes and repairing them, several times."""
    steps = 2 * len(instance.disks) * (TASK + LOCK + programs.TIME_LIMIT)
    return REPAIR_LOOKS * (2 * (TASK + REPAIR_SETTLE + TOOLS) + steps)


def outdate(instance: clusters.Instance) -> float:
    """Outdating the replica of each disk of an instance, one after the other."""
    return len(instance.disks) * outdating()


def outdating() -> int:
    """The `timeout` of the task that outdates the replica of one disk."""
    return math.ceil(TASK + LOCK + TOOLS)


def life() -> float:
    """Asking a node for a sign of life."""
    return TASK + reaching.PORT_SECONDS


def bmcs(count: int) -> float:
    """Commanding so many BMCs, a few of them at a time, and reading their power back."""
    return TASK + math.ceil(count / program.WIDTH) * BMC


def many_at_once(parts: Sequence[float]) -> float:
    """What a module may take that works on instances side by side, `AT_ONCE` of them, each with its own part."""
    width = instance_with_disks.AT_ONCE
    if not parts:
        return 0.0
    longest = max(parts)
    return min(math.ceil(len(parts) / width) * longest, sum(parts) / width + longest)


def stopping_all(instances: Iterable[clusters.Instance], *, most: float) -> int:
    """The `timeout` of the task that stops all instances of a node and closes their disks."""
    return math.ceil(
        TASK + many_at_once([stopping(instance, most=most) + _own_disks(instance) for instance in instances])
    )


def stopping_all_quickly(instances: Iterable[clusters.Instance], *, most: float) -> int:
    """How long that task gets at first, while all other nodes wait for it: for soft and hard stops that work."""
    return math.ceil(
        QUICK_TASK + many_at_once([soft_stop(instance, most=most) + virsh.TIME_LIMIT for instance in instances])
    )


def starting_all(instances: Iterable[clusters.Instance]) -> int:
    """The `timeout` of the task that opens the disks of many instances of a node, and starts these."""
    # A node that comes back from being off has no migration that was interrupted.
    waits = LOCK + HYPERVISOR + instance_with_disks.CONNECTING
    return math.ceil(TASK + many_at_once([waits + _own_disks(instance) for instance in instances]))


def _own_disks(instance: clusters.Instance) -> float:
    return TOOLS + len(instance.disks) * DISK
