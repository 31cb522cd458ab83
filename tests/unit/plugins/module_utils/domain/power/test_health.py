from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import health
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power.health import Status
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors


@pytest.mark.parametrize(
    ("bits", "is_available", "status"),
    [
        (0, True, Status.OK),
        (1, True, Status.WARNING),
        (2, True, Status.CRITICAL),
        (4, True, Status.CRITICAL),
        (1 | 2, True, Status.CRITICAL),
        (1 | 4, True, Status.CRITICAL),
        (0, False, Status.UNKNOWN),
        (4, False, Status.UNKNOWN),
    ],
)
def test_a_reading_is_judged_by_its_bits_when_it_is_one(bits: int, is_available: bool, status: Status) -> None:
    assert health.of_reading(bits, is_available=is_available) is status


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("OK", Status.OK),
        ("Warning", Status.WARNING),
        ("Critical", Status.CRITICAL),
        ("Unknown", Status.UNKNOWN),
        (None, Status.UNKNOWN),
        ("ok?", Status.UNKNOWN),
        ({}, Status.UNKNOWN),
    ],
)
def test_redfish_health_is_known_by_the_words_of_the_standard_only(told: object, status: Status) -> None:
    assert health.of_redfish(told) is status


@pytest.mark.parametrize(
    ("items", "status"),
    [
        ([], Status.UNKNOWN),
        ([Status.UNKNOWN], Status.UNKNOWN),
        ([Status.OK, Status.UNKNOWN], Status.OK),
        ([Status.OK, Status.WARNING, Status.UNKNOWN], Status.WARNING),
        ([Status.WARNING, Status.CRITICAL, Status.OK], Status.CRITICAL),
    ],
)
def test_the_worst_item_counts_and_nothing_read_is_unknown(items: list[Status], status: Status) -> None:
    assert health.Health("node1", [health.Item(str(one), one) for one in items]).status is status


def test_items_of_a_helper_program_are_pairs() -> None:
    assert health.parse_items([["PS", "OK"], ["FAN 1 RPM", "CRITICAL"]]) == [
        health.Item("PS", Status.OK),
        health.Item("FAN 1 RPM", Status.CRITICAL),
    ]


def test_a_health_is_written_as_pairs() -> None:
    told = health.Health("node1", [health.Item("PS", Status.OK), health.Item("FAN", Status.WARNING)])
    assert health.pairs(told) == [["PS", "OK"], ["FAN", "WARNING"]]


def test_what_was_left_unasked_is_written_as_an_unknown_item() -> None:
    told = health.Health("node1", [health.Item("PS", Status.OK)], reason="timeout", text="no answer within 5 s")
    assert health.pairs(told) == [["PS", "OK"], ["not read: no answer within 5 s", "UNKNOWN"]]


def test_a_health_without_readings_is_written_as_an_unknown_item() -> None:
    assert [status for _, status in health.pairs(health.Health("node1"))] == ["UNKNOWN"]


@pytest.mark.parametrize("document", [None, {}, [[]], [["a"]], [["a", "FINE"]], [[1, "OK"]], ["OK"], [["a", ["OK"]]]])
def test_anything_else_is_refused(document: object) -> None:
    with pytest.raises(errors.InvalidInput):
        health.parse_items(document)


@pytest.mark.parametrize(
    ("items", "status"),
    [([], Status.UNKNOWN), ([Status.OK], Status.UNKNOWN), ([Status.OK, Status.WARNING], Status.WARNING)],
)
def test_what_was_left_unasked_may_be_bad_but_bad_is_bad(items: list[Status], status: Status) -> None:
    told = health.Health("node1", [health.Item(str(one), one) for one in items], reason="timeout")
    assert told.status is status
