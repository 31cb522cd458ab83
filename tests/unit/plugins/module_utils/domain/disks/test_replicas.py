from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_generations import bare
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import json_values
from hypothesis import given
from hypothesis import strategies as st

BOOT = "0f2a4b6c-1111-2222-3333-444455556666"
FACT = replicas.ReplicaFact("r0", 0, Role.PRIMARY, Connection.CONNECTED, Disk.UP_TO_DATE, Disk.UP_TO_DATE, 0x10, 0)
ENTRY: dict[str, Any] = {
    "resource": "r0",
    "volume": 0,
    "role": "Primary",
    "connection": "Connected",
    "disk": "UpToDate",
    "peer_disk": "UpToDate",
    "current": "0000000000000011",
    "bitmap": "0000000000000000",
}

identifiers = st.none() | st.integers(0, 2**64 - 1).map(bare)
facts = st.builds(
    replicas.ReplicaFact,
    resource=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", fullmatch=True),
    volume=st.integers(0, 65535),
    role=st.sampled_from(Role),
    connection=st.sampled_from(Connection),
    disk=st.sampled_from(Disk),
    peer_disk=st.sampled_from(Disk),
    current=identifiers,
    bitmap=identifiers,
    seen=st.dictionaries(
        st.ip_addresses().map(str), st.floats(0, replicas.OLDEST), max_size=replicas.MOST_ADDRESSES
    ).map(replicas.newest),
)


def read(content: dict[str, Any]) -> replicas.NodeFacts:
    value = json_values.parse(json.dumps(content))
    assert isinstance(value, dict)
    return replicas.decode(value)


@given(st.lists(facts, unique_by=lambda one: (one.resource, one.volume)), st.sampled_from(["", BOOT]))
def test_facts_go_through_a_report_unchanged(listed: list[replicas.ReplicaFact], boot: str) -> None:
    told = replicas.NodeFacts(boot, tuple(listed))
    assert read(replicas.encode(told)) == told


def test_a_report_without_facts_is_valid_and_nothing_is_known() -> None:
    assert read({}) == replicas.UNKNOWN
    assert replicas.encode(replicas.UNKNOWN) == {}


@pytest.mark.parametrize(
    "seen",
    [
        "192.0.2.1",
        ["192.0.2.1"],
        {"node2": 1},
        {"192.0.2.1; x": 1},
        {"192.0.2.1": "1"},
        {"192.0.2.1": True},
        {"192.0.2.1": None},
        {"192.0.2.1": -0.5},
        {"192.0.2.1": 10**400},
        {"192.0.2.1": 10**12},
        {"192.0.2.1": 1, "x": 2},
        {f"192.0.2.{number}": 1 for number in range(replicas.MOST_ADDRESSES + 1)},
    ],
)
def test_sights_that_are_not_described_exactly_are_unknown_and_the_rest_of_the_fact_is_not(seen: Any) -> None:
    assert read({"replicas": [{**ENTRY, "seen": seen}]}).replicas == (FACT,)


def test_the_address_of_a_sight_is_read_in_its_usual_form() -> None:
    found = read({"replicas": [{**ENTRY, "seen": {"2001:DB8:0::1": 7, "192.0.2.1": 2.5}}]}).replicas
    assert found == (dataclasses.replace(FACT, seen=(("192.0.2.1", 2.5), ("2001:db8::1", 7.0))),)


def test_of_many_addresses_a_fact_has_the_newest() -> None:
    many = {f"192.0.2.{number}": float(number) for number in range(20, 0, -1)}
    assert replicas.newest(many) == tuple((f"192.0.2.{n}", float(n)) for n in range(1, replicas.MOST_ADDRESSES + 1))


def test_the_bit_of_the_role_is_no_part_of_a_generation() -> None:
    assert read({"replicas": [ENTRY]}).replicas == (FACT,)


@pytest.mark.parametrize(
    "changed",
    [
        {"resource": "../etc"},
        {"resource": "r0\n"},
        {"resource": "{{ r0 }}"},
        {"resource": "r" * 129},
        {"resource": None},
        {"volume": 1.5},
        {"volume": -1},
        {"volume": "0"},
        {"volume": 10**6},
        {"role": "Boss"},
        {"connection": "connected"},
        {"disk": ["UpToDate"]},
        {"peer_disk": None},
    ],
)
def test_a_replica_that_is_not_described_exactly_is_unknown_and_the_others_are_not(changed: dict[str, Any]) -> None:
    other = {**ENTRY, "resource": "r1"}
    found = read({"replicas": [{**ENTRY, **changed}, other]}).replicas
    assert found == (dataclasses.replace(FACT, resource="r1"),)


@pytest.mark.parametrize("text", ["10", "0" * 17, "000000000000001G", "-000000000000010", 16, None])
def test_an_identifier_that_is_none_is_unknown(text: object) -> None:
    assert read({"replicas": [{**ENTRY, "current": text}]}).replicas == (dataclasses.replace(FACT, current=None),)


def test_of_a_volume_that_is_described_twice_nothing_is_known() -> None:
    assert read({"replicas": [ENTRY, {**ENTRY, "disk": "Outdated"}]}).replicas == ()


@pytest.mark.parametrize("listed", [{}, "r0", None, [ENTRY] * (replicas.MOST + 1)])
def test_a_list_that_is_none_or_too_long_says_nothing(listed: object) -> None:
    assert read({"replicas": listed, "boot_id": BOOT}) == replicas.NodeFacts(BOOT, None)


@pytest.mark.parametrize("text", ["", "x", BOOT.upper(), BOOT + "0", 5, None, "../../etc"])
def test_a_boot_id_that_is_none_is_unknown(text: object) -> None:
    assert read({"boot_id": text, "replicas": []}) == replicas.NodeFacts("", ())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_nothing_that_a_node_says_breaks_the_reading(value: object) -> None:
    read({"replicas": value, "boot_id": value})
    read({"replicas": [value]})


def follow(*reports: tuple[float, replicas.ReplicaFact | None]) -> replicas.Track:
    """The track of r0 after reports made at these times; None is a report without facts."""
    node = None
    for at, fact in reports:
        told = replicas.UNKNOWN if fact is None else replicas.NodeFacts("", (fact,))
        node = replicas.followed(node, told, at=replicas.Moment(at))
    assert node is not None
    return node.volumes[("r0", 0)]


APART = dataclasses.replace(FACT, connection=Connection.CONNECTING, peer_disk=Disk.UNKNOWN, current=0x20)


def test_a_track_keeps_the_last_fact_in_sync_and_the_first_after_it_that_is_not() -> None:
    assert follow((1, FACT), (2, FACT)) == replicas.Track(FACT, replicas.Moment(2), 0x10)
    parted = follow((1, FACT), (2, FACT), (3, APART), (4, APART))
    assert parted == replicas.Track(APART, replicas.Moment(2), 0x10, replicas.Moment(3), replicas.Moment(4))
    assert follow((1, FACT), (3, APART), (5, FACT)) == replicas.Track(FACT, replicas.Moment(5), 0x10)


def test_a_report_without_facts_makes_what_is_known_older_and_no_better() -> None:
    assert follow((1, FACT), (2, None)) == replicas.Track(None, replicas.Moment(1), 0x10)
    assert follow((1, FACT), (2, APART), (3, None)).apart == replicas.Moment(2)


def test_a_resource_that_is_not_in_a_report_any_more_is_forgotten() -> None:
    node = replicas.followed(None, replicas.NodeFacts("", (FACT,)), at=replicas.Moment(1))
    assert replicas.followed(node, replicas.NodeFacts("", ()), at=replicas.Moment(2)).volumes == {}


WHY = "it has 2 peers, and only one is supported"


def test_a_resource_that_cannot_be_read_keeps_what_was_known_of_it_and_harms_no_other() -> None:
    before = replicas.followed(None, replicas.NodeFacts("", (FACT,)), at=replicas.Moment(1))
    other = dataclasses.replace(FACT, resource="r1")
    node = replicas.followed(before, replicas.NodeFacts("", (other,), unread={"r0": WHY}), at=replicas.Moment(2))
    assert node.unread == {"r0": WHY}
    assert node.volumes == {
        ("r0", 0): replicas.Track(None, replicas.Moment(1), 0x10),
        ("r1", 0): replicas.Track(other, replicas.Moment(2), 0x10),
    }


def test_the_resources_that_cannot_be_read_go_over_the_wire_with_their_reasons() -> None:
    told = replicas.NodeFacts(BOOT, (FACT,), unread={"r1": WHY, "r2": ""})
    assert read(replicas.encode(told)) == told
    assert read({"replicas": [ENTRY], "unread_resources": {"{{ r1 }}": WHY}}) == replicas.NodeFacts("", (FACT,))
    for listed in ("r1", None, ["r1"], {f"r{number}": WHY for number in range(replicas.MOST + 1)}):
        assert read({"replicas": [ENTRY], "unread_resources": listed}) == replicas.UNKNOWN
    for said, kept in ((WHY, WHY), (5, ""), (None, ""), ("a\x1b[1m\nb", r"a\x1b[1m\nb"), ("a" * 9999, "a" * 300)):
        told = read({"replicas": [ENTRY], "unread_resources": {"r0": said}})
        assert told == replicas.NodeFacts("", (), unread={"r0": kept})
    long = replicas.encode(replicas.NodeFacts("", (), unread={"r0": "a" * 9999}))
    assert long["unread_resources"] == {"r0": "a" * 300}


def test_a_report_is_never_dated_after_its_acceptance() -> None:
    accepted = replicas.Moment(100.0, 7.0)
    assert replicas.made_at(98 * 10**9, accepted) == replicas.Moment(98.0, 5.0)
    assert replicas.made_at(130 * 10**9, accepted) == accepted


def test_a_step_of_the_clock_counts_only_across_a_restart() -> None:
    before, after = replicas.Moment(1000.0, 5.0), replicas.Moment(400.0, 65.0)
    assert after.after(before) == 60.0
    assert after.after(replicas.Moment(1000.0)) == -600.0


SECONDARY = dataclasses.replace(APART, role=Role.SECONDARY)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("connection", [Connection.CONNECTED, Connection.CONNECTING, Connection.STANDALONE])
@pytest.mark.parametrize("disk", Disk)
@pytest.mark.parametrize("primary", [APART, FACT, SECONDARY, dataclasses.replace(APART, disk=Disk.OUTDATED), None])
def test_only_a_lost_secondary_of_a_running_primary_is_outdated(
    role: Role, connection: Connection, disk: Disk, primary: replicas.ReplicaFact | None
) -> None:
    fact = dataclasses.replace(SECONDARY, role=role, connection=connection, disk=disk)
    found = replicas.to_outdate(_node(primary), _node(fact), ["r0"])
    has_lost = connection is not Connection.CONNECTED and role is Role.SECONDARY
    assert found == (primary is APART and has_lost and disk in {Disk.UP_TO_DATE, Disk.CONSISTENT})
    assert not (found and replicas.to_outdate(_node(fact), _node(primary), ["r0"])), "never both"


def test_a_secondary_that_was_promoted_since_it_lost_its_peer_is_not_outdated() -> None:
    """The newest data may be there: where both were written a person chooses."""
    lost = dataclasses.replace(SECONDARY, connection=Connection.CONNECTING)
    for bitmap, is_outdated in ((None, True), (0, True), (0x10, False)):
        fact = dataclasses.replace(lost, bitmap=bitmap)
        assert replicas.to_outdate(_node(APART), _node(fact), ["r0"]) is is_outdated, bitmap


def _node(fact: replicas.ReplicaFact | None) -> replicas.NodeTrack:
    told = replicas.NodeFacts("", () if fact is None else (fact,))
    return replicas.followed(None, told, at=replicas.Moment(1))


def test_a_primary_that_has_its_peer_but_not_the_disk_of_its_peer_outdates_nothing() -> None:
    diskless = dataclasses.replace(FACT, peer_disk=Disk.DISKLESS)
    assert diskless.is_alone
    assert not replicas.to_outdate(_node(diskless), _node(SECONDARY), ["r0"])
    assert not replicas.to_outdate(_node(APART), None, ["r0"]), "it has not reported"


def test_resources_are_in_sync_only_by_a_later_report_that_lists_all_of_them_as_connected_and_up_to_date() -> None:
    node = _node(FACT)
    assert replicas.are_in_sync(node, ["r0"], since=0.5)
    assert not replicas.are_in_sync(node, ["r0"], since=1.0)
    assert not replicas.are_in_sync(node, ["r0", "r1"], since=0.5)
    assert not replicas.are_in_sync(None, ["r0"], since=0.5)
    lost = dataclasses.replace(FACT, connection=Connection.CONNECTING)
    assert not replicas.are_in_sync(_node(lost), ["r0"], since=0.5)
    silent = replicas.followed(node, replicas.UNKNOWN, at=replicas.Moment(2))
    assert not replicas.are_in_sync(silent, ["r0"], since=0.5)
