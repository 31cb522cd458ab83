"""What is known of replicas and their nodes: by hand from files, by new reports, and as the rule is asked."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import (
    changes,
    evidence,
    replicas,
    reports,
    signing,
    tree,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.replicas import Moment
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence

from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = small_cluster.make()
INSTANCE = CLUSTER.instances["i1"]
"""It runs on n2, its secondary is n3, and it has two disks."""
FIRST, SECOND = replica_evidence.resources(INSTANCE)
KEY = b"a key\n"


def fact(resource: str, *, joined: bool, role: Role = Role.PRIMARY) -> replicas.ReplicaFact:
    connection, peer = (Connection.CONNECTED, Disk.UP_TO_DATE) if joined else (Connection.CONNECTING, Disk.UNKNOWN)
    return replicas.ReplicaFact(resource, 0, role, connection, Disk.UP_TO_DATE, peer, 16, 0)


def track(*said: tuple[float, dict[str, bool]]) -> replicas.NodeTrack:
    """A node after its reports at these times: which resources it has, and whether each has its peer."""
    found: replicas.NodeTrack | None = None
    for at, joined in said:
        facts = replicas.NodeFacts("", tuple(fact(name, joined=is_so) for name, is_so in joined.items()))
        found = replicas.followed(found, facts, at=Moment(at))
    assert found is not None
    return found


def with_node(uuid: str, **fields: object) -> clusters.Cluster:
    return clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes[uuid], **fields))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Known:
    """What is known of nodes, all of which lived until 200 s."""

    tracks: dict[str, replicas.NodeTrack]

    def life(self, _node: str) -> evidence.Life:
        return evidence.Life(Moment(210.0), Moment(200.0), evidence.Asked(Moment(0.0), Moment(205.0)))


class LivedOn(Known):
    """The same, where all were known to be off before."""

    def life(self, _node: str) -> evidence.Life:
        return evidence.Life(Moment(210.0), Moment(200.0), off=Moment(190.0))


@pytest.mark.parametrize(("ndparams", "has_bmc"), [({"oob_program": "ipmi"}, True), ({}, False)])
def test_what_a_person_does_about_a_source_that_lived_on_fits_its_bmc(
    ndparams: dict[str, str], *, has_bmc: bool
) -> None:
    cluster = with_node("n2", ndparams=ndparams, powered=False, off_since=190.0, alive_at=200.0)
    found = replica_evidence.judge(cluster, INSTANCE, LivedOn({}), source="n2", target="n3")
    assert found.unblock.startswith("check on site whether node2 is on; if it is on, run `roundsman node ")
    assert "`roundsman node modify node2 --powered yes`" in found.unblock
    assert "`roundsman node confirm-off node2`" in found.unblock
    assert ("`roundsman node power off node2 --force`" in found.unblock) is has_bmc
    assert "starts a second copy if node2 runs" in found.unblock


@pytest.mark.parametrize(
    ("reported", "recorded", "alive"), [(100.0, 300.0, 300.0), (300.0, 100.0, 300.0), (100.0, 0.0, 100.0)]
)
def test_a_node_has_lived_until_the_later_of_its_reports_and_of_what_is_on_record(
    reported: float, recorded: float, alive: float
) -> None:
    cluster = with_node("n2", alive_at=recorded)
    life = replica_evidence.life(cluster, "n2", now=Moment(400.0), alive=Moment(reported), asked=None)
    assert life.alive == Moment(alive)


class Reports:
    """The folder of accepted reports."""

    def __init__(self, folder: Path) -> None:
        self.where = tree.Tree(folder)
        self.where.reports.mkdir(parents=True)
        self.where.hmac_key.parent.mkdir(parents=True, exist_ok=True)
        self.where.hmac_key.write_bytes(KEY)

    def accept(self, name: str, *, made: float, accepted: float, joined: bool = True) -> None:
        """One of n2, made at a time of its clock."""
        facts = replicas.NodeFacts("", (fact(FIRST, joined=joined),))
        message = reports.message(
            node_uuid="n2", timestamp_ns=int(made * 1e9), data='{"status":"Ok"}', problem=None, facts=facts
        )
        path = self.where.reports / f"{name}.json"
        path.write_text(signing.sign(message, key=signing.node_key(KEY, "n2"), now=int(made)))
        os.utime(path, (accepted, accepted))

    def read(self, *, now: float) -> replica_evidence.Files:
        return replica_evidence.Files(self.where, CLUSTER, now=now)


def test_by_hand_the_later_of_a_nodes_two_reports_counts_from_when_it_was_made(tmp_path: Path) -> None:
    found = Reports(tmp_path)
    # The older one came last, as from a spool that was held up.
    found.accept("diagnosis", made=100.0, accepted=600.0)
    found.accept("problem", made=200.0, accepted=500.0, joined=False)
    kept = found.read(now=700.0).tracks["n2"]
    assert kept.at == Moment(200.0)
    assert kept.volumes[FIRST, 0].fact == fact(FIRST, joined=False)
    found.accept("problem", made=900.0, accepted=650.0)
    assert found.read(now=700.0).tracks["n2"].at == Moment(650.0), "a clock that is ahead makes no later report"


def test_by_hand_a_node_may_have_lived_until_now_because_nobody_asks_it_between_its_reports(tmp_path: Path) -> None:
    found = Reports(tmp_path)
    found.accept("diagnosis", made=200.0, accepted=200.0)
    life = found.read(now=230.0).life("n2")
    assert (life.alive, life.unheard(120.0)) == (Moment(200.0), Moment(230.0))


def test_of_two_new_replicas_that_are_being_made_the_first_began_the_time_in_which_the_primary_proves_nothing() -> None:
    making = [clusters.LeftBehind(node, INSTANCE, since, is_new=True) for node, since in (("n10", 50.0), ("n1", 150.0))]
    for left in (making, making[::-1]):
        maintenance = dataclasses.replace(CLUSTER.maintenance, left_behind=tuple(left))
        cluster = dataclasses.replace(CLUSTER, maintenance=maintenance)
        both = dict.fromkeys((FIRST, SECOND), True)
        known = Known({"n2": track((100, both)), "n3": track((40, both))})
        assert replica_evidence.judge(cluster, INSTANCE, known, source="n2", target="n3").last_in_sync == 40.0


def test_a_replica_is_judged_only_where_its_primary_is_not_contacted() -> None:
    assert replica_evidence.of_nodes(CLUSTER, Known({}), ["n2"]) == {}
    assert list(replica_evidence.of_nodes(with_node("n2", offline=True), Known({}), ["n2"])) == ["i1"]


APART = track(
    (80, {FIRST: True, SECOND: True}), (90, {FIRST: False, SECOND: True}), (95, {FIRST: False, SECOND: False})
)


def parted(instance: clusters.Instance) -> replicas.Parted | None:
    """What a new report of its primary commits of an instance; None for nothing."""
    found = replica_evidence.parted(clusters.with_instance(CLUSTER, instance), {"n2": APART}, ["n2"])
    return found[0].parted if found else None


def test_a_pair_is_apart_since_its_first_disk_is_and_was_in_sync_while_all_disks_were() -> None:
    assert parted(INSTANCE) == replicas.Parted(90.0, 80.0, "n2", (f"{16:016x}",) * 2)


def test_a_new_primary_that_writes_alone_is_put_on_record_once_and_apart_for_as_long_as_before() -> None:
    before = dataclasses.replace(INSTANCE, parted=replicas.Parted(20.0, 10.0, "n3"))
    found = parted(before)
    assert found == replicas.Parted(20.0, 10.0, "n2", (f"{16:016x}",) * 2)
    assert parted(dataclasses.replace(before, parted=found)) is None


def test_the_last_peer_that_was_connected_shows_that_a_node_lived_though_it_was_known_to_be_off() -> None:
    # The first one is connected for as long as DRBD needs to notice.
    seen = {"n3": track((1010, {FIRST: True})), "n10": track((3000, {"other": True}))}
    for peers in (("n3", "n10"), ("n10", "n3")):
        named = {"n3": clusters.Disk(1, name=FIRST), "n10": clusters.Disk(1, name="other")}
        pairs = {uuid: clusters.Instance(uuid, uuid, "n2", (uuid,), disks=(named[uuid],)) for uuid in peers}
        cluster = dataclasses.replace(with_node("n2", powered=False, off_since=1000.0), instances=pairs)
        found = replica_evidence.returned(cluster, seen, ["n3", "n10"], now=4000.0)
        assert found == [changes.NodeLived("n2", at=3000.0, witness="n10")]


@pytest.mark.parametrize(
    ("recorded", "reported", "now", "lives"),
    [
        # Dated like the sign of life before it, which was dated by a clock that was ahead.
        (1000.0, 1500.0, 1500.0, True),
        (1000.0, 990.0, 1500.0, False),
        # Recorded by a clock that was ahead.
        (8000.0, 1500.0, 1500.0, True),
        # The same, once the clock has come so far.
        (8000.0, 8500.0, 8500.0, True),
    ],
)
def test_no_clock_that_was_ahead_hides_the_report_of_a_node_that_was_known_to_be_off(
    recorded: float, reported: float, now: float, *, lives: bool
) -> None:
    cluster = with_node("n2", powered=False, off_since=8000.0, alive_at=8000.0, mtime=recorded)
    found = replica_evidence.returned(cluster, {"n2": track((reported, {}))}, ["n2"], now=now)
    assert found == ([changes.NodeLived("n2")] if lives else [])


def test_no_clock_that_was_ahead_hides_the_word_of_a_peer() -> None:
    cluster = with_node("n2", powered=False, off_since=8000.0, alive_at=8000.0, mtime=1000.0)
    seen = {"n3": track((3000, {FIRST: True, SECOND: True}))}
    found = replica_evidence.returned(cluster, seen, ["n3"], now=3000.0)
    assert found == [changes.NodeLived("n2", at=3000.0, witness="n3")]
