from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import lifecycle
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.unit import small_cluster

S = incidents.RepairStatus
BAD = diagnosis.parse('{"status": "evacuate", "details": {"a": 1, "b": 2}}')
SAME = diagnosis.parse('{"details": {"b": 2, "a": 1}, "status": "evacuate"}')
OTHER = diagnosis.parse('{"status": "evacuate", "details": "fan"}')
NOTED = incidents.note(BAD, node="n3", uuid="u1", now=1.0)
PENDING = incidents.submit(NOTED, [4, 5], now=2.0)
BACK = "its node answers again"
RUNNING = {4: lifecycle.JobOutcome(succeeded=True), 5: lifecycle.JobOutcome(succeeded=None)}


def holding(*known: incidents.Incident, tags: tuple[str, ...] = (), offline: bool = False) -> clusters.Cluster:
    cluster = small_cluster.make()
    node = dataclasses.replace(cluster.nodes["n3"], tags=tags, offline=offline)
    cluster = dataclasses.replace(cluster, maintenance=clusters.Maintenance(incidents=known))
    return clusters.with_node(cluster, node)


def after(
    cluster: clusters.Cluster,
    said: diagnosis.Diagnosis | None = None,
    jobs: dict[int, lifecycle.JobOutcome] | None = None,
) -> clusters.Cluster:
    observed = {} if said is None else {"n3": said}
    stated = lifecycle.reconcile(cluster, observed=observed, jobs=jobs or {}, now=9.0, new_uuid=lambda: "new")
    return changes.apply_all(cluster, stated, now=9.0)


def statuses(cluster: clusters.Cluster) -> list[tuple[str, S]]:
    return [(one.uuid, one.repair_status) for one in cluster.maintenance.incidents]


def test_a_report_that_is_not_ok_and_that_nobody_holds_is_noted() -> None:
    assert statuses(after(holding(), BAD)) == [("new", S.NOTED)]


def test_an_ok_report_is_no_incident() -> None:
    assert statuses(after(holding(), diagnosis.OK)) == []


def test_the_same_value_in_another_order_of_keys_is_the_same_event() -> None:
    assert statuses(after(holding(NOTED), SAME)) == [("u1", S.NOTED)]


def test_the_same_value_on_another_node_is_another_event() -> None:
    elsewhere = dataclasses.replace(NOTED, node="n2")
    stated = lifecycle.reconcile(
        holding(elsewhere), observed={"n2": BAD, "n3": BAD}, jobs={}, now=9.0, new_uuid=lambda: "new"
    )
    assert [one.incident.node for one in stated if isinstance(one, changes.IncidentStands)] == ["n3"]


def test_a_noted_incident_is_forgotten_when_a_report_says_something_else() -> None:
    assert statuses(after(holding(NOTED), diagnosis.OK)) == []


@pytest.mark.parametrize(
    "one",
    [NOTED, incidents.cancel(NOTED, now=3.0), incidents.complete(PENDING, now=3.0)],
    ids=["noted", "canceled", "acknowledged"],
)
def test_a_missing_report_is_no_sign_that_an_incident_is_over(one: incidents.Incident) -> None:
    assert statuses(after(holding(one))) == [("u1", one.repair_status)]


def test_another_value_replaces_a_noted_incident() -> None:
    assert statuses(after(holding(NOTED), OTHER)) == [("new", S.NOTED)]


@pytest.mark.parametrize("said", [BAD, diagnosis.OK, None])
def test_a_pending_incident_runs_to_its_end_whatever_the_node_says(said: diagnosis.Diagnosis | None) -> None:
    assert statuses(after(holding(PENDING), said, RUNNING)) == [("u1", S.PENDING)]


def test_another_value_beside_a_pending_incident_is_noted_too() -> None:
    assert statuses(after(holding(PENDING), OTHER, RUNNING)) == [("u1", S.PENDING), ("new", S.NOTED)]


def test_a_failed_job_fails_its_incident_and_tags_the_node() -> None:
    jobs = {**RUNNING, 5: lifecycle.JobOutcome(succeeded=False, text="no route")}
    found = after(holding(PENDING), diagnosis.OK, jobs)
    assert statuses(found) == [("u1", S.FAILED)]
    assert found.maintenance.incidents[0].reason == "job 5: no route"
    assert found.nodes["n3"].tags == ("maintd:repairfailed:u1",)


def test_a_job_that_the_queue_does_not_know_counts_as_failed() -> None:
    found = after(holding(PENDING), BAD, {4: RUNNING[4]})
    assert statuses(found) == [("u1", S.FAILED)]
    assert "job 5: it is not on this controller" in found.maintenance.incidents[0].reason


def test_the_failed_job_of_a_canceled_incident_changes_nothing() -> None:
    jobs = {4: lifecycle.JobOutcome(succeeded=False)}
    assert statuses(after(holding(incidents.cancel(PENDING, now=3.0)), BAD, jobs)) == [("u1", S.CANCELED)]


def test_a_canceled_incident_is_kept_until_it_is_no_longer_observed() -> None:
    canceled = holding(incidents.cancel(NOTED, now=3.0))
    assert statuses(after(canceled, SAME)) == [("u1", S.CANCELED)]
    assert statuses(after(canceled, diagnosis.OK)) == []


def test_a_completed_incident_is_forgotten_without_its_tag_and_no_longer_observed() -> None:
    one = incidents.complete(PENDING, now=3.0)
    assert statuses(after(holding(one, tags=(one.tag,)), diagnosis.OK)) == [("u1", S.COMPLETED)]
    assert statuses(after(holding(one), BAD)) == [("u1", S.COMPLETED)]
    assert statuses(after(holding(one), diagnosis.OK)) == []


def test_a_completed_incident_whose_node_is_offline_is_not_observed() -> None:
    one = incidents.complete(PENDING, now=3.0)
    assert statuses(after(holding(one, offline=True, tags=(one.tag,)), BAD)) == [("u1", S.COMPLETED)]
    assert statuses(after(holding(one, offline=True), BAD)) == []


def test_a_failed_incident_without_its_tag_is_forgotten_at_once_and_the_flow_starts_anew() -> None:
    one = incidents.fail(PENDING, "why", now=3.0)
    assert statuses(after(holding(one, tags=(one.tag,)), BAD)) == [("u1", S.FAILED)]
    assert statuses(after(holding(one, tags=(one.tag,)), diagnosis.OK)) == [("u1", S.FAILED)]
    assert statuses(after(holding(one), diagnosis.OK)) == []
    assert statuses(after(holding(one), BAD)) == [("new", S.NOTED)]


def test_the_ready_tag_does_not_keep_a_failed_incident() -> None:
    one = incidents.fail(PENDING, "why", now=3.0)
    assert statuses(after(holding(one, tags=("maintd:repairready:u1",)), diagnosis.OK)) == []


@pytest.mark.parametrize(
    "one", [NOTED, PENDING, incidents.fail(PENDING, "", now=3.0), incidents.cancel(NOTED, now=3.0)]
)
def test_every_incident_of_a_node_that_left_is_forgotten(one: incidents.Incident) -> None:
    cluster = holding(dataclasses.replace(one, node="gone"))
    stated = lifecycle.reconcile(cluster, observed={"gone": BAD}, jobs={}, now=9.0, new_uuid=lambda: "new")
    assert stated == [changes.IncidentForgotten("u1")]


def test_an_offline_node_is_not_observed() -> None:
    assert statuses(after(holding(offline=True), BAD)) == []
    assert statuses(after(holding(NOTED, offline=True), BAD)) == []
    assert statuses(after(holding(NOTED, offline=True))) == []


def dead(
    cluster: clusters.Cluster, said: diagnosis.Diagnosis | None, *, is_dead: bool, is_alive: bool = False
) -> clusters.Cluster:
    """What becomes of the incidents where n3 last said something, and then fell silent."""
    stated = lifecycle.reconcile(
        cluster,
        observed={} if said is None else {"n3": said},
        dead={"n3": dead_nodes.report(cluster.nodes["n3"])} if is_dead else {},
        returned={one.uuid for one in cluster.maintenance.incidents} if is_alive else frozenset(),
        jobs=RUNNING,
        now=9.0,
        new_uuid=lambda: "new",
    )
    return changes.apply_all(cluster, stated, now=9.0)


def noted_dead() -> incidents.Incident:
    return incidents.note(dead_nodes.report(holding().nodes["n3"]), node="n3", uuid="u2", now=1.0)


def test_a_dead_node_report_stands_beside_the_node_s_own() -> None:
    canceled = incidents.cancel(NOTED, now=3.0)
    both = holding(canceled, noted_dead())
    assert statuses(dead(both, BAD, is_dead=True)) == [("u1", S.CANCELED), ("u2", S.NOTED)]
    assert statuses(dead(both, BAD, is_dead=False, is_alive=True)) == [("u1", S.CANCELED)]


def test_a_dead_node_incident_ends_when_the_node_answers_and_not_because_nobody_asked_yet() -> None:
    canceled = holding(incidents.cancel(noted_dead(), now=3.0))
    assert statuses(dead(canceled, BAD, is_dead=True)) == [("u2", S.CANCELED), ("new", S.NOTED)]
    assert statuses(dead(canceled, diagnosis.OK, is_dead=False)) == [("u2", S.CANCELED)]
    assert statuses(dead(canceled, diagnosis.OK, is_dead=False, is_alive=True)) == []


def test_a_report_in_the_form_of_a_dead_node_report_is_noted_once() -> None:
    said = dead_nodes.report(holding().nodes["n3"])
    for known in (noted_dead(), incidents.submit(noted_dead(), [4], now=2.0)):
        after_all = dead(holding(known), said, is_dead=False, is_alive=True)
        assert after_all.maintenance.incidents == (known,), "it says so itself: it has not come back"


@pytest.mark.parametrize(
    "known",
    [
        incidents.submit(noted_dead(), [4], now=2.0),
        incidents.complete(incidents.submit(noted_dead(), [4], now=2.0), now=3.0),
        incidents.fail(incidents.submit(noted_dead(), [4], now=2.0), "why", now=3.0),
    ],
    ids=lambda one: one.repair_status.value,
)
def test_a_dead_node_that_answers_again_has_come_back_once_and_its_next_death_is_another_incident(
    known: incidents.Incident,
) -> None:
    tagged = holding(known, tags=(known.tag,))
    still = dead(tagged, None, is_dead=True)
    assert still.maintenance.incidents == (known,), "silence is no return"
    back = dead(tagged, diagnosis.OK, is_dead=False, is_alive=True)
    (one,) = back.maintenance.incidents
    assert (one.returned_at, one.repair_status, one.reason) == (9.0, known.repair_status, known.reason or BACK)
    assert dead(back, diagnosis.OK, is_dead=False, is_alive=True).maintenance.incidents == (one,)
    assert dead_nodes.observed(back, {"n3": dead_nodes.Silence(1, 9.0)}) == {}, "a missed question is no death"
    assert statuses(dead(back, None, is_dead=True)) == [("u2", known.repair_status), ("new", S.NOTED)]


def test_a_completed_or_failed_incident_is_canceled_with_its_tag_and_nothing_further_happens() -> None:
    for one in (incidents.complete(PENDING, now=3.0), incidents.fail(PENDING, "why", now=3.0)):
        cluster = holding(one, tags=("other", one.tag))
        found = changes.apply_all(cluster, lifecycle.cancel(cluster, "u1", now=4.0), now=4.0)
        assert (statuses(found), found.nodes["n3"].tags) == ([("u1", S.CANCELED)], ("other",))
        assert statuses(after(found, SAME)) == [("u1", S.CANCELED)]
        assert statuses(after(found)) == [("u1", S.CANCELED)]
        assert statuses(after(found, diagnosis.OK)) == []


def test_an_open_incident_is_canceled_and_a_canceled_one_only_once() -> None:
    for one in (NOTED, PENDING):
        stated = lifecycle.cancel(holding(one), "u1", now=4.0)
        assert statuses(changes.apply_all(holding(one), stated, now=4.0)) == [("u1", S.CANCELED)]
    with pytest.raises(errors.Refused, match="canceled already"):
        lifecycle.cancel(holding(incidents.cancel(NOTED, now=3.0)), "u1", now=4.0)


def test_an_incident_finishes_together_with_its_tag() -> None:
    one = incidents.complete(PENDING, now=3.0)
    found = changes.apply_all(holding(PENDING), lifecycle.finish(holding(PENDING), one), now=9.0)
    assert (statuses(found), found.nodes["n3"].tags) == ([("u1", S.COMPLETED)], ("maintd:repairready:u1",))
    gone = dataclasses.replace(one, node="gone")
    assert lifecycle.finish(holding(), gone) == [changes.IncidentStands(gone)]


def test_acknowledging_takes_the_tag_once() -> None:
    one = incidents.fail(PENDING, "why", now=3.0)
    cluster = holding(one, tags=(one.tag,))
    found = changes.apply_all(cluster, lifecycle.acknowledge(cluster, "u1"), now=9.0)
    assert found.nodes["n3"].tags == ()
    with pytest.raises(errors.Refused, match="already"):
        lifecycle.acknowledge(found, "u1")


@pytest.mark.parametrize("one", [NOTED, PENDING, incidents.cancel(NOTED, now=3.0)])
def test_only_a_finished_incident_is_acknowledged(one: incidents.Incident) -> None:
    with pytest.raises(errors.Refused, match=one.repair_status.value):
        lifecycle.acknowledge(holding(one), "u1")
