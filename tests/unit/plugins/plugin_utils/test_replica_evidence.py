"""What is known of replicas and their nodes: by hand from files, by new reports, and as the rule is asked."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.replicas import Moment
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import out_of_sync, replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, known_off
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import possible_loss
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.possible_loss import Answer, Verdict

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
    """What nodes have reported, and the present."""

    tracks: dict[str, replicas.NodeTrack]
    offs: dict[str, Moment] = dataclasses.field(default_factory=dict)
    now: Moment = dataclasses.field(default_factory=lambda: Moment(210.0))


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


P = "192.0.2.2"
"""The address by which node3 sees node2."""


def apart(seen: float | None = None, *, at: float = 1000.0, **changed: Any) -> replicas.NodeTrack:
    """The newest report of node3, which has lost node2, and saw it so many seconds before."""
    facts = tuple(
        dataclasses.replace(
            fact(name, joined=False, role=Role.SECONDARY), seen=() if seen is None else ((P, seen),), **changed
        )
        for name in (FIRST, SECOND)
    )
    return replicas.followed(None, replicas.NodeFacts("", facts), at=Moment(at))


OFF = with_node("n2", secondary_ip=P, powered=False, off_since=980.0, ndparams={"oob_program": "ipmi"})


def estimated(track_of_target: replicas.NodeTrack | None, cluster: clusters.Cluster = OFF, **known: Any) -> Answer:
    source = known.pop("source", None)
    accepted = known.pop("accepted", None)
    tracks = {uuid: one for uuid, one in (("n2", source), ("n3", track_of_target)) if one is not None}
    found = Known(tracks, **known)
    return replica_evidence.estimate(
        cluster, cluster.instances["i1"], found, source="n2", target="n3", accepted=accepted
    )


def test_the_newest_report_of_the_target_says_no_more_than_what_it_would_answer() -> None:
    """It saw node2 at 970, 10 s before that was known to be off, and may have lost it 20 s before."""
    found = estimated(apart(30.0))
    assert (found.verdict, found.seconds, found.last_in_sync, found.seen_off) == (Verdict.GO, 30.0, 950.0, 980.0)
    found = estimated(apart(300.0))
    assert (found.verdict, found.seconds, found.keeps_back) == (Verdict.ASK, 300.0, True)
    assert "`roundsman instance failover inst1 --max-loss 310s`" in found.unblock, "the next answer may take longer"
    assert not estimated(apart(300.0), accepted=300).keeps_back
    assert estimated(apart(300.0), accepted=299).keeps_back


@pytest.mark.parametrize(("age", "accepted"), [(0.0, 440), (59.0, 440), (60.0, 500), (200.0, 620)])
def test_where_no_off_is_on_record_the_command_accepts_the_time_since_the_report_too(age: float, accepted: int) -> None:
    on = with_node("n2", secondary_ip=P)
    found = estimated(apart(300.0), on, now=Moment(1000.0 + age))
    assert (found.verdict, found.seconds) == (Verdict.ASK, 320.0)
    assert f"--max-loss {accepted}s`" in found.unblock
    off = estimated(apart(300.0), now=Moment(1000.0 + age))
    assert "--max-loss 310s`" in off.unblock


def test_a_report_that_saw_the_source_at_no_time_of_a_calendar_is_judged_without_its_age() -> None:
    """A node with a valid key ended the daemon, at each start, once a peer of it was dead."""
    for age in (1e12, 1e300):
        assert not estimated(apart(age)).keeps_back


def test_what_the_report_of_the_target_does_not_know_the_play_asks() -> None:
    for track_of_target in (None, track((1000, {})), apart(None), track((1000, {FIRST: True, SECOND: True}))):
        assert not estimated(track_of_target).keeps_back
    assert not estimated(apart(300.0), with_node("n2", secondary_ip=P), accepted=320).keeps_back, (
        "it is not known to be off yet"
    )


def test_a_target_that_is_outdated_and_a_source_that_wrote_alone_are_known_before() -> None:
    assert "is Outdated" in estimated(apart(30.0, disk=Disk.OUTDATED)).reason
    alone = track((900, {FIRST: True, SECOND: True}), (950, {FIRST: False, SECOND: True}))
    found = estimated(apart(30.0), source=alone)
    assert (found.verdict, found.keeps_back) == (Verdict.REFUSE, True)
    assert "node2 reported at 1970-01-01 00:15:50 UTC that the pair is not in sync" in found.reason
    back = track((950, {FIRST: False, SECOND: False}), (960, {FIRST: True, SECOND: True}))
    assert estimated(apart(30.0), source=back).verdict is Verdict.GO, "only its own later word takes that back"


@pytest.mark.parametrize(
    ("node", "reported", "against"),
    [
        ("n2", None, True),
        ("n2", track((940, {FIRST: True, SECOND: True})), True),
        ("n2", track((960, {FIRST: True, SECOND: True})), False),
        ("n2", track((945, {FIRST: True, SECOND: True}), (960, {FIRST: True})), True),
        ("n3", None, False),
    ],
)
def test_a_word_of_the_source_that_is_on_record_stands_until_it_reports_in_sync_later(
    node: str, reported: replicas.NodeTrack | None, *, against: bool
) -> None:
    parted = dataclasses.replace(INSTANCE, parted=replicas.Parted(950.0, 940.0, node))
    found = estimated(apart(30.0), clusters.with_instance(OFF, parted), source=reported)
    assert (found.verdict is Verdict.REFUSE) is against


def test_a_word_on_record_stands_until_each_disk_was_in_sync_later() -> None:
    """One disk was last in sync before the word; its own has failed since, so it says no more of the pair."""
    parted = dataclasses.replace(INSTANCE, parted=replicas.Parted(950.0, 940.0, "n2"))
    failed = dataclasses.replace(fact(SECOND, joined=True), disk=Disk.DISKLESS)
    before = track((945.0, {FIRST: True, SECOND: True}))
    source = replicas.followed(before, replicas.NodeFacts("", (fact(FIRST, joined=True), failed)), at=Moment(960.0))
    found = estimated(apart(30.0), clusters.with_instance(OFF, parted), source=source)
    assert (found.verdict, "at 1970-01-01 00:15:50 UTC" in found.reason) == (Verdict.REFUSE, True)


def test_ages_and_amounts_are_no_news_of_a_replica() -> None:
    """With an agent each report was news, so a secondary that stayed UpToDate was outdated again every minute."""
    known = replica_evidence.newest({"n3": apart(30.0)}, ["n3"], INSTANCE)
    for changed, is_news in (({"out_of_sync": 8}, False), ({"disk": Disk.OUTDATED}, True)):
        later = replica_evidence.newest({"n3": apart(90.0, at=1060.0, **changed)}, ["n3"], INSTANCE)
        assert (later != known) is is_news


def test_a_primary_whose_own_disk_failed_writes_to_its_secondary_and_has_not_lost_it() -> None:
    facts = tuple(dataclasses.replace(fact(name, joined=True), disk=Disk.DISKLESS) for name in (FIRST, SECOND))
    diskless = replicas.followed(None, replicas.NodeFacts("", facts), at=Moment(970.0))
    assert estimated(apart(30.0), source=diskless).verdict is Verdict.GO


def test_the_generation_is_that_of_the_last_report_in_sync_or_one_that_came_from_it_before_the_sight() -> None:
    source = track((960, {FIRST: True, SECOND: True}))
    for changed, verdict in (
        ({}, Verdict.GO),
        ({"current": 32}, Verdict.REFUSE),
        ({"current": 32, "bitmap": 16}, Verdict.GO),
    ):
        assert estimated(apart(30.0, **changed), source=source).verdict is verdict
    disk = possible_loss.Disk("r0", "UpToDate", age=30.0, current=32, bitmap=0, ancestors=(16,))
    for at, verdict in ((960.0, Verdict.GO), (975.0, Verdict.REFUSE)):
        source = track((at, {FIRST: True, SECOND: True}))
        answered = replica_evidence.Answered(1000.0, 5000.0, (disk, disk), 20.0)
        found = replica_evidence.judge(OFF, INSTANCE, Known({"n2": source}), answered, source="n2", target="n3")
        assert found.verdict is verdict


def test_of_two_reports_in_sync_the_later_one_has_the_generation() -> None:
    before = tuple(
        dataclasses.replace(fact(name, joined=True, role=Role.SECONDARY), current=8) for name in (FIRST, SECOND)
    )
    target = replicas.followed(None, replicas.NodeFacts("", before), at=Moment(900.0))
    facts = tuple(dataclasses.replace(fact(name, joined=False), seen=((P, 30.0),)) for name in (FIRST, SECOND))
    target = replicas.followed(target, replicas.NodeFacts("", facts), at=Moment(1000.0))
    assert estimated(target).verdict is Verdict.REFUSE
    assert estimated(target, source=track((960, {FIRST: True, SECOND: True}))).verdict is Verdict.GO


@pytest.mark.parametrize(("group", "cluster", "verdict"), [(20, 600, Verdict.ASK), (600, 20, Verdict.GO)])
def test_the_limit_of_the_group_is_stronger_than_that_of_the_cluster(
    group: int, cluster: int, verdict: Verdict
) -> None:
    limited = dataclasses.replace(
        OFF,
        cluster=dataclasses.replace(OFF.cluster, failover_max_loss=cluster),
        nodegroups={uuid: dataclasses.replace(one, failover_max_loss=group) for uuid, one in OFF.nodegroups.items()},
    )
    assert estimated(apart(30.0), limited).verdict is verdict


def test_a_node_that_has_lived_since_it_was_off_is_not_known_to_be_off() -> None:
    lived = with_node("n2", secondary_ip=P, powered=False, off_since=980.0, alive_at=985.0)
    assert (estimated(apart(30.0), lived).verdict, estimated(apart(30.0), lived).seen_off) == (Verdict.WAIT, 0.0)


def test_while_a_new_replica_is_being_made_the_secondary_is_no_target_and_the_way_out_is_named() -> None:
    making = [clusters.LeftBehind(node, INSTANCE, since, is_new=True) for node, since in (("n10", 50.0), ("n1", 150.0))]
    for left in (making, making[::-1]):
        cluster = dataclasses.replace(OFF, maintenance=dataclasses.replace(OFF.maintenance, left_behind=tuple(left)))
        found = estimated(apart(30.0), cluster)
        assert found.verdict is Verdict.REFUSE
        assert "node2 may have written to a new replica on " in found.reason
        assert "since 1970-01-01 00:00:50 UTC, because replace-disks has not ended" in found.reason
        assert "then `roundsman instance replace-disks inst1 --to " in found.unblock


def test_another_address_than_that_of_the_source_is_no_sight_of_it() -> None:
    facts = tuple(
        dataclasses.replace(fact(name, joined=False), seen=(("192.0.2.77", 30.0),)) for name in (FIRST, SECOND)
    )
    other = replicas.followed(None, replicas.NodeFacts("", facts), at=Moment(1000.0))
    assert estimated(other).verdict is Verdict.UNKNOWN


def test_a_clock_of_the_controller_that_was_set_makes_no_loss_smaller() -> None:
    """It was set forward by 500 s since node2 was known to be off: by the other clock only 20 s have passed."""
    set_forward = replicas.NodeTrack(Moment(1500.0, 520.0), is_known=True, volumes=apart(30.0).volumes)
    offs = {"n2": Moment(980.0, 500.0)}
    assert estimated(set_forward, offs=offs).seconds == 30.0
    set_back = replicas.NodeTrack(Moment(500.0, 520.0), is_known=True, volumes=apart(30.0).volumes)
    assert estimated(set_back, offs=offs).seconds == 530.0, "the larger one counts"


@pytest.mark.parametrize(
    ("confirmed", "since", "person"), [(0.0, 980.0, ""), (980.0, 980.0, "a person"), (985.0, 980.0, "")]
)
def test_the_word_of_a_person_needs_the_word_of_a_person(confirmed: float, since: float, person: str) -> None:
    node = dataclasses.replace(OFF.nodes["n2"], off_confirmed=confirmed, off_since=since)
    assert known_off.stated_by(node) == person
    found = estimated(apart(30.0), clusters.with_node(OFF, node))
    assert (found.verdict is Verdict.ASK) is bool(person)
    assert not estimated(apart(30.0), clusters.with_node(OFF, node), accepted=30).keeps_back


def test_a_refusal_stands_while_the_limit_and_what_is_known_of_the_power_are_the_same() -> None:
    before = replica_evidence.basis(OFF, INSTANCE)
    assert replica_evidence.basis(with_node("n2", secondary_ip=P, powered=False, off_since=990.0), INSTANCE) != before
    cluster = dataclasses.replace(OFF, cluster=dataclasses.replace(OFF.cluster, failover_max_loss=30))
    assert replica_evidence.basis(cluster, INSTANCE) != before
    assert (
        replica_evidence.basis(OFF, dataclasses.replace(INSTANCE, primary_node="n3", secondary_nodes=("n2",))) != before
    )


def test_a_replica_is_judged_only_where_its_primary_is_not_contacted() -> None:
    assert replica_evidence.of_nodes(CLUSTER, Known({}), ["n2"]) == {}
    assert list(replica_evidence.of_nodes(with_node("n2", offline=True), Known({}), ["n2"])) == ["i1"]


APART = track(
    (80, {FIRST: True, SECOND: True}), (90, {FIRST: False, SECOND: True}), (95, {FIRST: False, SECOND: False})
)


def parted(instance: clusters.Instance) -> replicas.Parted | None:
    """What a new report of its primary commits of an instance; None for nothing."""
    found = out_of_sync.parted(clusters.with_instance(CLUSTER, instance), {"n2": APART}, ["n2"])
    return found[0].parted if found else None


def test_a_pair_is_apart_since_its_first_disk_is_and_was_in_sync_while_all_disks_were() -> None:
    assert parted(INSTANCE) == replicas.Parted(90.0, 80.0, "n2", (f"{16:016x}",) * 2)


def test_a_new_primary_that_writes_alone_is_put_on_record_once_and_apart_for_as_long_as_before() -> None:
    before = dataclasses.replace(INSTANCE, parted=replicas.Parted(20.0, 10.0, "n3"))
    found = parted(before)
    assert found == replicas.Parted(20.0, 10.0, "n2", (f"{16:016x}",) * 2)
    assert parted(dataclasses.replace(before, parted=found)) is None


@pytest.mark.parametrize(
    ("recorded", "reported", "now", "lives"),
    [
        # Dated like the sign of life before it, which was dated by a clock that was ahead.
        (1000.0, 1500.0, 1500.0, True),
        (1000.0, 990.0, 1500.0, False),
        # The clock stands still.
        (1000.0, 1000.0, 1000.0, True),
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
