from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import accepting, values
from ansible_collections.roundsman.cluster.daemon.jobs.scheduling import Lane

from tests.unit.daemon import twins


@pytest.mark.parametrize(
    ("kind", "params", "lane"),
    [
        ("power", {"node": "n", "command": "status"}, Lane.URGENT),
        ("power", {"node": "n", "command": "fence"}, Lane.URGENT),
        ("power", {"node": "n", "command": "confirm_off"}, Lane.URGENT),
        ("power", {"nodes": ["n", "m"], "command": "on", "delay": 2.0}, Lane.SLOT),
        ("outdate_replica", {"instance": "i", "node": "n"}, Lane.URGENT),
        ("replace_disks", {"instance": "i", "old": "n", "new": "m"}, Lane.SLOT),
        ("failover", {"instance": "i", "source": "n", "target": "m"}, Lane.SLOT),
        ("node_role", {"node": "n", "drained": True}, Lane.DAEMON),
    ],
)
def test_what_is_short_and_urgent_does_not_share_its_slots_with_what_takes_hours(
    kind: str, params: dict[str, Any], lane: Lane
) -> None:
    assert accepting.lane(twins.job(1, values.Opcode(kind, params))) is lane
