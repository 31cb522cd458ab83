from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import job_filters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.values import patterns
from hypothesis import given, settings
from hypothesis import strategies as st

ENDLESS = (
    "(.|.)" * 40 + "~",
    "(|)" * 60 + "~",
    "(?:|)" * 60 + "~",
    "(.|.|.)" * 24 + "~",
    ".?" * 100 + "~",
    "(.|(?:))" * 50 + "~",
    "(?:.|(?=.)|(?!~))" * 25 + "~",
    "[a-z]?" * 80 + "~",
    ".{,9}.*.*~",
    "a{.*.*.*~",
    ".??.*?.*~",
    ".*.*(|)~",
    "((|)|(|))(|)~",
    ".*.*" + r"\B" * 60 + "~",
)
ODD = ("x{99999999999999}", "(" * 160 + ")" * 160, "(?P<a>x)(?(a)b|c)", "(?=a)", "(?x)a", "a(?i)b", "(?i:a)", "(?#a)")
ORDINARY = (
    "^node[0-9]+$",
    "OP_INSTANCE_(MIGRATE|FAILOVER)",
    "(?i)web",
    "a.*b",
    "colou?r",
    "x+?y",
    "^OP_(INSTANCE|NODE)_.*$",
    "^web-.*|^db-.*",
    r"^node[12]\.example\.com$",
    r"a\*\?\+\([(|)?]",
    "^(" + "|".join(f"node{number}" for number in range(50)) + ")$",
)
ATOMS = st.sampled_from([
    *("x", ".", "[a-z]", r"\B", r"\w", "^", "$", "~", "{", "|", "(", ")", "()", "(?:", "(|", "(x|", ")?", ")*"),
    *("?", "*", "+", "??", "*?", "x?", "x*", ".*", ".?", "x{0,9}", "x{,300}", "(?=", "(?i)", "(|)", "(.|.)", r"\1"),
])  # fmt: skip
SEARCHES = """
import json, sys
from ansible_collections.roundsman.cluster.plugins.plugin_utils.values import patterns
for pattern in json.load(sys.stdin):
    for text in ("x" * 1000, "x" * 45 + "~", "xy" * 500):
        patterns.matches(pattern, text)
"""
SECONDS_FOR_A_BATCH = 60


def query(pattern: str) -> None:
    job_filters.check(["=~", "name", pattern], "qfilter")


@pytest.mark.parametrize("pattern", [*ENDLESS, *ODD])
def test_a_pattern_that_may_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^qfilter: .*$"):
        query(pattern)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_an_ordinary_pattern_is_accepted(pattern: str) -> None:
    query(pattern)


@settings(max_examples=3, deadline=None)
@given(st.lists(st.lists(ATOMS, min_size=1, max_size=25).map("".join).map(lambda text: text[:200]), min_size=300))
def test_whatever_is_accepted_ends_soon(made: list[str]) -> None:
    accepted = [pattern for pattern in made if patterns.problem(pattern) is None]
    command = [sys.executable, "-c", SEARCHES]
    subprocess.run(command, input=json.dumps(accepted), text=True, check=True, timeout=SECONDS_FOR_A_BATCH)


def test_the_costliest_patterns_end_soon() -> None:
    tails = (r"\B", "()", "x", ".", "|")
    heads = (".*.*", "(?i)x*x*", "x*", "x*(", "(")
    made = [
        (head + tail * count)[:98] + (")" if head[-1] == "(" else "") + "~"
        for head in heads
        for tail in tails
        for count in (20, 46, 90)
    ]
    accepted = [pattern for pattern in made if patterns.problem(pattern) is None]
    assert len(accepted) > len(made) // 3
    command = [sys.executable, "-c", SEARCHES]
    subprocess.run(command, input=json.dumps(accepted), text=True, check=True, timeout=SECONDS_FOR_A_BATCH)


def test_a_pattern_is_held_against_the_beginning_of_a_value_only() -> None:
    assert patterns.matches("b", "a" * 299 + "b")
    assert not patterns.matches("b", "a" * 300 + "b")
    assert patterns.matches("^a.*c*b", "a" * 99 + "b")
    assert not patterns.matches("^a.*c*b", "a" * 100 + "b")
