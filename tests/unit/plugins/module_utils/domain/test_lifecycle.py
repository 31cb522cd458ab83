from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import (
    changes,
    diagnosis,
    errors,
    incidents,
    lifecycle,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters

from tests.unit import small_cluster

S = incidents.RepairStatus
BAD = diagnosis.parse('{"status": "evacuate", "details": {"a": 1, "b": 2}}')
SAME = diagnosis.parse('{"details": {"b": 2, "a": 1}, "status": "evacuate"}')
OTHER = diagnosis.parse('{"status": "evacuate", "details": "fan"}')
NOTED = incidents.note(BAD, node="n3", uuid="u1", now=1.0)
PENDING = incidents.submit(NOTED, [4, 5], now=2.0)
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


@pytest.mark.parametrize("said", [diagnosis.OK, None], ids=["ok", "not observed"])
def test_a_noted_incident_is_forgotten_when_it_is_no_longer_observed(said: diagnosis.Diagnosis | None) -> None:
    assert statuses(after(holding(NOTED), said)) == []


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
    assert "job 5: it is not in the queue any more" in found.maintenance.incidents[0].reason


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
    assert statuses(after(holding(one, tags=("maintd:repairready:u1",)))) == []


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
