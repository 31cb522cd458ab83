from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.modules import disk_replica

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node


def test_a_copy_is_made_and_removed_once(node: Node) -> None:
    for state, copies in (("present", ["a"]), ("absent", [])):
        first, second = (node.call(disk_replica, instance="a", state=state, sizes=[5]) for _ in range(2))
        assert (first["changed"], second["changed"]) == (True, False)
        assert first["present"] is (state == "present")
        assert node.copies() == copies
    assert [event for _, event, _ in node.events()] == ["copy created", "copy removed"]


def test_a_copy_that_a_running_instance_uses_is_never_removed(node: Node) -> None:
    node.call(disk_replica, instance="a", state="present")
    node.start("a")
    told = node.call(disk_replica, instance="a", state="absent")
    assert told["failed"]
    assert "in use" in told["msg"]
    assert node.copies() == ["a"]


def test_check_mode_tells_and_changes_nothing(node: Node) -> None:
    assert node.call(disk_replica, instance="a", state="present", check=True)["changed"]
    assert not node.call(disk_replica, instance="a", state="absent", check=True)["changed"]
    assert node.copies() == []
