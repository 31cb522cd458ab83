from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import audit_lines

from tests.unit import small_cluster


def told(*stated: changes.Change) -> list[str]:
    """The lines of each change after the other."""
    cluster, found = small_cluster.make(), []
    for change in stated:
        after = changes.apply(cluster, change, now=1.0)
        found += audit_lines.lines(cluster, after)
        cluster = after
    return found


def stands(*nodes: str, returning: bool = False, lost: bool = False) -> changes.EpoStands:
    return changes.EpoStands(nodes, ("i1",), "ops", returning=returning, lost=lost)


def test_an_emergency_power_off_is_told_when_it_stands_returns_and_is_lifted() -> None:
    assert told(
        stands("n2", "n3"), stands("n2", "n3", returning=True), stands("n2", returning=True), changes.EpoGone()
    ) == [
        'an emergency power off by ops of 2 nodes and 1 instance stands {"emergency": "stands"}',
        'the return of 2 nodes and 1 instance from the emergency power off by ops begins {"emergency": "returns"}',
        (
            "the emergency power off by ops is lifted; 1 node and 1 instance were on its list at last "
            '{"emergency": "lifted"}'
        ),
    ]


def test_a_return_from_a_loss_of_power_is_told() -> None:
    assert told(stands("n2", returning=True, lost=True), changes.EpoGone())[0] == (
        'the return of 1 node and 1 instance from a loss of power begins, by ops {"emergency": "returns"}'
    )


def test_more_nodes_and_a_return_that_is_turned_back_are_told_and_the_same_again_is_not() -> None:
    assert told(stands("n2"), stands("n2"), stands("n2", "n3"), stands("n2", returning=True), stands("n2")) == [
        'an emergency power off by ops of 1 node and 1 instance stands {"emergency": "stands"}',
        'the emergency power off by ops goes on, now of 2 nodes and 1 instance {"emergency": "stands"}',
        'the return of 1 node and 1 instance from the emergency power off by ops begins {"emergency": "returns"}',
        'the emergency power off by ops goes on, now of 1 node and 1 instance {"emergency": "stands"}',
    ]


def test_the_data_of_a_line_is_at_its_end_and_other_lines_have_none() -> None:
    assert audit_lines.fields(audit_lines.with_fields("it {stands}", emergency="stands")) == {"emergency": "stands"}
    nested = {"failover": {"instance": "web1", "seconds": None}}
    assert audit_lines.fields(audit_lines.with_fields("{it} is {1}", **nested)) == nested
    for line in ("", "it stands", "it {stands}", "it stands {", 'it stands [1] {"a"', "it stands {} 1"):
        assert audit_lines.fields(line) == {}
