from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.planning.models import configured, model

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
    with pytest.raises(errors.InvalidInput, match=r"inst1: the disk template 'tape' is none of diskless, file"):
        configured.model_of(cluster)
