from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    disks,
    drbd_node,
    node_boot,
    programs,
    sights,
    templates,
)

from tests.unit.plugins.module_utils.storage.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

RESOURCE, PEER = "web1-disk0", "192.0.2.2"
BOOT, OTHER = "0f2a4b6c-1111-2222-3333-444455556666", "0f2a4b6c-1111-2222-3333-444455557777"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A node with one resource that has its peer, n2."""
    found = Machine(tmp_path / "n1")
    boot(found, BOOT)
    found.place()
    monkeypatch.setattr(programs, "runner_for", lambda _root, **_: found)
    return found


def boot(machine: Machine, text: str) -> None:
    path = machine.root / node_boot.BOOT_ID
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def look(machine: Machine, now: float) -> None:
    sights.look(machine.root, hypervisor="kvm", now=now)


def ages(machine: Machine, now: float) -> dict[str, dict[int, dict[str, float]]]:
    return sights.ages(machine.root, now=now)


def file(machine: Machine) -> Path:
    return machine.root / sights.FOLDER / sights.FILE


def storage(machine: Machine) -> disks.Storage:
    asked = disks.Disks("web1", "u-1", (disks.Disk(64, minor=0),), vg="roundsman", here=machine.end, peer=PEER_END)
    return templates.get("drbd", asked, root=machine.root, hypervisor="kvm", runner=machine)


PEER_END = disks.End("n2", PEER)


def test_a_replica_that_is_in_sync_is_seen_with_the_address_of_its_peer(machine: Machine) -> None:
    look(machine, 100.0)
    assert ages(machine, 107.5) == {RESOURCE: {0: {PEER: 7.5}}}
    look(machine, 110.0)
    assert ages(machine, 111.0) == {RESOURCE: {0: {PEER: 1.0}}}
    assert file(machine).stat().st_mode & 0o777 == 0o600


def test_what_was_seen_ages_while_the_peer_is_away_and_while_the_resource_is_down(machine: Machine) -> None:
    look(machine, 100.0)
    machine.set_link(is_cut=True)
    look(machine, 160.0)
    assert ages(machine, 170.0) == {RESOURCE: {0: {PEER: 70.0}}}
    machine.drbdadm("down", RESOURCE)
    look(machine, 180.0)
    assert ages(machine, 190.0) == {RESOURCE: {0: {PEER: 90.0}}}


def test_a_look_keeps_what_was_seen_of_replicas_that_are_not_in_sync_now(machine: Machine) -> None:
    machine.place("web2", "u-2", minors=(1,))
    look(machine, 100.0)
    machine.drbdadm("detach", RESOURCE)
    look(machine, 110.0)
    assert ages(machine, 111.0) == {RESOURCE: {0: {PEER: 11.0}}, "web2-disk0": {0: {PEER: 1.0}}}


def test_of_too_many_sights_the_newest_are_kept(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sights, "MOST", 1)
    machine.place("web2", "u-2", minors=(1,))
    machine.drbdadm("detach", RESOURCE)
    look(machine, 100.0)
    machine.drbdadm("attach", RESOURCE)
    machine.drbdadm("detach", "web2-disk0")
    look(machine, 110.0)
    assert list(ages(machine, 111.0)) == [RESOURCE]


def test_a_replica_without_a_disk_has_nothing(machine: Machine) -> None:
    machine.drbdadm("detach", RESOURCE)
    look(machine, 100.0)
    assert ages(machine, 101.0) == {}


def test_a_replica_has_all_data_of_a_connected_peer_that_lost_its_disk(machine: Machine) -> None:
    """A primary whose disk failed writes to its peer only: nothing is lost with it, however long ago that was."""
    look(machine, 100.0)
    machine.peer("n2").drbdadm("detach", RESOURCE)
    look(machine, 600.0)
    assert ages(machine, 601.0) == {RESOURCE: {0: {PEER: 1.0}}}
    machine.set_link(is_cut=True)
    look(machine, 610.0)
    assert ages(machine, 611.0) == {RESOURCE: {0: {PEER: 11.0}}}


def test_during_a_resync_nothing_is_in_sync(machine: Machine) -> None:
    machine.set_resync_speed(1)
    machine.drbdadm("invalidate", RESOURCE)
    look(machine, 100.0)
    assert ages(machine, 101.0) == {}


@pytest.mark.parametrize("setting", ["protocol        \tA;", "protocol        \tB;", "ping-int        \t11; # seconds"])
def test_another_protocol_than_c_and_a_peer_that_is_rarely_asked_never_count(machine: Machine, setting: str) -> None:
    machine.garbled["net {\n"] = f"net {{\n        {setting}\n"
    look(machine, 100.0)
    assert ages(machine, 101.0) == {}


def test_a_connection_that_is_another_one_after_the_status_does_not_count(machine: Machine) -> None:
    others = iter(["192.0.2.9", PEER])
    run = machine.run

    def changing(*command: str, time_limit: float = 120, accepted: tuple[int, ...] = (0,)) -> str:
        said = run(*command, time_limit=time_limit, accepted=accepted)
        return said.replace(PEER, next(others)) if command[:2] == ("drbdsetup", "show") else said

    machine.run = changing  # type: ignore[method-assign]
    look(machine, 100.0)
    assert ages(machine, 101.0) == {}


def test_one_look_costs_three_commands_for_all_resources(machine: Machine) -> None:
    machine.place("many", "u-2", minors=tuple(range(1, 20)))
    ran: list[str] = []
    run = machine.run

    def noted(*command: str, time_limit: float = 120, accepted: tuple[int, ...] = (0,)) -> str:
        ran.append(" ".join(command[:2]))
        assert time_limit <= sights.SECONDS
        return run(*command, time_limit=time_limit, accepted=accepted)

    machine.run = noted  # type: ignore[method-assign]
    look(machine, 100.0)
    assert ran == ["drbdsetup show", "drbdsetup status", "drbdsetup show"]
    assert len(ages(machine, 101.0)) == 20


@pytest.mark.parametrize("told", ["", "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: B536C32A3EADA868561EFD9 \n"])
def test_without_drbd_or_a_resource_nothing_is_asked_or_written(machine: Machine, told: str) -> None:
    (machine.root / drbd_node.PROC).write_text(told)
    machine.broken["drbdsetup"] = "asked"
    look(machine, 100.0)
    assert not (machine.root / sights.FOLDER).exists()


def test_a_drbd_that_does_not_answer_fails_the_look_and_keeps_what_was_seen(machine: Machine) -> None:
    look(machine, 100.0)
    machine.broken["drbdsetup status"] = "is not done after 10 s"
    with pytest.raises(errors.Failed, match="not done"):
        look(machine, 110.0)
    assert ages(machine, 120.0) == {RESOURCE: {0: {PEER: 20.0}}}


GONE = '"peer-disk-state": "DUnknown"'


def test_version_9_is_seen_by_the_path_that_is_established(machine: Machine) -> None:
    machine.use_version_9()
    machine.do("drbdsetup", "status")
    paths = [
        {"remote_host": {"address": address}, "established": established}
        for address, established in (("192.0.2.7", False), ("192.0.2.8", True))
    ]
    status = {
        "name": "r0",
        "role": "Secondary",
        "devices": [{"volume": 0, "minor": 0, "disk-state": "UpToDate"}],
        "connections": [
            {
                "peer-node-id": 1,
                "name": "n2",
                "connection-state": "Connected",
                "peer-role": "Primary",
                "paths": paths,
                "peer_devices": [
                    {"volume": 0, "replication-state": "Established", "peer-disk-state": "UpToDate"},
                ],
            }
        ],
    }
    shown = (
        'resource "r0" {\n    _this_host {\n        node-id\t\t\t0;\n    }\n    connection {\n'
        "        _peer_node_id 1;\n"
        "        path {\n            _this_host ipv4 192.0.2.1:7000;\n            _remote_host ipv4 192.0.2.7:7000;\n"
        "        }\n        path {\n            _this_host ipv4 192.0.2.1:7001;\n"
        '            _remote_host ipv4 192.0.2.8:7001;\n        }\n        net {\n            _name           \t"n2";\n'
        "        }\n    }\n}\n\n"
    )
    machine.answers.update({"drbdsetup status": json.dumps([status]), "drbdsetup show": shown})
    look(machine, 100.0)
    assert ages(machine, 101.0) == {"r0": {0: {"192.0.2.8": 1.0}}}
    for path in paths:
        path["established"] = False
    machine.answers["drbdsetup status"] = json.dumps([status])
    look(machine, 110.0)
    assert ages(machine, 120.0)["r0"][0] == {"192.0.2.7": 10.0, "192.0.2.8": 10.0}

    # As recorded with DRBD 9: a path is established again, and the peers still connect.
    paths[0]["established"] = True
    told = json.dumps([status]).replace('"Connected"', '"Connecting"').replace('"peer-disk-state": "UpToDate"', GONE)
    machine.answers["drbdsetup status"] = told
    look(machine, 120.0)
    assert ages(machine, 120.0)["r0"][0] == {"192.0.2.7": 10.0, "192.0.2.8": 10.0}


def test_after_a_boot_nothing_has_been_seen(machine: Machine) -> None:
    look(machine, 100.0)
    boot(machine, OTHER)
    assert ages(machine, 101.0) == {}
    machine.drbdadm("up", RESOURCE)
    look(machine, 5.0)
    assert ages(machine, 6.0) == {RESOURCE: {0: {PEER: 1.0}}}


@pytest.mark.parametrize("text", ["", "no boot id"])
def test_without_a_boot_id_nothing_has_been_seen(machine: Machine, text: str) -> None:
    look(machine, 100.0)
    boot(machine, text)
    look(machine, 101.0)
    assert ages(machine, 102.0) == {}


def test_what_was_seen_later_than_now_or_before_the_start_does_not_count(machine: Machine) -> None:
    look(machine, 100.0)
    assert ages(machine, 99.0) == {}
    assert ages(machine, 100.0) == {RESOURCE: {0: {PEER: 0.0}}}
    file(machine).write_text(json.dumps({"boot_id": BOOT, "seen": [[RESOURCE, 0, PEER, -1.0]]}))
    assert ages(machine, 100.0) == {}


@pytest.mark.parametrize(
    "seen",
    [
        [[RESOURCE, 0, PEER, math.nan]],
        [[RESOURCE, 0, PEER, math.inf]],
        [[RESOURCE, 0, PEER]],
        [[RESOURCE, "x", PEER, 1]],
        [[RESOURCE, 0, PEER, 10**400]],
        [[RESOURCE, 0, PEER, None]],
        {"a": 1},
        7,
        None,
    ],
)
def test_a_file_that_says_nothing_usable_is_as_none(machine: Machine, seen: object) -> None:
    look(machine, 100.0)
    file(machine).write_text(json.dumps({"boot_id": BOOT, "seen": seen}))
    assert ages(machine, 101.0) == {}
    look(machine, 102.0)
    assert ages(machine, 103.0) == {RESOURCE: {0: {PEER: 1.0}}}


@pytest.mark.parametrize("content", [b"", b'{"boot_id": "0f2a', b"\xff\xfe", b"[]", b"7", b"[" * 100_000])
def test_a_torn_file_is_as_none(machine: Machine, content: bytes) -> None:
    look(machine, 100.0)
    file(machine).write_bytes(content)
    assert ages(machine, 101.0) == {}


def test_a_look_that_was_killed_while_it_wrote_is_not_in_the_way(machine: Machine) -> None:
    look(machine, 100.0)
    file(machine).with_name(f".{sights.FILE}.new").write_text("torn")
    look(machine, 110.0)
    assert ages(machine, 111.0) == {RESOURCE: {0: {PEER: 1.0}}}


def test_what_another_user_could_have_written_does_not_count(machine: Machine) -> None:
    look(machine, 100.0)
    file(machine).chmod(0o620)
    assert ages(machine, 101.0) == {}
    look(machine, 110.0)
    assert ages(machine, 111.0) == {RESOURCE: {0: {PEER: 1.0}}}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_does_not_count(machine: Machine) -> None:
    look(machine, 100.0)
    os.chown(file(machine), 65534, 65534)
    assert ages(machine, 101.0) == {}
    look(machine, 110.0)
    assert (ages(machine, 111.0), file(machine).stat().st_uid) == ({RESOURCE: {0: {PEER: 1.0}}}, 0)


def test_no_link_in_the_folder_is_followed(machine: Machine, tmp_path: Path) -> None:
    look(machine, 100.0)
    forged = tmp_path / "forged"
    forged.write_text(file(machine).read_text())
    forged.chmod(0o600)
    other = tmp_path / "other"
    other.write_text("untouched")
    file(machine).unlink()
    file(machine).symlink_to(forged)
    file(machine).with_name(f".{sights.FILE}.new").symlink_to(other)
    assert ages(machine, 101.0) == {}
    look(machine, 110.0)
    assert (other.read_text(), file(machine).is_symlink()) == ("untouched", False)
    assert ages(machine, 111.0) == {RESOURCE: {0: {PEER: 1.0}}}


@pytest.mark.parametrize("name", [sights.FOLDER, f"{sights.FOLDER}/{sights.MADE}"])
def test_no_folder_that_is_a_link_is_followed(machine: Machine, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (machine.root / name).parent.mkdir(parents=True, exist_ok=True)
    (machine.root / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.StoreFailed):
        sights.forget(machine.root, RESOURCE)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert ages(machine, 111.0) == {}


def test_a_replica_that_was_made_anew_begins_without_a_past(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([105.0])
    monkeypatch.setattr(sights, "uptime", lambda: next(clock))
    look(machine, 100.0)
    machine.drbdadm("down", RESOURCE)
    assert ages(machine, 104.0) == {RESOURCE: {0: {PEER: 4.0}}}
    (machine.root / "etc/drbd.d" / f"roundsman-{RESOURCE}.res").unlink()
    templates.done(storage(machine).steps(disks.State.PRESENT))
    assert ages(machine, 106.0) == {}
    # A look that had read DRBD before comes late.
    file(machine).write_text(json.dumps({"boot_id": BOOT, "seen": [[RESOURCE, 0, PEER, 103.0]]}))
    assert ages(machine, 106.0) == {}


def test_what_cannot_be_read_of_when_a_replica_was_made_leaves_it_without_a_past(machine: Machine) -> None:
    look(machine, 100.0)
    sights.forget(machine.root, RESOURCE, now=50.0)
    assert ages(machine, 101.0) == {RESOURCE: {0: {PEER: 1.0}}}
    (machine.root / sights.FOLDER / sights.MADE / RESOURCE).write_text("torn")
    assert ages(machine, 101.0) == {}


def test_a_module_says_when_it_saw_the_replica_and_where_the_peer_of_its_file_is(machine: Machine) -> None:
    sights.look(machine.root, hypervisor="kvm")
    (found,) = storage(machine).local_disks()
    assert (found.peer, found.peer_address, list(found.seen)) == ("n2", PEER, [PEER])
    assert 0.0 <= found.seen[PEER] < 60.0
    (row,) = disks.as_result([found])["disks"]
    assert (row["peer_address"], row["seen"]) == (PEER, found.seen)
