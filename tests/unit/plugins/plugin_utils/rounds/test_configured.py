from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocation, allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import limits, oracle, state
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import configured

from tests.unit import small_cluster


def _with(cluster: clusters.Cluster, node: str, **changed: Any) -> clusters.Cluster:
    return clusters.with_node(cluster, dataclasses.replace(cluster.nodes[node], **changed))


def _node(cluster: clusters.Cluster, uuid: str) -> model.Node:
    name = cluster.nodes[uuid].name
    return next(one for one in configured.model_of(cluster).nodes if one.name == name)


def test_what_is_free_is_what_no_instance_on_record_takes() -> None:
    cluster = small_cluster.make()
    (instance,) = cluster.instances.values()
    primary, secondary = instance.nodes
    cluster = _with(cluster, primary, mtotal=4096, mnode=512, dtotal=100000)
    cluster = _with(cluster, secondary, mtotal=4096, mnode=512, dtotal=100000)
    assert _node(cluster, primary).f_mem == 4096 - 512 - instance.memory
    assert _node(cluster, secondary).f_mem == 4096 - 512
    assert _node(cluster, primary).f_disk == _node(cluster, secondary).f_disk == 100000 - instance.disk_size
    down = clusters.with_instance(cluster, dataclasses.replace(instance, admin_state="down"))
    assert _node(down, primary).f_mem == 4096 - 512
    assert configured.model_of(down).instances[0].status == configured.DOWN


@pytest.mark.parametrize(
    ("changed", "offline"),
    [
        ({}, False),
        ({"offline": True}, True),
        ({"drained": True}, True),
        ({"vm_capable": False}, True),
        ({"powered": False}, False),
        ({"powered": False, "ndparams": {"oob_program": "ipmi"}}, True),
    ],
)
def test_a_node_that_takes_nothing_is_offline_to_the_planner(changed: dict[str, Any], *, offline: bool) -> None:
    assert _node(_with(small_cluster.make(), "n2", **changed), "n2").offline is offline


def test_names_stand_for_uuids_and_come_in_natural_order() -> None:
    cluster = small_cluster.make()
    cluster = dataclasses.replace(cluster, nodes=dict(reversed(list(cluster.nodes.items()))))
    found = configured.model_of(cluster)
    assert [one.name for one in found.nodes] == sorted((one.name for one in found.nodes), key=clusters.natural)
    (instance,) = cluster.instances.values()
    primary, secondary = (cluster.nodes[uuid].name for uuid in instance.nodes)
    assert (found.instances[0].primary, found.instances[0].secondary) == (primary, secondary)


def test_a_disk_template_that_nobody_knows_is_named() -> None:
    cluster = small_cluster.make()
    (instance,) = cluster.instances.values()
    cluster = clusters.with_instance(cluster, dataclasses.replace(instance, disk_template="tape"))
    with pytest.raises(errors.InvalidInput, match=r"inst1: the disk template 'tape' is not one of diskless, file"):
        configured.model_of(cluster)


def test_policies_and_networks_are_the_groups_and_else_the_clusters() -> None:
    cluster = small_cluster.make()
    own = dataclasses.replace(cluster.cluster, ipolicy={"vcpu-ratio": 2.0, "disk-templates": ["drbd", "plain"]})
    group = dataclasses.replace(cluster.nodegroups["g1"], ipolicy={"vcpu-ratio": 8.0}, networks=("prod",))
    found = configured.model_of(
        dataclasses.replace(cluster, cluster=own, nodegroups={**cluster.nodegroups, "g1": group})
    )
    templates = (model.Template.DRBD, model.Template.PLAIN)
    assert found.policy == model.Policy(vcpu_ratio=2.0, templates=templates)
    assert [one.policy for one in found.groups] == [model.Policy(vcpu_ratio=8.0, templates=templates), found.policy]
    assert [one.networks for one in found.groups] == [("prod",), ()]


def test_parameters_of_nodes_are_inherited() -> None:
    cluster = _with(small_cluster.make(), "n3", ndparams={"exclusive_storage": True, "spindle_count": 10})
    own = dataclasses.replace(cluster.cluster, ndparams={"spindle_count": 4, "cpu_speed": 1.5})
    cluster = dataclasses.replace(cluster, cluster=own)
    (instance,) = cluster.instances.values()
    disks = (clusters.Disk(10, spindles=2), clusters.Disk(20, spindles=1))
    cluster = clusters.with_instance(cluster, dataclasses.replace(instance, disks=disks))
    assert configured.model_of(cluster).instances[0].spindles == 3
    first, last = _node(cluster, "n2"), _node(cluster, "n3")
    assert (first.exclusive_storage, first.spindles, first.free_spindles, first.cpu_speed) == (False, 4, 0, 1.5)
    assert (last.exclusive_storage, last.spindles, last.free_spindles, last.cpu_speed) == (True, 10, 7, 1.5)


def test_parameters_of_instances_are_theirs() -> None:
    cluster = small_cluster.make()
    (instance,) = cluster.instances.values()
    nics = (clusters.Nic("prod"), clusters.Nic(), clusters.Nic("prod"))
    changed = dataclasses.replace(instance, auto_balance=False, spindle_use=3, nics=nics)
    (found,) = configured.model_of(clusters.with_instance(cluster, changed)).instances
    assert (found.auto_balance, found.spindle_use, found.networks) == (False, 3, ("prod",))
    (found,) = configured.model_of(cluster).instances
    assert (found.auto_balance, found.spindle_use, found.networks) == (True, 1, ())


@pytest.mark.filterwarnings("error")
def test_a_node_of_which_cpus_and_spindles_are_not_told_takes_instances() -> None:
    cluster = small_cluster.make()
    nodes = {
        uuid: dataclasses.replace(one, mtotal=65536, dtotal=10**6, ctotal=0) for uuid, one in cluster.nodes.items()
    }
    found = configured.model_of(dataclasses.replace(cluster, nodes=nodes))
    one = model.Instance("new", 1024, 1024, 8, "running", auto_balance=True, primary="", spindle_use=12)
    wanted = tuple(allocator.Wanted(dataclasses.replace(one, name=f"new{number}")) for number in range(20))
    assert not allocation.multi_allocate(found, allocator.MultiAllocate(wanted)).unplaced
    now = state.build(found)
    assert all(np.isfinite(value) for value in oracle.components(found).values())
    assert all(limits.lacks(now, node).vcpus == 0 for node in range(len(found.nodes)))
