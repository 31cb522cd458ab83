from __future__ import annotations

import json

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import (
    Connection,
    Disk,
    Net,
    Replication,
    Resources,
    Role,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_status

NONE = Resources([], {})
STATUS = """r0 role:Primary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:3128 written:0 al-writes:8 bm-writes:0 upper-pending:0
      lower-pending:0 al-suspended:no blocked:no
  peer connection:Connected role:Secondary congested:yes
    volume:0 replication:SyncSource peer-disk:Inconsistent done:1.56
        resync-suspended:no
        received:0 sent:2844 out-of-sync:64472 pending:2 unacked:2

"""
ALONE = """r0 role:Primary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:3128 written:0 al-writes:8 bm-writes:0 upper-pending:0
"""
PROC = """version: 8.4.11 (api:1/proto:86-101)
srcversion: F73C670A7EC572DB9CF3E5B
 0: cs:{} C r-----
    ns:0 nr:0 dw:82337 dr:74399 al:10 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:{}
"""


def test_version_84_tells_of_a_resync_and_how_far_it_is() -> None:
    proc = PROC.format("SyncSource ro:Primary/Secondary ds:UpToDate/Inconsistent", 64472)
    (side,) = drbd_status.of_text(STATUS, proc + "\t[>....................] sync'ed:  1.7% (64472/65496)K\n").sides
    assert (side.resource, side.role, side.peer_role) == ("r0", Role.PRIMARY, Role.SECONDARY)
    assert side.connection is Connection.CONNECTED
    (volume,) = side.volumes
    assert (volume.number, volume.minor, volume.disk, volume.peer_disk) == (0, 0, Disk.UP_TO_DATE, Disk.INCONSISTENT)
    assert (volume.replication, volume.out_of_sync, volume.done) == (Replication.SYNC_SOURCE, 64472, 1.56)
    assert not volume.paused_by_user


def test_who_stands_alone_is_known_from_proc_though_status_has_no_peer() -> None:
    proc = PROC.format("StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown  ", 36).replace(" C r", "   r")
    (side,) = drbd_status.of_text(ALONE, proc).sides
    assert (side.connection, side.peer_role) == (Connection.STANDALONE, Role.UNKNOWN)
    assert (side.volumes[0].peer_disk, side.volumes[0].replication) == (Disk.UNKNOWN, Replication.OFF)
    assert side.volumes[0].out_of_sync == 36


@pytest.mark.parametrize("state", ["WFConnection", "WFReportParams"])
def test_who_waits_for_its_peer_is_connecting(state: str) -> None:
    (side,) = drbd_status.of_text(ALONE, PROC.format(f"{state} ro:Primary/Unknown ds:UpToDate/DUnknown", 0)).sides
    assert side.connection is Connection.CONNECTING


def test_a_resync_that_somebody_paused_is_told_apart() -> None:
    proc = PROC.format("PausedSyncT ro:Secondary/Primary ds:Inconsistent/UpToDate", 65496).replace("r-----", "r--u--")
    (side,) = drbd_status.of_text(ALONE, proc).sides
    assert side.volumes[0].paused_by_user
    assert side.volumes[0].replication.is_paused


def test_a_resource_whose_minor_only_one_of_them_knows_is_unknown_and_harms_no_other() -> None:
    proc = PROC.format("Connected ro:Primary/Secondary ds:UpToDate/UpToDate", 0)
    status = ALONE.replace("r0", "r1").replace("minor:0", "minor:1") + STATUS
    found = drbd_status.of_text(status, proc)
    assert [side.resource for side in found.sides] == ["r0"]
    assert found.unread == {"r1": "/proc/drbd does not list all its minors"}


def test_a_status_that_begins_with_no_resource_is_an_error() -> None:
    with pytest.raises(errors.InvalidInput, match="and not with a resource"):
        drbd_status.of_text("  volume:0 minor:0 disk:UpToDate", "")


def test_a_resource_that_got_neither_disk_nor_peer_is_down() -> None:
    status = ALONE.replace("UpToDate", "Diskless") + "r1 role:Secondary suspended:no\n"
    assert drbd_status.of_text(status, "version: 8.4.11 (api:1/proto:86-101)\n 0: cs:Unconfigured\n") == NONE


def test_a_resource_with_a_word_that_no_drbd_says_is_unknown_and_the_reason_names_the_known_ones() -> None:
    found = drbd_status.of_text(ALONE, PROC.format("Connected ro:Primary/Secondary ds:Fine/UpToDate", 0))
    assert found.sides == []
    assert found.unread["r0"].startswith("DRBD says 'Fine', which is not one of Diskless, ")


def test_without_resources_there_are_none() -> None:
    assert drbd_status.of_text("", "version: 8.4.11\n") == NONE
    assert drbd_status.of_json("[]") == NONE


def _nine(**changed: object) -> str:
    peer = {
        "peer-node-id": 1,
        "name": "node2",
        "connection-state": "Connected",
        "peer-role": "Secondary",
        "peer_devices": [
            {
                "volume": 0,
                "replication-state": "Established",
                "peer-disk-state": "UpToDate",
                "resync-suspended": "no",
                "out-of-sync": 0,
                "percent-in-sync": 100.0,
            }
        ],
        **changed,
    }
    device = {"volume": 0, "minor": 1000, "disk-state": "UpToDate"}
    return json.dumps([{"name": "r9", "role": "Primary", "devices": [device], "connections": [peer]}])


def test_version_9_tells_the_same_in_json() -> None:
    (side,) = drbd_status.of_json(_nine()).sides
    assert (side.resource, side.role, side.connection) == ("r9", Role.PRIMARY, Connection.CONNECTED)
    assert (side.volumes[0].minor, side.volumes[0].replication) == (1000, Replication.ESTABLISHED)
    assert (side.volumes[0].out_of_sync, side.volumes[0].done) == (0, None)
    (side,) = drbd_status.of_json(_nine(**{"connection-state": "StandAlone", "peer_devices": []})).sides
    assert (side.connection, side.volumes[0].peer_disk) == (Connection.STANDALONE, Disk.UNKNOWN)


def _recorded(*, state: str, replication: str, disk: str, address: str = "192.0.2.2", established: bool) -> str:
    """All that the tools of version 9.26 and later print of a resource on a real node with DRBD 9."""
    peer_device = {
        "volume": 0,
        "replication-state": replication,
        "peer-disk-state": "UpToDate" if state == "Connected" else "DUnknown",
        "peer-client": False,
        "resync-suspended": "no" if state == "Connected" else "dependency",
        "received": 13568,
        "sent": 0,
        "out-of-sync": 51968,
        "pending": 1,
        "unacked": 0,
        "has-sync-details": replication == "SyncTarget",
        "has-online-verify-details": False,
        "percent-in-sync": 80.17,
        "rs-total": 131072,
        "db0/dt0 [MiB/s]": 38.41,
        "estimated-seconds-to-finish": 1,
        "percent-resync-done": 20.7,
    }
    path = {
        "this_host": {"address": "192.0.2.1", "port": 11000, "family": "ipv4"},
        "remote_host": {"address": address, "port": 11000, "family": "ipv4" if "." in address else "ipv6"},
        "established": established,
    }
    connection = {
        "peer-node-id": 1,
        "name": "node2",
        "connection-state": state,
        "congested": False,
        "peer-role": "Primary" if state == "Connected" else "Unknown",
        "tls": False,
        "ap-in-flight": 0,
        "rs-in-flight": 0,
        "paths": [path],
        "peer_devices": [peer_device],
    }
    device = {"volume": 0, "minor": 0, "disk-state": disk, "client": False, "open": False, "quorum": True}
    suspended = {f"suspended{why}": False for why in ("", "-user", "-no-data", "-fencing", "-quorum")}
    resource = {"name": "r9", "node-id": 0, "role": "Secondary", **suspended, "force-io-failures": False}
    return json.dumps([{**resource, "write-ordering": "flush", "devices": [device], "connections": [connection]}])


@pytest.mark.parametrize("address", ["192.0.2.2", "2001:db8::2"])
def test_version_9_tells_the_address_of_its_peer_by_the_path_that_is_established(address: str) -> None:
    recorded = {"state": "Connected", "replication": "Established", "disk": "UpToDate", "address": address}
    (side,) = drbd_status.of_json(_recorded(**recorded, established=True)).sides
    (volume,) = side.volumes
    assert (side.connection, side.peer_role) == (Connection.CONNECTED, Role.PRIMARY)
    assert side.addresses == {address}
    assert (volume.disk, volume.peer_disk, volume.replication) == (
        Disk.UP_TO_DATE,
        Disk.UP_TO_DATE,
        Replication.ESTABLISHED,
    )


@pytest.mark.parametrize("established", [True, False])
@pytest.mark.parametrize("state", ["Connecting", "StandAlone"])
def test_a_path_of_version_9_may_be_established_before_the_peers_are_connected(state: str, established: bool) -> None:
    told = _recorded(state=state, replication="Off", disk="UpToDate", established=established)
    (side,) = drbd_status.of_json(told).sides
    assert side.connection is Connection(state)
    assert side.addresses == ({"192.0.2.2"} if established else frozenset())
    assert (side.volumes[0].peer_disk, side.volumes[0].done) == (Disk.UNKNOWN, None)


def test_a_resync_of_version_9_tells_how_far_it_is() -> None:
    told = _recorded(state="Connected", replication="SyncTarget", disk="Inconsistent", established=True)
    (side,) = drbd_status.of_json(told).sides
    (volume,) = side.volumes
    assert (volume.disk, volume.replication) == (Disk.INCONSISTENT, Replication.SYNC_TARGET)
    assert (volume.out_of_sync, volume.done) == (51968, 80.17)


def test_json_that_is_not_drbds_is_an_error() -> None:
    for text in ("{", "{}x", "[1]", '[{"role": "Primary"}]', "null"):
        with pytest.raises(errors.InvalidInput):
            drbd_status.of_json(text)


@pytest.mark.parametrize("told", [{}, {"role": "Primary"}, {"role": "Primary", "devices": [{}]}, {"role": "Boss"}])
def test_a_resource_whose_json_is_not_drbds_is_unknown_and_harms_no_other(told: dict[str, object]) -> None:
    (known,) = json.loads(_nine())
    found = drbd_status.of_json(json.dumps([{"name": "r0", **told}, known]))
    assert [side.resource for side in found.sides] == ["r9"]
    assert list(found.unread) == ["r0"]


def test_a_resource_with_several_peers_is_unknown_and_harms_no_other() -> None:
    (known,), (several,) = json.loads(_nine()), json.loads(_nine())
    several |= {"name": "r0", "connections": several["connections"] * 2}
    found = drbd_status.of_json(json.dumps([several, known]))
    assert [side.resource for side in found.sides] == ["r9"]
    assert found.side("r9") == found.sides[0]
    assert found.side("down") is None
    assert found.unread == {
        "r0": "it has 2 peers, and only one is supported; remove the others from its file, then run `drbdadm adjust r0`"
    }
    with pytest.raises(errors.InvalidInput, match="r0 cannot be read on this node: it has 2 peers"):
        found.side("r0")


def test_generation_identifiers_are_read_with_the_flag_of_a_crashed_primary() -> None:
    line = "B973DA07ACB97AA1:56405A77C745066F:6D4CDE33A1C1F033:6D4BDE33A1C1F033:1:1:1:0:0:0:1\n"
    found = drbd_status.generation(line)
    assert (found.current, found.bitmap) == (0xB973DA07ACB97AA1, 0x56405A77C745066F)
    assert found.history == (0x6D4CDE33A1C1F033, 0x6D4BDE33A1C1F033)
    assert found.crashed_primary
    of_9 = "B973DA07ACB97AA0:0000000000000000:6D4CDE33A1C1F032:0000000000000000:1:1:0:{}:1:0:{}:1:0:0:0:1\n"
    assert drbd_status.generation(of_9.format(1, 0)).crashed_primary
    assert not drbd_status.generation(of_9.format(0, 1)).crashed_primary
    for text in ("", "1:2:3", "x:2:3:4", "1:2:3:4:yes"):
        with pytest.raises(errors.InvalidInput, match="no generation identifiers"):
            drbd_status.generation(text)


SHOWN = """resource probe {
    options {
    }
    net {
        cram-hmac-alg   \t"sha256";
        shared-secret   \t"protocol A; address ipv4 192.0.2.9:1; }";
    }
    _remote_host {
        address\t\t\tipv4 10.80.147.12:11009;
    }
    _this_host {
        address\t\t\tipv4 10.80.147.11:11009;
        volume 0 {
            device\t\t\tminor 9;
            disk\t\t\t"/dev/roundsman/probe";
            meta-disk\t\t\t"/dev/roundsman/probem";
            disk {
                resync-rate     \t20480k; # bytes/second
            }
        }
    }
}

"""
"""As version 8.4.11 printed it, save the secret."""
SHOWN_ALONE = """resource alone {
    options {
    }
    _this_host {
        volume 0 {
            device\t\t\tminor 8;
            disk\t\t\t"/dev/roundsman/probe";
            meta-disk\t\t\tinternal;
            disk {
            }
        }
    }
}
"""
SHOWN_9 = """resource "r0" {
    options {
        auto-promote    \tno;
    }
    _this_host {
        node-id\t\t\t1;
        volume 0 {
            device\t\t\tminor 0;
        }
    }
    connection {
        _peer_node_id 0;
        path {
            _this_host ipv6 [2001:db8::1]:7000;
            _remote_host ipv6 [2001:DB8:0::2]:7000;
        }
        path {
            _this_host ipv4 192.0.2.1:7000;
            _remote_host ipv4 192.0.2.2:7000;
        }
        net {
            protocol        \tB;
            allow-two-primaries\tyes;
            _name           \t"n2";
        }
    }
}

"""
"""After the sources of drbd-utils 9."""


def test_show_gives_the_address_of_the_peer_and_what_is_agreed_with_it() -> None:
    peer = frozenset({"10.80.147.12"})
    assert drbd_status.nets(SHOWN + SHOWN_ALONE) == {"probe": Net(peer), "alone": Net()}
    two = SHOWN.replace("    net {\n", "    net {\n        protocol        \tA;\n        allow-two-primaries\tyes;\n")
    assert drbd_status.nets(two) == {"probe": Net(peer, "A", two_primaries=True)}
    rare = SHOWN.replace("    net {\n", "    net {\n        ping-int        \t30; # seconds\n")
    assert drbd_status.nets(rare) == {"probe": Net(peer, ping_interval=30)}
    six = SHOWN.replace("ipv4 10.80.147.12:", "ipv6 [2001:DB8:0::2]:")
    assert drbd_status.nets(six) == {"probe": Net(frozenset({"2001:db8::2"}))}
    assert drbd_status.nets("# No currently configured DRBD found.\n") == drbd_status.nets("") == {}


def test_show_of_version_9_gives_the_addresses_of_all_paths() -> None:
    both = frozenset({"192.0.2.2", "2001:db8::2"})
    assert drbd_status.nets(SHOWN_9) == {"r0": Net(both, "B", two_primaries=True)}
