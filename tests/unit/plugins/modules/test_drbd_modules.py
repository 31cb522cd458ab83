from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_sides, programs
from ansible_collections.roundsman.cluster.plugins.modules import drbd_info, drbd_repair, instance_disks

from tests.unit.plugins.module_utils.storage.machine import Machine

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable
    from types import ModuleType

    from tests.unit.plugins.modules.called import Node


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, node: Node) -> Machine:
    made = Machine(node.root)
    made.place()
    monkeypatch.setattr(programs, "Programs", lambda: made)
    return made


@pytest.fixture
def call(machine: Machine, node: Node) -> Callable[..., dict[str, Any]]:
    def calling(module: ModuleType, **options: Any) -> dict[str, Any]:
        return node.call(module, hypervisor=None, **options)

    return calling


@pytest.mark.parametrize("check", [False, True])
def test_the_sides_of_a_node_are_told_with_the_identifiers_of_those_that_parted(
    machine: Machine, call: Callable[..., dict[str, Any]], check: bool
) -> None:
    machine.place("web2", "u-2", minors=(1,))
    for verb in ("primary", "disconnect"):
        machine.drbdadm(verb, "web2-disk0")
    told = call(drbd_info, check=check)
    assert (told["failed"], told["changed"], told["version"]) == (False, False, 8)
    first, second = (drbd_sides.decode(one) for one in told["sides"])
    assert (first.connection, first.volumes[0].generation) == (Connection.CONNECTED, None)
    assert (second.role, second.connection) == (Role.PRIMARY, Connection.STANDALONE)
    assert second.volumes[0].generation is not None
    told = call(drbd_info, resources=["web2-disk0"])
    assert [one["resource"] for one in told["sides"]] == ["web2-disk0"]


def test_a_resource_that_nobody_understands_is_unknown_with_its_reason(
    machine: Machine, call: Callable[..., dict[str, Any]]
) -> None:
    machine.garbled["ds:UpToDate/"] = "ds:Fine/"
    told = call(drbd_info)
    ((name, reason),) = told["unread"].items()
    assert (told["failed"], told["sides"], call(drbd_info, resources=["other"])["unread"]) == (False, [], {})
    assert name == "web1-disk0"
    assert reason.startswith("DRBD says 'Fine', which is not one of")


def test_a_step_is_done_once_and_check_mode_only_tells_it(
    machine: Machine, call: Callable[..., dict[str, Any]]
) -> None:
    machine.drbdadm("detach", "web1-disk0")
    step = {"instance": "web1", "resource": "web1-disk0", "action": "attach"}
    told = call(drbd_repair, check=True, **step)
    assert (told["changed"], told["steps"], machine.ran) == (True, ["drbdadm attach web1-disk0/0"], [])
    assert call(drbd_repair, **step)["diff"] == {"prepared": "drbdadm attach web1-disk0/0\n"}
    assert machine.resources["web1-disk0"].disk == "UpToDate"
    assert not call(drbd_repair, **step)["changed"]


def test_the_documentation_says_of_each_step_what_it_does() -> None:
    action = yaml.safe_load(drbd_repair.DOCUMENTATION)["options"]["action"]
    described = set(re.findall(r"C\((\w+)\)", " ".join(action["description"])))
    assert described == drbd_repair.ACTIONS.keys()


def test_a_discard_names_its_snapshots(machine: Machine, call: Callable[..., dict[str, Any]]) -> None:
    machine.answers["drbdadm sh-ll-dev"] = "/dev/vda3\n"
    machine.drbdadm("disconnect", "web1-disk0")
    told = call(drbd_repair, instance="web1", resource="web1-disk0", action="discard")
    assert told["snapshots"] == ["no snapshot of /dev/vda3: it is no logical volume"]
    assert told["steps"][-1] == "drbdadm connect --discard-my-data web1-disk0"


def test_a_step_that_is_refused_fails_with_its_reason(machine: Machine, call: Callable[..., dict[str, Any]]) -> None:
    told = call(drbd_repair, instance="web1", resource="web1-disk0", action="discard")
    assert told["failed"]
    assert told["msg"] == "web1-disk0 has its peer: there is no split brain"


def test_a_replicated_disk_is_made_by_the_module_and_its_secret_told_to_nobody(machine: Machine, node: Node) -> None:
    told = node.call(
        instance_disks,
        instance="db",
        uuid="u-1",
        hypervisor="kvm",
        disks=[{"size": 8, "minor": 5}],
        vg="vg",
        here={"name": "n1", "address": "192.0.2.1", "uuid": "x"},
        peer={"name": "n2", "address": "192.0.2.2"},
        secret="tellnobody",
        state="present",
    )
    assert (told["failed"], told["devices"], told["synced"]) == (False, ["/dev/drbd5"], False)
    assert "tellnobody" not in str(told)
    assert "tellnobody" in machine.configured("db-disk0")
