from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, instance_runs

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


@pytest.mark.parametrize("kind", [instance_runs.Startup, instance_runs.Shutdown])
def test_an_instance_is_started_and_stopped_on_its_primary(kind: Any) -> None:
    one = kind("i1")
    assert one.wants(CLUSTER) == {"instance/i1": contract.EXCLUSIVE, "node/n2": contract.SHARED}
    assert one.hosts(CLUSTER) == ["n2"]
    assert one.variables(CLUSTER)["instance_primary"] == {"uuid": "n2", "name": "node2", "address": "node2"}
    assert one.about() == ("i1",)
    assert one.moot(CLUSTER) == ""
    with pytest.raises(errors.NotFound):
        kind("gone").variables(CLUSTER)
