from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import job_filters


@pytest.mark.parametrize("pattern", [r"^node[0-9]+\.example\.com$", ".*a.*", r"a\*\+\{[*+{]", "(a|b)c?"])
def test_a_pattern_that_ends_soon_is_taken(pattern: str) -> None:
    job_filters.check(["=~", "name", pattern], "qfilter")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*", "a*a*a*", r"(a)\1", "(?P<x>a)(?P=x)", "a{9}b{9}c{9}", "("])
def test_a_pattern_that_may_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(errors.InvalidInput, match="qfilter"):
        job_filters.check(["=~", "name", pattern], "qfilter")


def test_a_glob_matches_whole_names() -> None:
    query = ["=*", "name", "node[12]*"]
    job_filters.check(query, "qfilter", fields=frozenset({"name"}))
    assert [job_filters.holds(query, {"name": name}) for name in ("node1", "node20", "node3", "a-node1")] == [
        True,
        True,
        False,
        False,
    ]
