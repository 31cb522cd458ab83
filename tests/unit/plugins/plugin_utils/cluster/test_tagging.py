from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, tagging

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


def test_a_kind_without_tags_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="'disk' has no tags"):
        changes.apply(CLUSTER, tagging.Tagged("disk", "i1", "t", present=True), now=1.0)


@pytest.mark.parametrize(("kind", "name"), [("cluster", ""), ("group", "g1"), ("node", "node2"), ("instance", "i1")])
def test_a_tag_comes_last_and_goes_alone(kind: str, name: str) -> None:
    before = tagging.tag_owner(CLUSTER, kind, name).tags
    with_tag = changes.apply(CLUSTER, tagging.Tagged(kind, name, "new", present=True), now=1.0)
    assert tagging.tag_owner(with_tag, kind, name).tags == (*before, "new")
    without = changes.apply(with_tag, tagging.Tagged(kind, name, "new", present=False), now=2.0)
    assert tagging.tag_owner(without, kind, name).tags == before


@pytest.mark.parametrize("tag", ["", "a b", "a" * 129, "a\n"])
def test_what_is_no_tag_is_refused(tag: str) -> None:
    with pytest.raises(errors.InvalidInput, match="is no tag"):
        tagging.check_tag(tag)
