from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import json_fields

DOCUMENT = '{"a": {"b": [1, -2, 2.5, 3.0, true, "x", "", null, 1e300]}, "policy": "preferred"}'


def _at(number: int) -> json_fields.Field:
    return json_fields.document(DOCUMENT, name="it").get("a").get("b").each()[number]


def test_values_are_read_as_what_they_are() -> None:
    assert (_at(0).whole(), _at(1).whole(least=None), _at(3).whole()) == (1, -2, 3)
    assert (_at(2).real(), _at(0).real()) == (2.5, 1.0)
    assert _at(4).flag() is True
    assert (_at(5).text(), _at(5).name(), _at(6).text()) == ("x", "x", "")
    whole = json_fields.document(DOCUMENT, name="it")
    assert whole.get("policy").one_of(model.AllocPolicy) is model.AllocPolicy.PREFERRED
    assert [key for key, _ in whole.items()] == ["a", "policy"]
    assert whole.find("c") is None


@pytest.mark.parametrize(
    ("number", "read", "expected"),
    [
        (1, lambda one: one.whole(), "a.b[1]: a whole number of at least 0 was expected, not -2"),
        (2, lambda one: one.whole(), "a.b[2]: a whole number was expected, not 2.5"),
        (4, lambda one: one.whole(), "a.b[4]: a whole number was expected, not true"),
        (8, lambda one: one.whole(), "a.b[8]: a whole number was expected, not 1e+300"),
        (1, lambda one: one.real(), "a.b[1]: a number of at least 0 was expected, not -2"),
        (4, lambda one: one.real(), "a.b[4]: a number was expected, not true"),
        (8, lambda one: one.real(), "a.b[8]: a number of at least 0 was expected, not 1e+300"),
        (0, lambda one: one.flag(), "a.b[0]: true or false was expected, not 1"),
        (0, lambda one: one.text(), "a.b[0]: a string was expected, not 1"),
        (6, lambda one: one.name(), 'a.b[6]: a name was expected, not ""'),
        (5, lambda one: one.each(), 'a.b[5]: a list was expected, not "x"'),
        (5, lambda one: one.items(), 'a.b[5]: an object was expected, not "x"'),
        (5, lambda one: one.get("k"), 'a.b[5]: an object was expected, not "x"'),
        (
            5,
            lambda one: one.one_of(model.AllocPolicy),
            'a.b[5]: one of preferred, last_resort, unallocable was expected, not "x"',
        ),
    ],
)
def test_what_is_something_else_is_named_with_its_place(number: int, read: Any, expected: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(expected)}$"):
        read(_at(number))


def test_a_missing_key_is_named_with_the_object_that_lacks_it_and_null_is_missing() -> None:
    whole = json_fields.document('{"a": {"b": null}}', name="it")
    with pytest.raises(errors.InvalidInput, match=r"^a: the key 'b' is missing$"):
        whole.get("a").get("b")
    with pytest.raises(errors.InvalidInput, match=r"^the document: the key 'c' is missing$"):
        whole.get("c")


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '{"a": NaN}', '{"a": 1e', "[" * 100_000])
def test_what_is_no_json_object_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^it is no JSON") as caught:
        json_fields.document(text, name="it")
    assert "\n" not in str(caught.value)


def test_a_long_value_is_shown_by_its_beginning() -> None:
    field = json_fields.document('{"a": "' + "x" * 1000 + '"}', name="it").get("a")
    assert len(str(field.wrong("less"))) < 100
