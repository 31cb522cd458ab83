from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import job_filters

A = job_filters.Action
REASON = {"source": "gnt:daemon:maintd", "reason": "u-1", "timestamp": 5}
SUBJECT = job_filters.Subject(12, [{"OP_ID": "OP_A", "node": "n1", "on": True}, {"OP_ID": "OP_B"}], [REASON])


def made(action: Any, *predicates: Any, uuid: str = "u", priority: int = 0, watermark: int = 10) -> job_filters.Filter:
    value = {"priority": priority, "predicates": list(predicates), "action": action}
    return job_filters.make(value, uuid=uuid, watermark=watermark, reason=())


def verdict(*filters: job_filters.Filter, subject: job_filters.Subject = SUBJECT) -> job_filters.Verdict:
    return job_filters.judge({one.uuid: one for one in filters}, subject)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (["jobid", ["=", "id", 12]], True),
        (["jobid", [">", "id", "watermark"]], True),
        (["jobid", ["<=", "id", "watermark"]], False),
        (["jobid", ["|", ["=", "id", 1], ["=", "id", 12]]], True),
        (["jobid", ["&", ["=", "id", 1], ["=", "id", 12]]], False),
        (["jobid", ["!", ["=", "id", 12]]], False),
        (["opcode", ["=", "OP_ID", "OP_B"]], True),
        (["opcode", ["==", "OP_ID", "OP_C"]], False),
        (["opcode", ["&", ["=", "OP_ID", "OP_B"], ["=", "node", "n1"]]], False),
        (["opcode", ["=~", "OP_ID", "^OP_[AX]$"]], True),
        (["opcode", ["?", "on"]], True),
        (["opcode", ["=", "on", 1]], False),
        (["opcode", ["<", "node", 5]], False),
        (["opcode", ["!=", "absent", 5]], True),
        (["opcode", ["=", "absent", None]], False),
        (["reason", ["=", "source", "gnt:daemon:maintd"]], True),
        (["reason", ["&", ["=~", "source", "maintd"], ["=", "reason", "u-2"]]], False),
        (["reason", [">=", "timestamp", 5]], True),
    ],
)
def test_a_predicate_is_a_query_on_the_fields_of_the_job(predicate: Any, *, expected: bool) -> None:
    assert job_filters.matches(made("PAUSE", predicate), SUBJECT) is expected


def test_all_predicates_must_match_and_none_match_every_job() -> None:
    yes, no = ["jobid", ["=", "id", 12]], ["jobid", ["=", "id", 13]]
    assert verdict(made("PAUSE", yes, no)).action is A.ACCEPT
    assert verdict(made("PAUSE", yes, yes)).action is A.PAUSE
    assert verdict(made("PAUSE")).action is A.PAUSE


def test_the_first_match_that_does_not_continue_decides() -> None:
    rules = [
        made("CONTINUE", uuid="a"),
        made("REJECT", uuid="c", priority=2),
        made("ACCEPT", uuid="d", priority=1, watermark=9),
        made("PAUSE", uuid="b", priority=1, watermark=10),
    ]
    assert verdict(*rules).decided == rules[2]
    assert verdict(*rules[:2], rules[3]).action is A.PAUSE


def test_a_rate_limit_is_a_bucket_of_its_own() -> None:
    found = verdict(made(["RATE_LIMIT", 3], uuid="x"))
    assert found.action is A.ACCEPT
    assert found.buckets == (job_filters.Bucket("filter x", 3),)


def test_buckets_of_a_reason_trail_are_named_by_limit_and_name() -> None:
    texts = [
        "rate-limit:3:x",
        "rate-limit:4:x",
        "rate-limit:3:x",
        "rate-limit:0:y",
        "rate-limit:a:z",
        " rate-limit:1:q",
    ]
    subject = job_filters.Subject(1, [], [{"source": "s", "reason": one, "timestamp": 0} for one in texts])
    assert verdict(subject=subject).buckets == (job_filters.Bucket("3:x", 3), job_filters.Bucket("4:x", 4))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"action": "STOP"}, "action: 'STOP'"),
        ({"action": "RATE_LIMIT"}, "action"),
        ({"action": ["RATE_LIMIT", 0]}, "action"),
        ({"action": ["PAUSE", 1]}, "action"),
        ({"priority": -1}, "priority: -1"),
        ({"priority": True}, "priority: True"),
        ({"predicates": {}}, "predicates: {}"),
        ({"predicates": [["node", ["=", "id", 1]]]}, "predicates/0"),
        ({"predicates": [["jobid", ["=", "name", 1]]]}, "there is no field 'name'"),
        ({"predicates": [["jobid", ["=@", "id", 1]]]}, "there is no operator '=@'"),
        ({"predicates": [["jobid", ["=", "id"]]]}, "= takes a field and a value"),
        ({"predicates": [["jobid", []]]}, "is not a list that begins with an operator"),
        ({"predicates": [["jobid", ["!"]]]}, "! takes one query"),
        ({"predicates": [["reason", ["=~", "source", "("]]]}, "is no regular expression"),
        ({"predicates": [["jobid", ["=", "id", [1]]]]}, "is not a value"),
        ({"colour": "red"}, "there is no member 'colour'"),
    ],
)
def test_a_rule_that_cannot_be_represented_is_refused_by_name(value: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        job_filters.make(value, uuid="u", watermark=0, reason=())
    assert text in str(caught.value)


def test_queries_within_queries_have_an_end() -> None:
    query: list[Any] = ["=", "id", 1]
    for _ in range(30):
        query = ["!", query]
    with pytest.raises(errors.InvalidInput, match="within each other"):
        made("PAUSE", ["jobid", query])


def test_a_query_has_a_bounded_number_of_operators_and_of_patterns() -> None:
    accepted = ["|", *[["=", "id", 1]] * 199]
    job_filters.check(accepted, "qfilter")
    with pytest.raises(errors.InvalidInput, match="at most 200 operators"):
        job_filters.check([*accepted, ["=", "id", 1]], "qfilter")
    for pattern in ("=~", "=*"):
        job_filters.check(["|", *[[pattern, "id", "x"]] * 10], "qfilter")
        with pytest.raises(errors.InvalidInput, match="at most 10 of =~"):
            job_filters.check(["|", *[[pattern, "id", "x"]] * 11], "qfilter")
    with pytest.raises(errors.InvalidInput, match="at most 500 characters"):
        job_filters.check(["=*", "id", "*a" * 300], "qfilter")


@pytest.mark.parametrize("query", [["=~", "OP_ID", "(|)" * 60 + "~"], ["!", ["=~", "OP_ID", "(a+)+"]]])
def test_a_stored_rule_whose_pattern_may_take_for_ever_matches_no_job(query: Any) -> None:
    stored = job_filters.Filter("u", 0, 0, (("opcode", query),), A.PAUSE)
    assert stored.problem is not None
    assert "may take too long" in stored.problem
    assert verdict(stored).action is A.ACCEPT
    assert made("PAUSE", ["opcode", ["=~", "OP_ID", "A"]]).problem is None


@pytest.mark.parametrize("action", ["ACCEPT", "PAUSE", "REJECT", "CONTINUE", ["RATE_LIMIT", 7]])
def test_an_action_is_told_as_it_is_read(action: Any) -> None:
    assert job_filters.tell_action(made(action)) == action
