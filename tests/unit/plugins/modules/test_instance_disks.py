from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock
from ansible_collections.roundsman.cluster.plugins.modules import instance_disks

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node

DISKS: list[dict[str, Any]] = [{"size": 5}]
UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"


def test_a_simulated_copy_is_made_and_removed_once(node: Node) -> None:
    for state, copies in (("present", ["a"]), ("absent", [])):
        first, second = (node.call(instance_disks, instance="a", state=state, disks=DISKS) for _ in range(2))
        assert (first["changed"], second["changed"]) == (True, False)
        assert first["present"] is (state == "present")
        assert first["synced"]
        assert node.copies() == copies
    assert [event for _, event, _ in node.events()] == ["copy created", "copy removed"]


@pytest.mark.parametrize("state", ["active", "shared", "standby", "info"])
def test_the_other_states_do_nothing_to_simulated_copies(node: Node, state: str) -> None:
    node.call(instance_disks, instance="a", state="present", disks=DISKS)
    told = node.call(instance_disks, instance="a", state=state, disks=DISKS, wait_synced=5)
    assert (told["changed"], told["present"], node.copies()) == (False, True, ["a"])


def test_a_copy_that_a_running_instance_uses_is_never_removed(node: Node) -> None:
    node.call(instance_disks, instance="a", state="present", disks=DISKS)
    node.start("a")
    told = node.call(instance_disks, instance="a", state="absent", disks=DISKS)
    assert told["failed"]
    assert "in use" in told["msg"]
    assert node.copies() == ["a"]


def test_check_mode_tells_the_steps_and_does_none(node: Node) -> None:
    told = node.call(instance_disks, instance="a", state="present", disks=DISKS, check=True)
    assert (told["changed"], told["steps"]) == (True, ["make a copy of a"])
    assert told["diff"] == {"prepared": "make a copy of a\n"}
    assert not node.call(instance_disks, instance="a", state="absent", disks=DISKS, check=True)["changed"]
    assert node.copies() == []


def test_the_files_of_a_real_instance_are_made_in_their_order_and_used_where_they_are(node: Node) -> None:
    files: dict[str, Any] = {
        "hypervisor": "kvm",
        "disk_template": "file",
        "file_dir": str(node.root / "disks"),
        "uuid": UUID,
    }
    disks = [{"size": 2}, {"size": 2}, {"size": 1, "name": str(node.root / "old.img")}]
    (node.root / "old.img").write_bytes(b"adopted")
    told = node.call(instance_disks, instance="a", state="present", disks=disks, **files)
    paths = [f"{node.root}/disks/{UUID}/disk0", f"{node.root}/disks/{UUID}/disk1", f"{node.root}/old.img"]
    assert (told["failed"], told["changed"], told["present"], told["devices"]) == (False, True, True, paths)
    assert [one["size"] for one in told["disks"]][:2] == [2, 2]
    assert not node.call(instance_disks, instance="a", state="active", disks=disks, **files)["changed"]
    told = node.call(instance_disks, instance="a", state="absent", disks=disks, **files)
    assert (told["changed"], told["present"]) == (True, False)
    assert (node.root / "old.img").exists()
    assert not (node.root / "disks" / UUID).exists()


def test_a_step_waits_for_the_one_that_works_on_the_instance_and_reading_does_not(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_lock.held.__wrapped__, "__kwdefaults__", {"time_limit": 0.01})  # type: ignore[attr-defined]
    with instance_lock.held("a", node.root, opcode="7/0"):
        told = node.call(instance_disks, instance="a", state="present", disks=DISKS)
        assert told["failed"]
        assert "is being worked on by process" in told["msg"]
        assert not node.call(instance_disks, instance="a", state="info", disks=DISKS)["failed"]


def test_what_has_no_driver_is_refused(node: Node) -> None:
    told = node.call(instance_disks, instance="a", state="info", hypervisor="kvm", disk_template="rbd")
    assert told["failed"]
    assert "there is no disk template 'rbd': use one of diskless, drbd, file, plain, sharedfile" in told["msg"]
