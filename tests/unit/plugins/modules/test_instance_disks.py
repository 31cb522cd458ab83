from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock
from ansible_collections.roundsman.cluster.plugins.modules import instance_disks

if TYPE_CHECKING:
    import pytest

    from tests.unit.plugins.modules.called import Node

UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"


DRBD: dict[str, Any] = {
    "uuid": UUID,
    "disks": [{"size": 8, "minor": 5}],
    "vg": "vg",
    "here": {"name": "node2", "address": "192.0.2.2"},
    "peer": {"name": "node3", "address": "192.0.2.3"},
}
THERE = {**DRBD, "here": DRBD["peer"], "peer": DRBD["here"]}


def make_pair(node: Node, other: Node) -> None:
    for here, options in ((node, DRBD), (other, THERE)):
        assert not here.call(instance_disks, instance="a", state="present", **options)["failed"]
    assert node.call(instance_disks, instance="a", state="active", **DRBD)["changed"]


def test_a_simulated_replica_is_made_and_removed_once(node: Node) -> None:
    for state, replicas in (("present", ["a"]), ("absent", [])):
        first, second = (node.call(instance_disks, instance="a", state=state, opcode="4/0", **DRBD) for _ in range(2))
        assert (first["failed"], first["changed"], second["changed"]) == (False, True, False)
        assert first["present"] is (state == "present")
        assert node.replicas() == replicas
    assert [event for _, event, _ in node.events()] == ["replica created", "replica removed"]
    assert {opcode for *_, opcode in node.events()} == {"4/0"}


def test_a_new_simulated_pair_comes_in_sync_and_moves_its_primary(node: Node, other: Node) -> None:
    make_pair(node, other)
    told = node.call(instance_disks, instance="a", state="info", wait_synced=60, **DRBD)
    assert (told["synced"], told["disks"][0]["text"]) == (True, "Primary, Connected, UpToDate/UpToDate")
    assert other.call(instance_disks, instance="a", state="active", **THERE)["failed"]
    assert node.call(instance_disks, instance="a", state="standby", **DRBD)["changed"]
    assert other.call(instance_disks, instance="a", state="active", **THERE)["changed"]


def test_a_replica_that_a_running_instance_uses_is_never_removed(node: Node, other: Node) -> None:
    make_pair(node, other)
    node.start("a", devices=["/dev/drbd5"])
    told = node.call(instance_disks, instance="a", state="absent", **DRBD)
    assert told["failed"]
    assert node.replicas() == ["a"]
    assert node.call(instance_disks, instance="a", state="standby", **DRBD)["failed"]


def test_check_mode_tells_the_steps_and_does_none(node: Node) -> None:
    told = node.call(instance_disks, instance="a", state="present", check=True, **DRBD)
    assert told["changed"]
    assert told["steps"][0] == f"make the volume vg/{UUID}.disk0 of 8 MiB"
    assert told["diff"] == {"prepared": "".join(f"{step}\n" for step in told["steps"])}
    assert not node.call(instance_disks, instance="a", state="absent", check=True, **DRBD)["changed"]
    assert node.replicas() == []


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
    monkeypatch.setattr(instance_lock.held.__wrapped__, "__kwdefaults__", {"time_limit": 0.01, "only_stops": False})  # type: ignore[attr-defined]
    with instance_lock.held("a", node.root, opcode="7/0"):
        told = node.call(instance_disks, instance="a", state="present", **DRBD)
        assert told["failed"]
        assert "is being worked on by process" in told["msg"]
        assert not node.call(instance_disks, instance="a", state="info", **DRBD)["failed"]


def test_what_has_no_driver_is_refused(node: Node) -> None:
    told = node.call(instance_disks, instance="a", state="info", hypervisor="kvm", disk_template="rbd")
    assert told["failed"]
    assert "there is no disk template 'rbd': use one of diskless, drbd, file, plain, sharedfile" in told["msg"]


def test_a_node_without_the_address_on_record_is_not_prepared_for_a_migration(node: Node, other: Node) -> None:
    make_pair(node, other)
    options = {**THERE, "own_address": True, "here": {"name": "node3", "address": "203.0.113.254"}}
    before = other.events()
    told = other.call(instance_disks, instance="a", state="shared", **options)
    assert told["failed"]
    assert told["msg"].startswith("node3 does not have the address 203.0.113.254, ")
    assert other.events() == before
    there = {**options, "here": {**options["here"], "address": "127.0.0.1"}}
    assert not other.call(instance_disks, instance="a", state="info", **there)["failed"]
