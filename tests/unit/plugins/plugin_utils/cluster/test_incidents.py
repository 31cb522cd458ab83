from __future__ import annotations

from typing import Callable

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents

S = incidents.RepairStatus
NOTED = incidents.note(
    diagnosis.parse('{"status": "evacuate", "details": {"a": 1, "b": 2}}'), node="n", uuid="u", now=1
)
PENDING = incidents.submit(NOTED, [4], now=2)
ENDED = [
    incidents.complete(PENDING, now=3),
    incidents.fail(PENDING, "why", now=3),
    incidents.cancel(PENDING, now=3),
]


def test_a_noted_incident_holds_what_the_node_said() -> None:
    assert (NOTED.action, NOTED.repair_status, NOTED.jobs) == (diagnosis.Status.EVACUATE, S.NOTED, ())
    assert (NOTED.tag, NOTED.ctime, NOTED.serial_no) == ("maintd:repairready:u", 1, 1)


def test_the_command_of_a_live_repair_is_kept() -> None:
    report = diagnosis.parse('{"status": "live-repair", "command": "fan"}')
    assert incidents.note(report, node="n", uuid="u", now=1).command == "fan"


def test_equal_values_in_another_order_of_keys_are_the_same_event() -> None:
    assert incidents.holds(NOTED, diagnosis.parse('{"details":{"b":2,"a":1.0},"status":"evacuate"}'))
    assert not incidents.holds(NOTED, diagnosis.parse('{"details":{"b":2,"a":3},"status":"evacuate"}'))


def test_the_text_of_an_incident_is_read_once_however_often_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    parse = diagnosis.parse

    def reading(text: str) -> diagnosis.Diagnosis:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(diagnosis, "parse", reading)
    said = '{"status": "evacuate", "details": "compared often"}'
    noted = incidents.note(parse(said), node="n", uuid="u", now=1)
    assert all(incidents.holds(each, parse(said)) for each in (noted, noted, incidents.submit(noted, [1], now=2)))
    assert read == [noted.original]


def test_jobs_make_it_pending_and_are_added_up() -> None:
    more = incidents.submit(PENDING, [5, 6], now=3)
    assert (PENDING.repair_status, PENDING.jobs, PENDING.mtime, PENDING.serial_no) == (S.PENDING, (4,), 2, 2)
    assert (more.repair_status, more.jobs) == (S.PENDING, (4, 5, 6))


@pytest.mark.parametrize("start", [NOTED, PENDING], ids=["noted", "pending"])
def test_an_open_incident_ends_in_one_of_three_ways(start: incidents.Incident) -> None:
    completed, failed = incidents.complete(start, now=3), incidents.fail(start, "why", now=3)
    assert (completed.repair_status, completed.tag) == (S.COMPLETED, "maintd:repairready:u")
    assert (failed.repair_status, failed.tag, failed.reason) == (S.FAILED, "maintd:repairfailed:u", "why")
    assert incidents.cancel(start, now=3).repair_status is S.CANCELED


@pytest.mark.parametrize("ended", ENDED, ids=lambda one: one.repair_status.value)
@pytest.mark.parametrize(
    "act",
    [
        lambda one: incidents.submit(one, [1], now=9),
        lambda one: incidents.complete(one, now=9),
        lambda one: incidents.fail(one, "x", now=9),
    ],
    ids=["submit", "complete", "fail"],
)
def test_an_ended_incident_does_not_move(
    ended: incidents.Incident, act: Callable[[incidents.Incident], incidents.Incident]
) -> None:
    way_out = "once no longer observed" if ended.repair_status is S.CANCELED else "acknowledge"
    with pytest.raises(errors.Refused, match=way_out):
        act(ended)


@pytest.mark.parametrize("ended", ENDED[:2], ids=["completed", "failed"])
def test_a_finished_incident_can_still_be_canceled(ended: incidents.Incident) -> None:
    canceled = incidents.cancel(ended, now=9)
    assert (canceled.repair_status, canceled.mtime, canceled.serial_no) == (S.CANCELED, 9, ended.serial_no + 1)
    with pytest.raises(errors.Refused, match="canceled already"):
        incidents.cancel(canceled, now=10)


@pytest.mark.parametrize(
    ("one", "observed", "tagged", "forgotten"),
    [
        (NOTED, True, False, False),
        (NOTED, False, False, True),
        (PENDING, False, False, False),
        (ENDED[0], False, True, False),
        (ENDED[0], True, False, False),
        (ENDED[0], False, False, True),
        (ENDED[1], True, True, False),
        (ENDED[1], False, True, False),
        (ENDED[1], True, False, True),
        (ENDED[2], True, False, False),
        (ENDED[2], False, False, True),
    ],
)
def test_an_incident_is_forgotten_by_the_table_of_the_design(
    one: incidents.Incident, *, observed: bool, tagged: bool, forgotten: bool
) -> None:
    assert incidents.is_forgotten(one, observed=observed, tagged=tagged) is forgotten


def noted(status: str, uuid: str, now: float) -> incidents.Incident:
    return incidents.note(diagnosis.parse(f'{{"status": "{status}"}}'), node="n", uuid=uuid, now=now)


def test_the_most_invasive_open_incident_counts_and_the_older_on_ties() -> None:
    live, older, newer = noted("live-repair", "a", 1), noted("evacuate", "c", 2), noted("evacuate", "b", 3)
    worst = noted("evacuate-failover", "d", 9)
    assert incidents.most_invasive([live, newer, older]) is older
    assert incidents.most_invasive([live, newer, older, worst]) is worst
    assert incidents.most_invasive([live, incidents.cancel(worst, now=9)]) is live
    assert incidents.most_invasive(ENDED) is None
