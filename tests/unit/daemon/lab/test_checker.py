from __future__ import annotations

import dataclasses
import fcntl
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import store as job_store
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import checker, journals, opcode_rules, orders
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated, simulated_world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import log_output, sealed_json
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, incidents, tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import audit_lines

from tests.unit.daemon import twins
from tests.unit.daemon.lab import replicas

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, pairs=[("node2", "node3")])


def cluster(lab: world.Lab) -> clusters.Cluster:
    return store.read(tree.Tree(lab.controller).config)


def driver(lab: world.Lab, node: str, opcode: str = "1/0") -> fake.Driver:
    return fake.Driver(lab.node(node).root, opcode=opcode)


def stands(lab: world.Lab, primary: str, *secondaries: str) -> None:
    """Record where the instance is."""
    before = cluster(lab)
    change = changes.InstanceNodes(
        before.instance("instance1").uuid,
        before.node(primary).uuid,
        tuple(before.node(one).uuid for one in secondaries),
    )
    store.write(tree.Tree(lab.controller).config, changes.apply(before, change, now=1.0))


def done(lab: world.Lab, kind: str, *, number: int = 1, **params: str) -> None:
    """A job whose only opcode has succeeded."""
    params = params or {"instance": cluster(lab).instance("instance1").uuid}
    opcode = values.Opcode(kind, params, status=values.Status.SUCCESS, run="0")
    job_store.Store(tree.Tree(lab.controller).queue).save(values.Job(id=number, opcodes=(opcode,), ended=1.0))


def note(lab: world.Lab, node: str, event: str, opcode: str = "1/0", **keys: Any) -> None:
    """Let a node's journal have another event of instance1."""
    fake.append(lab.node(node).root, {"instance": "instance1", "opcode": opcode, "event": event, **keys})


def ordered(lab: world.Lab, kind: str, *, number: int = 1, text: str = "", result: Any = None, **params: Any) -> None:
    """A job of which the only opcode began a moment ago and ended now; names stand for UUIDs."""
    before, now = cluster(lab), time.time()
    nodes = {"node", "source", "target", "old", "new"}
    named = {key: before.node(value).uuid if key in nodes else value for key, value in params.items()}
    given = {"instance": before.instance("instance1").uuid, **named} if kind != "power" else named
    done = values.Opcode(kind, given, status=values.Status.SUCCESS, run="0", started=now - 0.5, ended=now)
    opcode = dataclasses.replace(done, text=text, result=result)
    job_store.Store(tree.Tree(lab.controller).queue).save(values.Job(id=number, opcodes=(opcode,), ended=now))


def fail_over(lab: world.Lab, *, acknowledged: int, read: int) -> None:
    """Let instance1 go from node2 to node3, where it reads that write from its disk."""
    (lab.node("node2").root / fake.RUNNING / "instance1.json").rename(
        lab.node("node3").root / fake.RUNNING / "instance1.json"
    )
    note(lab, "node2", "stopped", counter=acknowledged, why="stop")
    note(lab, "node3", "started", counter=read)
    stands(lab, "node3", "node2")


def migrate(lab: world.Lab, source: str = "node2", target: str = "node3") -> None:
    replicas.share(lab, "instance1-disk0", source, target)
    driver(lab, source).migrate("instance1", str(lab.node(target).wire), hvparams={}, target_lacks=str)
    replicas.unshare(lab, "instance1-disk0", source, target)


def test_a_new_lab_is_in_order(lab: world.Lab) -> None:
    assert checker.check(lab) == []


def test_a_migration_that_ran_once_is_in_order(lab: world.Lab) -> None:
    migrate(lab)
    stands(lab, "node3", "node2")
    done(lab, "migrate")
    assert checker.check(lab) == []


def test_an_instance_that_ran_twice_is_found_even_when_it_was_only_for_a_moment(lab: world.Lab) -> None:
    driver(lab, "node3", "7/0").start("instance1", {})
    driver(lab, "node3", "7/0").stop("instance1", time_limit=0)
    assert checker.check(lab) == ["instance1 ran twice, on node2 and node3 (opcode 7/0)"]


def test_a_lost_instance_is_found(lab: world.Lab) -> None:
    driver(lab, "node2").stop("instance1", time_limit=0)
    assert checker.check(lab) == [
        "instance1 runs on [], and the configuration says ['node2']",
        "instance1 runs on [] in truth",
    ]


def test_an_instance_that_vanished_without_an_event_is_found(lab: world.Lab) -> None:
    (lab.node("node2").root / fake.RUNNING / "instance1.json").unlink()
    assert checker.check(lab) == ["instance1 runs on [] in truth"]


def test_a_configuration_that_was_not_told_is_found(lab: world.Lab) -> None:
    migrate(lab)
    assert "instance1 runs on ['node3'], and the configuration says ['node2']" in checker.check(lab)


def test_an_instance_that_was_stopped_where_it_did_not_run_is_found(lab: world.Lab) -> None:
    fake.append(lab.node("node3").root, {"instance": "instance1", "opcode": "1/0", "event": "stopped"})
    assert checker.check(lab) == ["instance1 was stopped on node3, where it did not run"]


def test_an_instance_that_shall_be_down_and_runs_is_found(lab: world.Lab) -> None:
    before = cluster(lab)
    change = changes.InstanceState(before.instance("instance1").uuid, "down")
    store.write(tree.Tree(lab.controller).config, changes.apply(before, change, now=1.0))
    assert len(checker.check(lab)) == 2


def test_an_opcode_that_ran_twice_is_found(lab: world.Lab) -> None:
    migrate(lab)
    migrate(lab, "node3", "node2")
    done(lab, "migrate")
    assert checker.check(lab) == [
        "opcode 1/0 (migrate instance1): 2 times handed over",
        "opcode 1/0 (migrate instance1): 2 times received",
    ]


def test_an_opcode_that_claims_what_never_happened_is_found(lab: world.Lab) -> None:
    done(lab, "migrate")
    assert len(checker.check(lab)) == 2


def lost(stated: float, *, seconds: float = 12) -> str:
    """What is found of 60 writes that were lost, where so many seconds of them were stated."""
    return (
        f"instance1 lost 60 acknowledged writes ({seconds:g} s): it started on node3 with write 40, and 100 was "
        f"acknowledged before (opcode 1/0); only the loss of {stated:g} s was stated"
    )


def test_a_start_on_all_acknowledged_writes_is_in_order(lab: world.Lab) -> None:
    fail_over(lab, acknowledged=100, read=100)
    ordered(lab, "failover", source="node2", target="node3")
    assert checker.check(lab) == []


def test_acknowledged_writes_lost_to_a_start_on_a_stale_replica_are_found(lab: world.Lab) -> None:
    fail_over(lab, acknowledged=100, read=40)
    ordered(lab, "failover", source="node2", target="node3")
    assert checker.check(lab) == [lost(0)]
    assert checker.check_journals(lab) == []
    note(lab, "node3", "stopped", counter=40)
    note(lab, "node3", "started", "2/0", counter=40)
    assert lost(0) in checker.check(lab), "it was lost, whatever came later"


def test_a_loss_that_a_person_accepted_is_none(lab: world.Lab) -> None:
    fail_over(lab, acknowledged=100, read=40)
    ordered(lab, "failover", source="node2", target="node3", ignore_consistency=True)
    assert checker.check(lab) == []
    note(lab, "node3", "stopped", "2/0", counter=50)
    note(lab, "node3", "started", "2/0", counter=45)
    (wrong,) = checker.check(lab)
    assert wrong.startswith("instance1 lost 5 acknowledged writes (1 s)")


@pytest.mark.parametrize(("stated", "wrong"), [(30, []), (2, [lost(2, seconds=30)]), (None, [lost(0, seconds=30)])])
def test_a_loss_is_measured_by_what_the_opcode_said(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, stated: float | None, wrong: list[str]
) -> None:
    monkeypatch.setattr(simulated_world, "WRITES_PER_SECOND", 2.0)
    fail_over(lab, acknowledged=100, read=40)
    result = {"possible_loss": {"seconds": stated, "last_in_sync": 1.0, "ignored": False}}
    ordered(lab, "failover", source="node2", target="node3", result=result)
    assert checker.check(lab) == wrong


def test_the_removal_of_the_newest_replica_is_found(lab: world.Lab) -> None:
    note(lab, "node4", "replica created")
    ordered(lab, "replace_disks", old="node4", new="node4")
    note(lab, "node4", "replica removed", counter=90, newest=90)
    assert checker.check_journals(lab) == []
    note(lab, "node3", "replica removed", counter=100, newest=90)
    wrong = (
        "the newest replica of instance1 was removed on node3: it had write 100, and no other had more than 90 "
        "(opcode 1/0)"
    )
    assert wrong in checker.check(lab)
    ordered(lab, "recreate_disks")
    assert not any("newest replica" in one for one in checker.check(lab))


def test_a_resync_over_writes_that_no_other_replica_has_is_found(lab: world.Lab) -> None:
    note(lab, "node2", "overwritten", "", counter=100, newest=90)
    (wrong,) = checker.check(lab)
    assert wrong.startswith("the newest replica of instance1 was overwritten by a resync on node2: it had write 100")
    ordered(lab, "repair_disks", discard="node2")
    assert checker.check(lab) == []


def test_whoever_ignored_consistency_has_not_discarded_the_disk_with_the_newer_writes(lab: world.Lab) -> None:
    fail_over(lab, acknowledged=100, read=40)
    ordered(lab, "failover", source="node2", target="node3", ignore_consistency=True)
    assert checker.check(lab) == []
    note(lab, "node2", "overwritten", "", counter=100, newest=41)
    assert len(checker.check(lab)) == 1
    ordered(lab, "repair_disks", number=2, discard="node2")
    assert checker.check(lab) == []


@pytest.mark.parametrize(
    ("stated", "wrong"),
    [
        ({"seconds": 12.0}, 0),
        ({"seconds": 2.0}, 1),
        ({"seconds": 12.0, "target": "node4"}, 1),
        ({"seconds": 12.0, "accepted": 6}, 1),
        ({"seconds": None, "is_ignored": True}, 0),
        (None, 1),
    ],
)
def test_a_loss_by_a_play_by_hand_is_measured_by_what_it_stated(
    lab: world.Lab, stated: dict[str, Any] | None, wrong: int
) -> None:
    if stated is not None:
        names = {"instance": "instance1", "source": "node2", "target": "node3"}
        line = audit_lines.failover("record user=root uid=0 play=play-1-2", by="root", **{**names, **stated})
        log_output.append_audit(tree.Tree(lab.controller), [line])
    fail_over(lab, acknowledged=100, read=60)
    journal = lab.node("node3").root / fake.JOURNAL
    journal.write_text(journal.read_text().replace('"opcode": "1/0"', '"opcode": "by hand"'))
    assert len([one for one in checker.check(lab) if "acknowledged writes" in one]) == wrong


def test_a_second_copy_that_a_node_starts_by_itself_is_found_only_if_the_node_is_brought_online(lab: world.Lab) -> None:
    note(lab, "node3", "started", journals.BY_ITSELF, counter=3)
    assert opcode_rules.returned(journals.read(lab), orders.Orders({})) == []
    assert checker.check_journals(lab) == []
    ordered(lab, "node_role", node="node3", offline=False)
    (job,) = job_store.Store(tree.Tree(lab.controller).queue).load().values()
    later = dataclasses.replace(job.opcodes[0], started=time.time() + 10, ended=time.time() + 11)
    names = {cluster(lab).node("node3").uuid: "node3"}
    made = orders.Orders({"1/0": later}, names, clock_offset=time.time() - time.monotonic())
    wrong = "node3 was brought online while it ran a second copy of instance1"
    assert opcode_rules.returned(journals.read(lab), made) == [wrong]


def test_a_migration_that_goes_on_at_its_source_after_the_hand_over_is_found(lab: world.Lab) -> None:
    note(lab, "node2", "handed over", counter=3)
    note(lab, "node3", "received", counter=3)
    note(lab, "node3", "stopped", counter=3, why="reboot")
    note(lab, "node2", "resumed", counter=3)
    assert "instance1 was resumed on node2 after it had been handed over (opcode 1/0)" in checker.check(lab)


POWERED_OFF = "node4 was powered off while it ran instance7: no policy and nobody's force says so"


@pytest.mark.parametrize(
    ("order", "wrong"),
    [
        ({"kind": "power", "node": "node4", "command": "off"}, [POWERED_OFF]),
        ({"kind": "power", "node": "node3", "command": "off", "force": True}, [POWERED_OFF]),
        ({"kind": "power", "node": "node4", "command": "off", "force": True}, []),
        ({"kind": "power", "node": "node4", "command": "fence"}, []),
        ({"kind": "failover", "source": "node4", "target": "node3"}, []),
        ({"kind": "failover", "source": "node2", "target": "node3"}, [POWERED_OFF]),
    ],
)
def test_a_node_that_ran_instances_and_was_powered_off_needs_an_order(
    lab: world.Lab, order: dict[str, Any], wrong: list[str]
) -> None:
    event = {"event": "powered off", "ran": ["instance7"], "opcode": ""}
    fake.append(lab.node("node3").root, {**event, "by": "lab"})
    fake.append(lab.node("node3").root, {**event, "by": "bmc", "ran": []})
    fake.append(lab.node("node4").root, {**event, "by": "bmc"})
    ordered(lab, order["kind"], **{key: value for key, value in order.items() if key != "kind"})
    assert checker.check(lab) == wrong


def test_an_order_for_power_that_is_long_over_excuses_nothing(lab: world.Lab) -> None:
    ordered(lab, "power", node="node4", command="off", force=True)
    jobs = job_store.Store(tree.Tree(lab.controller).queue)
    (job,) = jobs.load().values()
    over = dataclasses.replace(job.opcodes[0], started=1.0, ended=2.0)
    jobs.save(dataclasses.replace(job, opcodes=(over,)))
    fake.append(lab.node("node4").root, {"event": "powered off", "ran": ["instance7"], "by": "bmc"})
    assert checker.check(lab) == [POWERED_OFF]


def test_what_a_node_did_a_moment_ago_is_not_judged_while_the_lab_is_at_work(lab: world.Lab) -> None:
    note(lab, "node3", "received", counter=1)
    assert checker.check_journals(lab) == []
    late = {"ns": time.monotonic_ns() - 60 * 10**9, "instance": "instance2", "opcode": "", "event": "stopped"}
    fake.append(lab.node("node3").root, late)
    assert checker.check_journals(lab) == ["instance2 was stopped on node3, where it did not run"]


def test_jobs_in_the_archive_did_what_they_did(lab: world.Lab) -> None:
    migrate(lab)
    stands(lab, "node3", "node2")
    (lab.node("node2").root / "lab/repairs").write_text("repaired\n")
    done(lab, "migrate")
    done(lab, "repair_command", number=2, node=cluster(lab).node("node2").uuid)
    jobs = job_store.Store(tree.Tree(lab.controller).queue)
    jobs.archive.take_in([1, 2], on_moved=lambda _: None)
    assert checker.check(lab) == []
    (lab.node("node2").root / "lab/repairs").write_text("repaired\nrepaired\n")
    assert checker.check(lab) == ["the repair command ran 2 times on node2, and 1 jobs say so"]


def test_a_migration_that_had_nothing_to_do_is_in_order(lab: world.Lab) -> None:
    migrate(lab)
    stands(lab, "node3", "node2")
    done(lab, "migrate")
    # An earlier configuration was imported, and the same move planned once more.
    ordered(lab, "migrate", number=2, source="node2", target="node3")
    assert checker.check(lab) == []
    ordered(lab, "migrate", number=3, source="node3", target="node4")
    assert checker.check(lab) == [
        "opcode 3/0 (migrate instance1): 0 times handed over",
        "opcode 3/0 (migrate instance1): 0 times received",
    ]


def test_a_migration_of_an_instance_that_was_stopped_meanwhile_hands_nothing_over(lab: world.Lab) -> None:
    """Its user stopped it after the move was planned: the migration moved its disks."""
    driver(lab, "node2", "9/0").stop("instance1", time_limit=0)
    stands(lab, "node3", "node2")
    time.sleep(0.6)
    ordered(lab, "migrate", source="node2", target="node3")

    assert [sentence for sentence in checker.check(lab) if "handed over" in sentence or "received" in sentence] == []


def explained(**fields: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("silent", "epo", "incidents", "refusals", "planned", "failing"))
    return {**nothing, **fields}


def test_an_instance_that_is_down_needs_a_reason_that_is_shown(lab: world.Lab) -> None:
    lab.node("node2").set_power(False)
    wrong = checker.check(lab, explain=lambda _: explained())
    assert wrong == [
        "instance1 runs on [], and the configuration says ['node2']",
        "instance1 runs on [] in truth",
    ]
    bare = explained(node={"unreachable": {"text": "no route to host"}})
    assert checker.check(lab, explain=lambda _: bare) == wrong, "that it did not answer is no reason"
    reasons: list[dict[str, Any]] = [
        explained(silent={"reason": "its agent has not answered"}),
        explained(by_hand="power it off"),
        explained(failovers=["it cannot fail over"]),
        explained(unheard={"text": "its reports are rejected"}),
    ]
    assert [checker.check(lab, explain=lambda _, told=told: told) for told in reasons] == [[]] * 4  # type: ignore[misc]
    lab.node("node2").set_power(True)
    assert checker.check(lab, explain=lambda _: explained(silent={"reason": "it has not answered"})) == wrong
    ordered(lab, "startup", text="no memory")
    assert checker.check(lab) == wrong, "it succeeded"
    fail_last(lab)
    assert checker.check(lab) == []


def fail_last(lab: world.Lab) -> None:
    jobs = job_store.Store(tree.Tree(lab.controller).queue)
    (job,) = jobs.load().values()
    jobs.save(dataclasses.replace(job, opcodes=(dataclasses.replace(job.opcodes[0], status=values.Status.ERROR),)))


def test_an_open_incident_needs_a_reason_that_is_shown(lab: world.Lab) -> None:
    before = cluster(lab)
    maintenance = dataclasses.replace(before.maintenance, incidents=(noted(lab),))
    store.write(tree.Tree(lab.controller).config, dataclasses.replace(before, maintenance=maintenance))
    shown = {"incidents": ["itself"]}
    assert checker.check(lab, explain=lambda _: explained(**shown)) == [
        f"incident {UUID} is noted, and nothing explains it"
    ]
    assert checker.check(lab, explain=lambda _: explained(**shown, refusals=["no room"])) == []


def test_a_replica_too_many_and_a_replica_too_few_are_found(lab: world.Lab) -> None:
    extra = simulated.Replicas(lab.node("node4").root, opcode="x")
    extra.create("instance1", [1])
    assert checker.check(lab) == ["instance1 has replicas on ['node2', 'node3', 'node4'] in truth"]
    extra.remove("instance1")
    replicas.remove(lab, "node3", "instance1", cluster(lab).instance("instance1").uuid)
    assert checker.check(lab) == ["instance1 has replicas on ['node2'] in truth"]


def test_what_is_unfinished_may_lack_copies_and_has_none_elsewhere(lab: world.Lab) -> None:
    where, before = tree.Tree(lab.controller), cluster(lab)
    one = before.instance("instance1")
    stated: list[changes.Change] = [
        changes.InstanceState(one.uuid, "down"),
        tagging.Tagged("instance", one.uuid, clusters.UNFINISHED, present=True),
    ]
    lab.node("node2").set_power(False)
    lab.node("node2").set_power(True)
    replicas.remove(lab, "node3", "instance1", cluster(lab).instance("instance1").uuid)
    assert "instance1 has replicas on ['node2'] in truth" in checker.check(lab)
    store.write(where.config, changes.apply_all(before, stated, now=1.0))
    assert "instance1 has replicas on ['node2'] in truth" not in checker.check(lab)
    simulated.Replicas(lab.node("node4").root, opcode="x").create("instance1", [1])
    assert "instance1 has replicas on ['node2', 'node4'] in truth" in checker.check(lab)


def test_what_a_silent_node_still_keeps_is_no_copy_too_many(lab: world.Lab) -> None:
    simulated.Replicas(lab.node("node4").root, opcode="x").create("instance1", [1])
    lab.node("node4").cut(is_cut=True)
    assert checker.check(lab) == []


def test_a_doubled_tag_is_found(lab: world.Lab) -> None:
    before = cluster(lab)
    node = dataclasses.replace(before.node("node2"), tags=("a", "b", "a"))
    store.write(tree.Tree(lab.controller).config, dataclasses.replace(before, nodes={**before.nodes, node.uuid: node}))
    assert checker.check(lab) == ["node2 has the tag a more than once"]


def test_a_repair_that_ran_more_often_than_jobs_say_is_found(lab: world.Lab) -> None:
    repairs = lab.node("node2").root / "lab/repairs"
    repairs.write_text("repaired\n")
    done(lab, "repair_command", node=cluster(lab).node("node2").uuid)
    assert checker.check(lab) == []
    repairs.write_text("repaired\nrepaired\n")
    assert checker.check(lab) == ["the repair command ran 2 times on node2, and 1 jobs say so"]


def test_an_instance_that_runs_and_is_not_in_the_configuration_is_found(lab: world.Lab) -> None:
    before = cluster(lab)
    store.write(tree.Tree(lab.controller).config, dataclasses.replace(before, instances={}))
    assert checker.check(lab) == ["instance1 runs on ['node2'], and is not in the configuration"]


def test_a_failed_opcode_that_did_something_twice_is_found(lab: world.Lab) -> None:
    for _ in range(2):
        driver(lab, "node2").stop("instance1", time_limit=0)
        driver(lab, "node2").start("instance1", {})
    opcode = values.Opcode("failover", {}, status=values.Status.ERROR, run="0", started=1.0)
    job_store.Store(tree.Tree(lab.controller).queue).save(values.Job(id=1, opcodes=(opcode,), ended=1.0))
    assert checker.check(lab) == [
        "opcode 1/0: instance1 was 2 times stopped on node2",
        "opcode 1/0: instance1 was 2 times started on node2",
    ]


UUID = "3f2a91c0-0000-4000-8000-000000000000"


def noted(lab: world.Lab) -> incidents.Incident:
    report = diagnosis.parse('{"status": "evacuate"}')
    return incidents.note(report, node=cluster(lab).node("node2").uuid, uuid=UUID, now=1.0)


@pytest.mark.parametrize(
    ("stands", "tag", "wrong"),
    [
        (lambda one: one, "", []),
        (lambda one: one, f"maintd:repairready:{UUID}", ["incident {} is noted, and its node has its tag"]),
        (lambda one: dataclasses.replace(one, jobs=(1,)), "", ["incident {} is noted, and has jobs"]),
        (lambda one: incidents.submit(one, [1], now=2.0), "", []),
        (lambda one: incidents.submit(one, [], now=2.0), "", ["incident {} is pending, and has no jobs"]),
        (
            lambda one: incidents.cancel(one, now=2.0),
            f"maintd:repairready:{UUID}",
            ["incident {} is canceled, and its node has its tag"],
        ),
        (lambda one: incidents.complete(one, now=2.0), f"maintd:repairready:{UUID}", []),
        (lambda one: incidents.complete(one, now=2.0), "", []),
        (
            lambda one: dataclasses.replace(one, node="gone"),
            "",
            ["incident {} is noted, and its node is not in the configuration"],
        ),
        (
            None,
            f"maintd:repairfailed:{UUID}",
            [f"node2 has the tag maintd:repairfailed:{UUID} of an incident that is not there"],
        ),
        (None, "maintd", []),
    ],
)
def test_an_incident_that_does_not_fit_the_table_is_found(
    lab: world.Lab, stands: Callable[[incidents.Incident], incidents.Incident] | None, tag: str, wrong: list[str]
) -> None:
    before = cluster(lab)
    node = dataclasses.replace(before.node("node2"), tags=(tag,) if tag else ())
    found = () if stands is None else (stands(noted(lab)),)
    after = dataclasses.replace(
        before,
        nodes={**before.nodes, node.uuid: node},
        maintenance=dataclasses.replace(before.maintenance, incidents=found),
    )
    store.write(tree.Tree(lab.controller).config, after)
    assert checker.check(lab) == [one.format(UUID) for one in wrong]


def held(lab: world.Lab, owner: str, livelock: str = "") -> None:
    row = {"owner": owner, "livelock": livelock, "purpose": "", "since": 1.0, "locks": {"node/n1": "exclusive"}}
    tree.Tree(lab.controller).locks.write_bytes(sealed_json.seal(json.dumps({"held": [row]}).encode()))


def test_a_lock_of_a_job_that_has_ended_is_found(lab: world.Lab) -> None:
    held(lab, "job 1")
    done(lab, "test_delay", duration="0")
    assert checker.check(lab) == ["node/n1 is held by job 1, which has ended"]
    opcode = values.Opcode("test_delay", {"duration": 0}, status=values.Status.RUNNING)
    job_store.Store(tree.Tree(lab.controller).queue).save(values.Job(id=1, opcodes=(opcode,)))
    assert checker.check(lab) == []


def test_a_lock_of_a_process_that_has_ended_is_found(lab: world.Lab, tmp_path: Path) -> None:
    livelock = tmp_path / "livelock"
    held(lab, "a play by hand", str(livelock))
    with livelock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert checker.check(lab) == []
    assert checker.check(lab) == ["node/n1 is held by a play by hand, which has ended"]
