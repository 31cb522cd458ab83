from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import planned, rules, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes

from tests.unit.daemon import twins
from tests.unit.plugins.plugin_utils.rounds import tables

if TYPE_CHECKING:
    from typing import Any


@pytest.mark.parametrize(
    ("kind", "params", "is_held"),
    [
        ("power", {"node": "node2", "command": "fence"}, True),
        ("power", {"node": "node2", "command": "confirm_off"}, True),
        ("remove_replica", {"instance": "i1", "node": "node2"}, True),
        ("failover", {"instance": "i1", "source": "node1", "target": "node2"}, True),
        ("outdate_replica", {"instance": "i1", "node": "node2"}, False),
    ],
)
def test_an_emergency_power_off_holds_what_maintenance_submits_but_for_outdating(
    kind: str, params: dict[str, Any], is_held: bool
) -> None:
    cluster = tables.read("node1 8 8")
    cluster = changes.apply_all(cluster, [changes.EpoStands((), (), by="me", returning=False)], now=0.0)
    reason = (values.Reason(planned.ROUNDS, "why", 1),)
    job = dataclasses.replace(twins.job(1, values.Opcode(kind, params)), reason=reason)
    assert (rules.Rules(cluster).judge(job).decided is rules.EMERGENCY) == is_held
