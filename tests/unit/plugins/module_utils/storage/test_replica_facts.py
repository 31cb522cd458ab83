from __future__ import annotations

import types
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    node_boot,
    programs,
    replica_facts,
    sights,
)

from tests.unit.plugins.module_utils.storage.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

RESOURCE = "web1-disk0"
BOOT = "0f2a4b6c-1111-2222-3333-444455556666"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A node with one resource that has its peer."""
    found = Machine(tmp_path / "n1")
    (found.root / node_boot.BOOT_ID).parent.mkdir(parents=True)
    (found.root / node_boot.BOOT_ID).write_text(BOOT + "\n")
    found.place()
    found.drbdadm("primary", RESOURCE)
    monkeypatch.setattr(programs, "runner_for", lambda _root, **_: found)
    return found


def read(machine: Machine, *, seconds: float = 10.0) -> replicas.NodeFacts:
    return replica_facts.read(machine.root, hypervisor="kvm", seconds=seconds)


def test_a_replica_is_read_with_its_generation_without_the_bit_of_the_role(machine: Machine) -> None:
    machine.peer().drbdadm("detach", RESOURCE)
    stored = machine.metadata(RESOURCE)
    assert stored.current & 1, "the bit of the role is set"
    assert stored.bitmap, "the peer lacks what is written from here on"
    fact = replicas.ReplicaFact(
        RESOURCE,
        0,
        Role.PRIMARY,
        Connection.CONNECTED,
        Disk.UP_TO_DATE,
        Disk.DISKLESS,
        stored.current - 1,
        stored.bitmap & ~1,
    )
    assert read(machine) == replicas.NodeFacts(BOOT, (fact,))


def test_a_fact_says_how_long_ago_the_replica_was_in_sync(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    sights.look(machine.root, hypervisor="kvm", now=100.0)
    machine.set_link(is_cut=True)
    monkeypatch.setattr(sights, "uptime", lambda: 130.0)
    (fact,) = read(machine).replicas or ()
    assert (fact.is_connected, fact.seen) == (False, (("192.0.2.2", 30.0),))


def test_a_node_without_drbd_has_no_replicas_which_is_known(machine: Machine) -> None:
    (machine.root / "proc/drbd").unlink()
    assert read(machine) == replicas.NodeFacts(BOOT, ())


@pytest.mark.parametrize("command", ["drbdsetup status", "drbdsetup"])
def test_a_drbd_that_does_not_answer_is_unknown_and_not_empty(machine: Machine, command: str) -> None:
    machine.broken[command] = "is not done after 10 s"
    assert read(machine) == replicas.NodeFacts(BOOT, None)


def test_a_resource_whose_text_is_none_of_drbds_is_unknown(machine: Machine) -> None:
    machine.garbled["ds:UpToDate/"] = "ds:Splendid/"
    found = read(machine)
    assert (found.replicas, list(found.unread)) == ((), [RESOURCE])
    assert found.unread[RESOURCE].startswith("DRBD says 'Splendid', which is not one of Diskless, ")


def test_a_generation_that_cannot_be_read_leaves_the_rest_known(machine: Machine) -> None:
    machine.broken["drbdadm get-gi"] = "no metadata"
    (fact,) = read(machine).replicas or ()
    assert (fact.disk, fact.current, fact.bitmap) == (Disk.UP_TO_DATE, None, None)


def test_all_programs_share_one_deadline(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.place("many", "u-2", minors=tuple(range(1, 50)))
    limits: list[float] = []
    moments = iter(range(1000))
    monkeypatch.setattr(programs, "time", types.SimpleNamespace(monotonic=lambda: float(next(moments))))
    run = machine.run

    def noted(*command: str, time_limit: float = 120, accepted: tuple[int, ...] = (0,)) -> str:
        limits.append(time_limit)
        return run(*command, time_limit=time_limit, accepted=accepted)

    monkeypatch.setattr(machine, "run", noted)
    facts = read(machine, seconds=10.0).replicas or ()
    assert limits == [float(left) for left in range(9, 0, -1)]
    assert len(facts) == 50
    assert sum(one.current is not None for one in facts) == len(limits) - 1


def test_more_replicas_than_a_report_may_hold_are_unknown(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "MOST", 0)
    assert read(machine).replicas is None


@pytest.mark.parametrize("text", [b"../../x", b"\xff\xfe", b""])
def test_a_boot_id_that_is_none_is_unknown(machine: Machine, text: bytes) -> None:
    (machine.root / "proc/drbd").unlink()
    (machine.root / node_boot.BOOT_ID).write_bytes(text)
    assert read(machine).boot_id == ""
