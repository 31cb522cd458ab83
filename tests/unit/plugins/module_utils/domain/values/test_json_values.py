from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, json_values
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def canonical(text: str) -> str:
    return json_values.canonical(json_values.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"b":1.0,"a":[1e5,-0,0.10,1E+2]}',
        "123456789012345678901234567890.123456789012345678901234567890",
        '{"":{"é":"\\n\\"\u2028"}}',
        "[true,false,null,[],{}]",
    ],
)
def test_what_is_read_is_written_with_the_same_numbers_and_order(text: str) -> None:
    assert json_values.dump(json_values.parse(text)) == text


@given(VALUES)
def test_dumping_and_parsing_again_keeps_every_value(value: Any) -> None:
    text = json_values.dump(json_values.parse(json.dumps(value)))
    assert json.loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "01",
        "+1",
        ".5",
        "1.",
        "\u0661",
        "NaN",
        "[Infinity]",
        "-Infinity",
        '{"a":1,"a":1}',
        '{"a":{"b":1,"\\u0062":2}}',
        '"\\ud800"',
        '{"\\udc00":1}',
        '["\ud800"]',
        '"\n"',
        "[" * 101 + "]" * 101,
        "[" * 500_000,
        '{"a":' * 500_000,
        '"' + '\\"' * 300_000,
        "\ufeff{}",
        "1 2",
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_what_is_no_exact_json_is_refused_and_never_crashes(text: str) -> None:
    with pytest.raises(errors.InvalidInput):
        json_values.parse(text)


def test_nesting_is_accepted_up_to_the_limit_and_brackets_in_strings_do_not_count() -> None:
    text = "[" * 99 + '{"' + "[" * 200 + '":"\\"{{{"}' + "]" * 99
    assert json_values.dump(json_values.parse(text)) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("1", "10e-1"),
        ("100", "1E+2"),
        ("0", "-0.0e99"),
        ("0.001", "1e-3"),
        ("-1200.50", "-12005e-1"),
        ("100000000000000000000000000001", "100000000000000000000000000001.000"),
        ("1e99999999999999999999", "10e99999999999999999998"),
        ('{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2.0},"a":1}'),
        ('"\\u00e9\\/"', '"é/"'),
    ],
)
def test_equal_values_have_the_same_canonical_text(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "true"),
        ("0", "false"),
        ("null", '"null"'),
        ("1", '"1e0"'),
        ("9007199254740992", "9007199254740993"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("1e400", "1e401"),
        ("1e-99999999999999999999", "0"),
        ("1", "-1"),
        ("[1,2]", "[2,1]"),
        ("[]", "{}"),
        ('"\u00e9"', '"e\u0301"'),
        ('{"a":null}', "{}"),
    ],
)
def test_different_values_have_different_canonical_texts(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


def test_huge_numbers_are_compared_without_being_expanded() -> None:
    digits = "9" * 400_000
    assert canonical("1e" + digits) == canonical("10e" + "9" * 399_999 + "8")
    assert canonical(digits + "0") == canonical(digits + "e1")


@given(
    st.integers(-(10**6), 10**6),
    st.integers(-12, 12),
    st.integers(-(10**6), 10**6),
    st.integers(-12, 12),
)
def test_numbers_are_the_same_exactly_when_their_values_are(a: int, b: int, c: int, d: int) -> None:
    same = Fraction(a) * Fraction(10) ** b == Fraction(c) * Fraction(10) ** d
    assert (canonical("{}e{}".format(a, b)) == canonical("{}e{}".format(c, d))) is same


@given(VALUES)
def test_the_canonical_text_is_json_and_its_own_canonical_text(value: Any) -> None:
    once = canonical(json.dumps(value))
    assert canonical(once) == once


@pytest.mark.parametrize("token", ["", "NaN", "1,2", "0x1", "1\n", "--1"])
def test_a_number_is_nothing_but_a_json_number(token: str) -> None:
    with pytest.raises(errors.InvalidInput):
        json_values.Number(token)
