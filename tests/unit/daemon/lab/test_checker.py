from __future__ import annotations

import dataclasses
import fcntl
import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import store as job_store
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import checker
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, diagnosis, incidents, tree
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import fake
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import simulated
from ansible_collections.roundsman.cluster.plugins.plugin_utils import sealed_json
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins

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


def done(lab: world.Lab, kind: str, **params: str) -> None:
    """A job whose only opcode has succeeded."""
    params = params or {"instance": cluster(lab).instance("instance1").uuid}
    opcode = values.Opcode(kind, params, status=values.Status.SUCCESS, run="0")
    job_store.Store(tree.Tree(lab.controller).queue).save(values.Job(id=1, opcodes=(opcode,), ended=1.0))


def migrate(lab: world.Lab) -> None:
    driver(lab, "node2").migrate("instance1", str(lab.node("node3").wire), hvparams={})


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
    driver(lab, "node3").migrate("instance1", str(lab.node("node2").wire), hvparams={})
    done(lab, "migrate")
    assert checker.check(lab) == [
        "opcode 1/0 (migrate instance1): 2 times handed over",
        "opcode 1/0 (migrate instance1): 2 times received",
    ]


def test_an_opcode_that_claims_what_never_happened_is_found(lab: world.Lab) -> None:
    done(lab, "migrate")
    assert len(checker.check(lab)) == 2


def test_a_copy_too_many_and_a_copy_too_few_are_found(lab: world.Lab) -> None:
    copies = simulated.Copies(lab.node("node4").root, opcode="x")
    copies.create("instance1", [1])
    assert checker.check(lab) == ["instance1 has copies on ['node2', 'node3', 'node4'] in truth"]
    copies.remove("instance1")
    simulated.Copies(lab.node("node3").root, opcode="x").remove("instance1")
    assert checker.check(lab) == ["instance1 has copies on ['node2'] in truth"]


def test_what_is_unfinished_may_lack_copies_and_has_none_elsewhere(lab: world.Lab) -> None:
    where, before = tree.Tree(lab.controller), cluster(lab)
    one = before.instance("instance1")
    stated: list[changes.Change] = [
        changes.InstanceState(one.uuid, "down"),
        changes.Tagged("instance", one.uuid, clusters.UNFINISHED, present=True),
    ]
    lab.node("node2").set_power(False)
    lab.node("node2").set_power(True)
    simulated.Copies(lab.node("node3").root, opcode="x").remove("instance1")
    assert "instance1 has copies on ['node2'] in truth" in checker.check(lab)
    store.write(where.config, changes.apply_all(before, stated, now=1.0))
    assert "instance1 has copies on ['node2'] in truth" not in checker.check(lab)
    simulated.Copies(lab.node("node4").root, opcode="x").create("instance1", [1])
    assert "instance1 has copies on ['node2', 'node4'] in truth" in checker.check(lab)


def test_what_a_silent_node_still_keeps_is_no_copy_too_many(lab: world.Lab) -> None:
    simulated.Copies(lab.node("node4").root, opcode="x").create("instance1", [1])
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
