from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, registry

from tests.unit import small_cluster

FACTS: contract.Facts = None  # type: ignore[assignment]


def stated(kind: str, **params: object) -> list[changes.Change]:
    made = registry.make(kind, params)
    assert made.execution is contract.Execution.CHANGE
    assert made.wants(small_cluster.make()) == {}
    return made.changes(small_cluster.make(), FACTS, since=0.0)


def test_tags_are_stated_one_by_one() -> None:
    assert stated("tags_set", of="node", object="n2", tags=["a", "b"]) == [
        tagging.Tagged("node", "n2", "a", present=True),
        tagging.Tagged("node", "n2", "b", present=True),
    ]
    assert stated("tags_del", of="cluster", object="", tags=["prod"]) == [
        tagging.Tagged("cluster", "", "prod", present=False)
    ]


def test_a_tag_that_is_absent_is_named_and_none_is_taken() -> None:
    with pytest.raises(errors.Refused, match=r"Tag\(s\) 'x', 'y' not found"):
        stated("tags_del", of="instance", object="i1", tags=["t", "x", "y"])


@pytest.mark.parametrize(
    ("of", "name", "tag"), [("disk", "d1", "a"), ("node", "n99", "a"), ("node", "n2", "no spaces"), ("node", "n2", "")]
)
def test_what_cannot_be_tagged_is_refused(of: str, name: str, tag: str) -> None:
    with pytest.raises(errors.RoundsmanError):
        stated("tags_set", of=of, object=name, tags=[tag])
