"""Which requester may set which field: the table behind "Who may set what" in docs/decisions/privileges.md.

A field that runs code on the controller or opens a file there or on a node is root's. A test walks through every field
of every resource that changes something and fails for one that has no line here.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Callable, Iterator, Mapping, Tuple

from ...module_utils.domain.values import errors
from . import parameter_rules


class Requester(IntEnum):
    """What a requester is to the controller; each may set what those before it may."""

    REMOTE = 0
    ADMINISTRATOR = 1
    ROOT = 2


WORDS: Mapping[Requester, str] = {
    Requester.REMOTE: "users of the remote API",
    Requester.ADMINISTRATOR: "administrators on the controller",
    Requester.ROOT: "root on the controller",
}
_R, _A, _ROOT = Requester.REMOTE, Requester.ADMINISTRATOR, Requester.ROOT
FIELDS: Mapping[str, Requester] = {
    # Run code, or open a file.
    "oob_program": _ROOT,  # a path outside of the folder of helper programs; else see `needed`
    "os_playbook": _ROOT,
    "domain_xml": _ROOT,
    "serial_log": _ROOT,
    "file_storage_dir": _ROOT,
    "shared_file_storage_dir": _ROOT,
    # Show the screen of a guest to a network, without a password.
    "vnc": _A,
    # Send memory and disks of guests to another machine, or in clear.
    "primary_ip": _A,
    "secondary_ip": _A,
    "migration_transport": _A,  # without encryption; else see `needed`
    # Accept reports that were signed with the cluster's key by any node.
    "accept_cluster_key": _A,
    # Plain host variables of a node; each name and value has a rule of its own in host_variables.py.
    "hostvars": _R,
    "ansible_host": _R,
    "ansible_port": _R,
    "ansible_user": _R,
    "ansible_become": _R,
    "ansible_become_user": _R,
    "ansible_become_method": _R,
    # Names of files in folders of root's: allocators, playbooks of systems, diagnose commands.
    "iallocator": _R,
    "default_iallocator": _R,
    "os": _R,
    "os_type": _R,
    "diagnose_command": _R,
    # The cluster, its groups and its nodes.
    "agent_port": _R,
    "alloc_policy": _R,
    "auto_promote": _R,
    "balance": _R,
    "balance_disk_moves": _R,
    "balance_dynamic_load": _R,
    "balance_threshold": _R,
    "candidate_pool_size": _R,
    "capacity_reserve": _R,
    "cluster_name": _R,
    "cpu_speed": _R,
    "ctotal": _R,
    "dead_after": _R,
    "dead_node_policy": _R,
    "default_template": _R,
    "diagnose_interval": _R,
    "drained": _R,
    "dtotal": _R,
    "exclusive_storage": _R,
    "failover_max_loss": _R,
    "group": _R,
    "group_name": _R,
    "ipolicy": _R,
    "master_capable": _R,
    "max_cpu_ratio": _R,
    "max_disk_usage": _R,
    "max_inst_spec": _R,
    "max_running_jobs": _R,
    "mnode": _R,
    "moves_per_node": _R,
    "mtotal": _R,
    "name": _R,
    "ndparams": _R,
    "networks": _R,
    "new_name": _R,
    "offline": _R,
    "pause_ends": _R,
    "paused": _R,
    "power_off_evacuated": _R,
    "powered": _R,
    "readd": _R,
    "round_interval": _R,
    "spindle_count": _R,
    "storm_fraction": _R,
    "storm_minimum": _R,
    "vg_name": _R,
    "vm_capable": _R,
    # Instances.
    "__version__": _R,
    "accel": _R,
    "allow_failover": _R,
    "auto_balance": _R,
    "beparams": _R,
    "boot": _R,
    "cpu": _R,
    "discard": _R,
    "disk_template": _R,
    "disks": _R,
    "early_release": _R,
    "hvparams": _R,
    "hypervisor": _R,
    "ignore_consistency": _R,
    "ignore_failures": _R,
    "instance_name": _R,
    "ip_check": _R,
    "link": _R,
    "mac": _R,
    "machine": _R,
    "max_loss": _R,
    "maxmem": _R,
    "memory": _R,
    "migratable": _R,
    "migration_bandwidth": _R,
    "migration_downtime": _R,
    "migration_limit": _R,
    "migration_port": _R,
    "migration_seconds": _R,
    "migration_unsafe": _R,
    "minmem": _R,
    "mode": _R,
    "name_check": _R,
    "network": _R,
    "nics": _R,
    "no_install": _R,
    "no_remember": _R,
    "pnode": _R,
    "remote_node": _R,
    "shutdown_seconds": _R,
    "shutdown_timeout": _R,
    "size": _R,
    "snode": _R,
    "spindle_use": _R,
    "start": _R,
    "tags": _R,
    "target_node": _R,
    "vcpus": _R,
    "wait_for_sync": _R,
    # Jobs, the queue, its filters, power, plans, queries.
    "action": _R,
    "command": _R,
    "document": _R,
    "dry-run": _R,
    "fields": _R,
    "filter": _R,
    "force": _R,
    "nodes": _R,
    "older_than": _R,
    "power_delay": _R,
    "predicates": _R,
    "priority": _R,
    "qfilter": _R,
    "reason": _R,
    "seconds": _R,
    "tag": _R,
    "undo": _R,
    "since": _R,
}
"""Who may set a field, in the body or the query of any resource."""
LOCAL_ONLY = frozenset({"config", "adopt", "hold", "confirm-boots", "record"})
"""Resources below `/2` that the remote API does not have, and whose bodies are whole objects of the configuration.

Their fields are not looked at one by one: that is why the administrators' group is equivalent to the daemon's user.
"""
NOTHING = (None, "", "default", "!")
"""Values that set nothing."""
ENCRYPTED = ("ssh", "tls")
"""Transports of a migration that nobody on the network can read along."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
_QUERY = re.compile("/2/query/[^/]+")
_QUESTION = re.compile("/2/instances/[^/]+/info")
IsTrusted = Callable[[str], bool]


def is_reading(method: str, path: str) -> bool:
    """Whether users who only read may send a request: Ganeti's queries are sent by PUT, too."""
    return method in READING or (method == "PUT" and _QUERY.fullmatch(path) is not None)


def is_write(method: str, path: str) -> bool:
    """Whether a request leaves something behind: Ganeti's client makes a job by GET, too, as a user who only reads."""
    return not is_reading(method, path) or _QUESTION.fullmatch(path) is not None


def needed(name: str, value: Any, *, is_helper: IsTrusted) -> Requester:
    """Who may set this field to this value; `is_helper` says whether a path is in root's folder of helper programs."""
    if value is None or (isinstance(value, str) and value in NOTHING):
        return _R
    if name == "oob_program" and isinstance(value, str) and (value in parameter_rules.DRIVERS or is_helper(value)):
        return _R
    if name == "migration_transport" and value in ENCRYPTED:
        return _R
    return FIELDS.get(name, _R)


def refuse(body: Any, requester: Requester, *, is_helper: IsTrusted, folder: str) -> None:
    """Go on only if the requester may set every field of a body, at any depth; `folder` has the helper programs.

    Raises:
        Forbidden: the text names the field, who may set it, and what to do.
    """
    for name, value in _fields(body):
        least = needed(name, value, is_helper=is_helper)
        if requester < least:
            also = f", or name a helper program that root put into {folder}" if name == "oob_program" else ""
            raise errors.Forbidden(f"{name}: only {WORDS[least]} may set this: run `roundsman` there{also}")


def _fields(body: Any) -> Iterator[Tuple[str, Any]]:
    waiting = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from ((name, item) for name, item in value.items() if isinstance(name, str))
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
