"""The whole walk: from a node's signed diagnosis to an empty, powered-off, tagged node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import labs

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_broken_node_ends_empty_offline_powered_off_and_tagged(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, instances=6)
    labs.drop(one, "r.json", labs.report(one, "node2", '{"status": "evacuate", "details": {"disk": "sdb"}}'))

    incident = one.until(one.ended("node2"), "node2 is evacuated")

    node = one.cluster().node("node2")
    assert incident["repair-status"] == "completed"
    assert incident["original"] == {"status": "evacuate", "details": {"disk": "sdb"}}
    assert (node.offline, node.drained, node.powered) == (True, False, False)
    assert node.tags == (f"maintd:repairready:{incident['id']}",)
    assert one.cluster().primaries(node.uuid) == one.cluster().secondaries(node.uuid) == []
    assert not one.lab.node("node2").is_powered()
    assert one.wrong() == []
