from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.modules import instance_migrate

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node


def migrate(node: Node, other: Node, **options: Any) -> dict[str, Any]:
    return node.call(instance_migrate, instance="a", target_address=str(other.root), opcode="4/0", **options)


def test_an_instance_is_handed_over_once(node: Node, other: Node) -> None:
    node.start("a")
    told = migrate(node, other)
    assert (told["changed"], told["migrated"]) == (True, True)
    assert (node.running(), other.running()) == ([], ["a"])
    again = migrate(node, other)
    assert (again["failed"], again["changed"]) == (False, False)
    assert other.events() == [("a", "received", "4/0")]


def test_check_mode_tells_and_moves_nothing(node: Node, other: Node) -> None:
    node.start("a")
    assert migrate(node, other, check=True)["changed"]
    assert node.running() == ["a"]


@pytest.mark.parametrize(
    ("here", "there", "text"),
    [(False, False, "runs on the target already|does not run here"), (True, True, "must be stopped on one")],
)
def test_an_instance_that_runs_nowhere_or_twice_is_not_touched(
    node: Node, other: Node, here: bool, there: bool, text: str
) -> None:
    for one, runs in ((node, here), (other, there)):
        if runs:
            one.start("a")
    told = migrate(node, other)
    assert told["failed"]
    assert any(part in told["msg"] for part in text.split("|"))
    assert (node.running(), other.running()) == (["a"] * here, ["a"] * there)


def test_a_target_that_does_not_answer_leaves_the_instance_where_it_is(node: Node, other: Node) -> None:
    node.start("a")
    shutil.rmtree(other.root)
    assert "does not answer" in migrate(node, other)["msg"]
    assert node.running() == ["a"]
