"""The limit of each opcode's run is more than the sum of what the tasks of its play may take, whatever users set."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.roundsman.cluster.daemon.jobs import settling
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import hvparams
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import kvm_migration, virsh
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import program
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_roles, programs
from ansible_collections.roundsman.cluster.plugins.modules import repair_command
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs, reaching
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import (
    cluster_verify,
    contract,
    disk_repair,
    instance_disks,
    instance_facts,
    instance_looks,
    instance_making,
    instance_moves,
    instance_runs,
    left_replica,
    node_power,
    node_work,
    registry,
    time_limits,
)

from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path

ROLES = ansible_runs.PLAYBOOKS.parent / "roles"
OS_PLAYBOOK = 86400.0
LARGEST = {"shutdown_timeout": "86400", "migration_limit": "604800"}
SETTINGS: list[tuple[dict[str, str], int, int]] = [
    ({}, 1, 10),
    ({"shutdown_timeout": "0", "migration_limit": "1"}, 1, 10),
    (LARGEST, 1, 10),
    ({}, 16, 1024),
    (LARGEST, 16, 64 * 2**20),
]
"""Hypervisor parameters, and the number and size (MiB) of disks."""
OPCODES: list[Any] = [
    instance_moves.Migrate("i1", "n2", "n3"),
    instance_moves.Failover("i1", "n2", "n3"),
    instance_moves.ReplaceDisks("i1", "n3", "n10"),
    instance_runs.Startup("i1"),
    instance_runs.Shutdown("i1"),
    instance_disks.ActivateDisks("i1"),
    instance_disks.DeactivateDisks("i1"),
    instance_disks.VerifyDisks("i1"),
    instance_disks.RecreateDisks("i1"),
    instance_disks.Reinstall("i1", os_playbook="/os.yml"),
    instance_making.InstanceCreate("i1", os_playbook="/os.yml"),
    instance_making.InstanceRemove("i1"),
    disk_repair.RepairDisks("i1"),
    disk_repair.OutdateReplica("i1", "n3"),
    left_replica.RemoveReplica("i1", "n10"),
    node_work.RepairCommand("n2", "c", "{}"),
    node_work.Diagnose("n2"),
    node_work.SecondCopies("n2"),
    node_power.Power("n3", command="cycle"),
    node_power.Power("n3", command="fence"),
    node_power.Power(nodes=("n1", "n2", "n3", "n10"), command="on", delay=100),
    node_power.Health("n3"),
    cluster_verify.ClusterVerify(),
    instance_looks.FindInstance("i1", ("n1", "n2", "n3", "n10")),
    settling.FindPower(("n3",)),
]
FREE = {
    *("hold", "record", "failover_check", "replica_check", "unfinished_check", "drbd_verdicts", "second_copies"),
    *("fail", "debug", "set_fact", "set_stats", "add_host", "assert", "meta"),
}
"""What is done on the controller and waits for nothing."""


REPAIR_SECONDS = float(yaml.safe_load(repair_command.DOCUMENTATION)["options"]["time_limit"]["default"])


@functools.cache
def content(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@dataclasses.dataclass(frozen=True)
class Costs:
    """What the tasks of a play may take for an instance; nodes are looked at one after the other."""

    instance: clusters.Instance
    nodes: int

    def tasks(self, path: Path, depth: int = 0) -> float:
        return sum(self.task(task, path, depth) for task in content(path))

    def task(self, task: dict[str, Any], path: Path, depth: int = 0) -> float:
        if "block" in task:
            parts = [*task["block"], *task.get("rescue", []), *task.get("always", [])]
            return sum(self.task(one, path, depth) for one in parts)
        action = next(key for key in task if "." in key)
        times = self._times(task.get("loop"))
        if action in {"ansible.builtin.import_tasks", "ansible.builtin.include_tasks"}:
            file = task[action]["file"] if isinstance(task[action], dict) else task[action]
            # A file that includes itself does so five times (`repair_looks_most`).
            return 0.0 if depth > 5 else times * self.tasks(path.with_name(file), depth + 1)
        if action in {"ansible.builtin.import_role", "ansible.builtin.include_role"}:
            return times * self.tasks(role_file(task[action]), depth)
        cost = self._module(action.rpartition(".")[2], task[action] or {})
        if "retries" in task:
            assert task["retries"] == "{{ instance.sync_looks }}"
            looks = instance_facts.instance_variables(small_cluster.make(), self.instance)["sync_looks"]
            assert looks * 60 >= 86400 + self.instance.disk_size / 100, "ten times the time at 1 Gbit/s, and a day"
            times = looks
        return times * cost

    def _times(self, loop: Any) -> int:
        if loop is None:
            return 1
        if isinstance(loop, list):
            return len(loop)
        if "hypervisors" in loop or "step.let_go" in loop or "step.source" in loop:
            return 2 if "step.source" in loop else 1
        if "repair_verdicts" in loop:
            return 2 * len(self.instance.disks)
        if "step.resources" in loop:
            return len(self.instance.disks)
        assert any(name in loop for name in ("instance_members", "step.nodes", "step.left_behind")), (
            f"how often is {loop} done?"
        )
        return self.nodes

    def _module(self, name: str, given: dict[str, Any]) -> float:
        if name in FREE:
            return 0.0
        own = hvparams.kvm(self.instance.hvparams)
        recovery = own.migration_limit + kvm_migration.END_LIMIT
        lock, hypervisor = instance_lock.TIME_LIMIT, virsh.TIME_LIMIT
        disk = programs.TIME_LIMIT + drbd_roles.PATIENCE + drbd_roles.IN_USE
        of_modules: dict[str, float] = {
            "instance_disks": given["wait_synced"] + programs.TIME_LIMIT
            if isinstance(given.get("wait_synced"), int)
            else lock + len(self.instance.disks) * disk + longest_of(str(given.get("wait_synced", ""))),
            "instance_state": lock
            + hypervisor
            + (2 * own.shutdown_timeout + kvm_migration.END_LIMIT if given.get("state") == "stopped" else recovery),
            "instance_migrate": lock + hypervisor + 2 * recovery,
            "instance_info": hypervisor + (lock + recovery if "interrupted" in given else 0.0),
            "drbd_info": 15 + programs.TIME_LIMIT,
            "drbd_repair": lock + programs.TIME_LIMIT,
            "repair_command": REPAIR_SECONDS,
            "diagnose": 60.0,
            "helper_program_info": 0.0,
            "node_answers": reaching.PORT_SECONDS,
            **dict.fromkeys(("oob_power", "oob_health", "power_command", "cluster_verify"), program.deadline(5)),
        }
        assert name in of_modules, f"what may {name} take? Say it here, and in time_limits.py"
        return reaching.MOST + of_modules[name]


def longest_of(template: str) -> float:
    """The largest number that a template of the role `instance` may be, by the variables that it names."""
    variables = content(ROLES / "instance/vars/main.yml")
    return max((value for name, value in variables.items() if name in template and isinstance(value, int)), default=0)


def role_file(given: dict[str, str]) -> Path:
    return ROLES / given["name"].rpartition(".")[2] / "tasks" / f"{given.get('tasks_from', 'main')}.yml"


def play_seconds(kind: str, costs: Costs) -> float:
    seconds = 0.0
    own = ansible_runs.PLAYBOOKS / "opcodes" / f"{kind}.yml"
    if not own.exists():
        roles = [role for role in ("instance", "node", "repair") if (ROLES / role / "tasks" / f"{kind}.yml").exists()]
        (role,) = roles
        return costs.tasks(ROLES / role / "tasks" / f"{kind}.yml")
    for play in content(own):
        if "ansible.builtin.import_playbook" in play:
            seconds += OS_PLAYBOOK
        for task in play.get("tasks", []):
            seconds += costs.tasks(role_file(task["ansible.builtin.import_role"]))
    return seconds


def cluster(given: dict[str, str], disks: int, size: int) -> clusters.Cluster:
    known = small_cluster.make()
    found = tuple(clusters.Disk(size) for _ in range(disks))
    made = clusters.with_instance(
        known, dataclasses.replace(known.instance("i1"), hvparams=given, disks=found, moving="n3")
    )
    return changes.apply(made, left_replicas.ReplicaLeft("i1", "n10", present=True), now=1.0)


@pytest.mark.parametrize("made", OPCODES, ids=lambda made: made.kind)
@pytest.mark.parametrize(("given", "disks", "size"), SETTINGS)
def test_the_limit_of_a_run_is_more_than_its_tasks_may_take(
    made: Any, given: dict[str, str], disks: int, size: int
) -> None:
    known = cluster(given, disks, size)
    nodes = 4 if made.kind == "find_instance" else 2
    assert made.time_limit(known) > play_seconds(made.kind, Costs(known.instance("i1"), nodes))


@pytest.mark.parametrize(("given", "disks", "size"), SETTINGS)
def test_a_node_that_hangs_ends_the_removal_of_a_replica_at_a_step_that_could_not_take_longer(
    given: dict[str, str], disks: int, size: int
) -> None:
    known = cluster(given, disks, size)
    made, costs = left_replica.RemoveReplica("i1", "n10"), Costs(known.instance("i1"), 1)
    variables, timeouts = made.variables(known), []
    path = ROLES / "instance/tasks/remove_replica.yml"
    for task in content(path):
        if cost := costs.task(task, path):
            timeout = str(task.get("timeout") or task["vars"]["instance_disks_timeout"])
            (name,) = re.findall(r"step\.(\w+_seconds)", timeout)
            timeouts.append(variables[name])
            assert timeouts[-1] > cost
    assert len(timeouts) == 4
    assert "instance_disks_timeout" in path.with_name("disks_of_member.yml").read_text()
    assert sum(timeouts) < made.time_limit(known)


def test_every_opcode_with_a_play_is_among_them() -> None:
    with_a_play = {kind for kind, made in registry._KINDS.items() if made.execution is contract.Execution.PLAY}
    assert {made.kind for made in OPCODES} == with_a_play | {"find_power"}


def test_a_power_command_with_pauses_has_time_for_all_of_them() -> None:
    nodes = tuple(f"n{number}" for number in range(181))
    made = node_power.Power(nodes=nodes, command="on", delay=100)
    assert made.time_limit(small_cluster.make()) > 19 * program.deadline(5) + 18 * 100


def guest(**given: str) -> clusters.Instance:
    return dataclasses.replace(small_cluster.make().instance("i1"), hvparams=given)


@pytest.mark.parametrize("count", [1, 8, 9, 100])
def test_the_timeout_of_stopping_all_has_room_for_each_hard_stop(count: int) -> None:
    many = [guest(shutdown_timeout="86400")] * count
    rounds = math.ceil(count / 8)
    assert time_limits.stopping_all(many, most=120) > rounds * (120 + virsh.TIME_LIMIT)
    assert time_limits.stopping_all(many, most=120) < time_limits.stopping_all(many, most=10**6)
    assert time_limits.stopping_all(many, most=10**6) > rounds * 86400


def test_a_soft_stop_is_the_shorter_of_the_guests_own_and_the_most() -> None:
    assert time_limits.soft_stop(guest(shutdown_timeout="7")) == 7
    assert time_limits.soft_stop(guest(shutdown_timeout="7"), most=120) == 7
    assert time_limits.soft_stop(guest(shutdown_timeout="600"), most=120) == 120


def test_side_by_side_one_slow_guest_does_not_count_for_each_turn() -> None:
    assert time_limits.many_at_once([]) == 0
    assert time_limits.many_at_once([10.0] * 8) == 10
    assert time_limits.many_at_once([10.0] * 9) == 20
    assert time_limits.many_at_once([1.0] * 79 + [1000.0]) < 2 * 1000 + 1
