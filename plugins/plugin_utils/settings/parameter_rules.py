"""Which values the parameters of a cluster, a group and a node take: one rule each, that gives the value or refuses it.

What is inherited takes `default`, too: it is inherited again, which None says.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

from ...module_utils.domain.values import errors
from ...module_utils.domain.values.value_rules import MOST, Rule, address, flag, number, one_of, text
from ..silent_nodes import dead_nodes
from . import host_variables, instance_policy

DRIVERS = ("ipmi", "redfish")
POLICIES = ("preferred", "last_resort", "unallocable")
DEFAULT = "default"
SPEC = ("memory", "disk", "vcpus")
RESERVED_NAMES = frozenset(
    {"localhost", "127.0.0.1", "all", "ungrouped", "roundsman_nodes", "drained", "offline", "powered_off", "reachable"}
)
RESERVED_BEGINNINGS = ("group_", "role_")
"""Names that no node has: the controller's own, and groups of the inventory, of which a play would take all nodes."""


def or_inherited(rule: Rule) -> Rule:
    """The rule of what may be inherited."""
    return lambda name, value: None if value == DEFAULT else rule(name, value)


def oob_program(name: str, value: Any) -> Optional[str]:
    """An absolute path, the name of a driver, or nothing (seed 001)."""
    if value == DEFAULT:
        return None
    if isinstance(value, str) and (value in {"", "!", *DRIVERS} or _PROGRAM.fullmatch(value)):
        return value
    raise errors.InvalidInput(
        f"{name}: {value!r} is not one of: an absolute path, {', '.join(DRIVERS)}, '!' (no BMC), 'default' (inherit)"
    )


def node_name(name: str, value: Any) -> str:
    """Refuse what is no name, and the names that mean something else to Ansible."""
    given = str(_NODE_NAME(name, value))
    if given.lower() in RESERVED_NAMES or given.lower().startswith(RESERVED_BEGINNINGS):
        raise errors.InvalidInput(f"{name}: {value!r} means something else to Ansible: choose another name")
    return given


def largest(name: str, value: Any) -> tuple[int, int, int]:
    """The largest instance: memory and disk (MiB) and vcpus, each at least 1."""
    is_three = isinstance(value, (list, tuple)) and len(value) == len(SPEC)
    if not is_three or any(isinstance(amount, bool) or not isinstance(amount, int) or amount < 1 for amount in value):
        raise errors.InvalidInput(f"{name}: {value!r} is not {','.join(SPEC)}, as in 32768,1048576,8 (MiB, MiB, count)")
    memory, disk, vcpus = value
    return memory, disk, vcpus


def names(name: str, value: Any) -> tuple[str, ...]:
    """Refuse what is no list of names; each is there once."""
    if not isinstance(value, (list, tuple)):
        raise errors.InvalidInput(f"{name}: {value!r} is no list of names")
    return tuple(dict.fromkeys(_NAME(name, entry) for entry in value))


def share(name: str, value: Any) -> float:
    """Refuse what is not more than 0 and at most 1."""
    return instance_policy.ratio(name, value, most=1)


_PROGRAM = re.compile(r"/[^\x00-\x1f\x7f]{1,4000}")
_SIZE, _COUNT = number(0, MOST, whole=True), number(1, MOST, whole=True)
_SECONDS = number(0, 86400 * 366, whole=False)
_NAME = text(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,252}", "a name: use letters, digits and . _ -")
# Ansible splits patterns of hosts at spaces.
_NODE_NAME = text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", "a name: use letters, digits and . _ -")
NDPARAMS: Mapping[str, Rule] = {
    "oob_program": oob_program,
    "exclusive_storage": or_inherited(flag),
    "spindle_count": or_inherited(_SIZE),
    "cpu_speed": or_inherited(instance_policy.ratio),
}
"""Parameters of nodes, inherited node → group → cluster."""
LIMITS: Mapping[str, Rule] = {
    "max_inst_spec": or_inherited(largest),
    "default_template": or_inherited(one_of(*instance_policy.TEMPLATES)),
    "max_cpu_ratio": or_inherited(instance_policy.ratio),
    "max_disk_usage": or_inherited(share),
    "failover_max_loss": or_inherited(number(0, 86400, whole=True)),
}
"""Limits, of capacity and of what a failover may lose, inherited group → cluster."""
CLUSTER: Mapping[str, Rule] = {
    "cluster_name": _NAME,
    "candidate_pool_size": _COUNT,
    "max_running_jobs": number(0, 200, whole=True),
    "vg_name": text(r"(?!\.\.?$)[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}", "the name of a volume group"),
    "file_storage_dir": text(r"/[^\x00-\x1f{]{0,200}", "an absolute path"),
    "shared_file_storage_dir": text(r"/[^\x00-\x1f{]{0,200}", "an absolute path"),
    "default_iallocator": text(r"[A-Za-z0-9_-]{0,128}", "the bare name of an allocator"),
    "ipolicy": instance_policy.given,
    **LIMITS,
    **NDPARAMS,
}
SETTINGS: Mapping[str, Rule] = {
    "diagnose_command": text(r"[A-Za-z0-9_-]{0,128}", "the bare name of a whitelisted command"),
    "diagnose_interval": _SECONDS,
    "agent_port": number(0, 65535, whole=True),
    "round_interval": _SECONDS,
    "storm_fraction": number(0, 1, whole=False),
    "storm_minimum": _COUNT,
    "capacity_reserve": number(0, 10**6, whole=True),
    "moves_per_node": _COUNT,
    "power_off_evacuated": flag,
    "balance": flag,
    "balance_threshold": number(0, MOST, whole=False),
    "balance_disk_moves": flag,
    "balance_dynamic_load": flag,
    "accept_cluster_key": flag,
    "dead_after": number(0, 10**6, whole=True),
    "dead_node_policy": one_of(*dead_nodes.POLICIES),
    "paused": text(r"[^\x00-\x1f]{0,500}", "one line of text"),
    "pause_ends": number(0, MOST, whole=False),
}
GROUP: Mapping[str, Rule] = {
    "name": _NAME,
    "alloc_policy": one_of(*POLICIES),
    "networks": names,
    "ipolicy": instance_policy.given,
    **LIMITS,
    **NDPARAMS,
}
NODE: Mapping[str, Rule] = {
    "name": node_name,
    "group": _NAME,
    "primary_ip": address,
    "secondary_ip": address,
    "mtotal": _SIZE,
    "mnode": _SIZE,
    "dtotal": _SIZE,
    "ctotal": _SIZE,
    "master_capable": flag,
    "vm_capable": flag,
    "hostvars": host_variables.given,
    **NDPARAMS,
}
