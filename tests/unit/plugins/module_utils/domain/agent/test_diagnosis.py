from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.diagnosis import Status
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors


def test_statuses_are_ordered_by_how_invasive_they_are() -> None:
    said = [Status.EVACUATE_FAILOVER, Status.OK, Status.EVACUATE, Status.LIVE_REPAIR]
    assert sorted(said) == [Status.OK, Status.LIVE_REPAIR, Status.EVACUATE, Status.EVACUATE_FAILOVER]
    assert max(said) is Status.EVACUATE_FAILOVER
    assert Status.OK <= Status.OK


@pytest.mark.parametrize("status", ["Ok", "live-repair", "evacuate", "evacuate-failover"])
def test_the_four_statuses_of_the_protocol_are_read(status: str) -> None:
    assert diagnosis.parse('{"status": "' + status + '"}').status is Status(status)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '"Ok"',
        "null",
        "{}",
        '{"Status": "Ok"}',
        '{"status": "ok"}',
        '{"status": "OK"}',
        '{"status": "Ok "}',
        '{"status": ""}',
        '{"status": null}',
        '{"status": true}',
        '{"status": ["Ok"]}',
        '{"status": {"code": 0}}',
        '{"status": "Ok", "status": "evacuate"}',
        "",
        "Ok",
    ],
)
def test_anything_else_is_no_diagnosis(text: str) -> None:
    with pytest.raises(errors.InvalidInput):
        diagnosis.parse(text)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('{"status": "live-repair", "command": "fan"}', "fan"),
        ('{"status": "live-repair", "command": ""}', None),
        ('{"status": "live-repair", "command": ["fan"]}', None),
        ('{"status": "live-repair", "command": 1}', None),
        ('{"status": "live-repair"}', None),
        ('{"status": "evacuate", "command": "fan"}', None),
        ('{"status": "Ok", "command": "fan"}', None),
    ],
)
def test_a_command_counts_only_for_a_live_repair_and_as_a_text(text: str, command: str | None) -> None:
    assert diagnosis.parse(text).command == command


def test_the_original_keeps_every_field_every_number_and_the_order() -> None:
    said = diagnosis.parse(' {"x": 1.50, "status": "evacuate", "command": "fan", "details": {"n": 1e2}}\n')
    assert said.original == '{"x":1.50,"status":"evacuate","command":"fan","details":{"n":1e2}}'
    assert said.details == '{"n":1e2}'


@pytest.mark.parametrize(("text", "details"), [('{"status":"Ok","details":null}', "null"), ('{"status":"Ok"}', None)])
def test_details_of_null_are_not_missing_details(text: str, details: str | None) -> None:
    assert diagnosis.parse(text).details == details


def test_the_same_failure_is_the_same_json_value_and_nothing_less() -> None:
    first = diagnosis.parse('{"status":"evacuate","details":{"slot":3,"disk":"sda"}}')
    same = diagnosis.parse('{"details":{"disk":"sda","slot":3.0},"status":"evacuate"}')
    other = diagnosis.parse('{"details":{"disk":"sda","slot":"3"},"status":"evacuate"}')
    assert same.canonical == first.canonical
    assert other.canonical != first.canonical


def test_the_built_in_diagnosis_is_what_its_own_text_says() -> None:
    assert diagnosis.parse('{"status":"Ok"}') == diagnosis.OK
