from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import (
    allocator_json,
    allocator_requests,
)

NEW = model.Instance("new1", 512, 148, 2, "running", True, "")
ALLOCATE = allocator.Allocate(allocator.Wanted(NEW))
SEVERAL = allocator.MultiAllocate((allocator.Wanted(NEW),))
EVACUATE = allocator.Evacuate(("web1", "rbd1"), allocator.Scope.ALL)
RELOCATE = allocator.Relocate("web1", ("node2",))
SECONDARY = allocator.AllocateSecondary("web1")


def _answer(result: Any, *, success: bool = True) -> str:
    return json.dumps({"success": success, "info": "said", "result": result})


def test_a_node_that_is_given_cannot_be_said() -> None:
    given = allocator.Wanted(dataclasses.replace(NEW, primary="node1"))
    with pytest.raises(errors.Refused, match=r"^new1: external allocators cannot be given that it is on node1$"):
        allocator_requests.write(model.Model((), ()), allocator.MultiAllocate((given,)))


def test_a_place_is_read_from_its_nodes() -> None:
    placed = allocator.Result((allocator.Placement("new1", ("node2", "node1")),), info="said")
    assert allocator_requests.read(_answer(["node2", "node1"]), ALLOCATE) == placed
    relocated = allocator_requests.read(_answer(["node3"]), RELOCATE)
    assert relocated.placements == (allocator.Placement("web1", ("node3",)),)
    assert allocator_requests.read(_answer("node3"), SECONDARY).placements == relocated.placements


def test_no_place_for_a_single_instance_is_its_refusal() -> None:
    asked: list[tuple[allocator.Request, str]] = [(ALLOCATE, "new1"), (RELOCATE, "web1"), (SECONDARY, "web1")]
    for request, name in asked:
        result = allocator_requests.read(_answer([], success=False), request)
        assert result == allocator.Result(unplaced=(allocator.Unplaced(name, {"": "said"}),), info="said")
    with pytest.raises(errors.Refused, match=r"^the allocator failed: said$"):
        allocator_requests.read(_answer([], success=False), EVACUATE)


def test_instances_without_a_place_are_read_with_and_without_a_reason() -> None:
    answer = _answer([[["new1", ["node2", "node1"]]], ["new2", ["new3", "full"]]])
    result = allocator_requests.read(answer, SEVERAL)
    assert result.placements == (allocator.Placement("new1", ("node2", "node1")),)
    assert result.unplaced == (allocator.Unplaced("new2", {"": "said"}), allocator.Unplaced("new3", {"": "full"}))


def test_moves_are_read_as_they_are_written() -> None:
    steps = (allocator.Step(allocator.Action.REPLACE_SECONDARY, "node3"), allocator.Step(allocator.Action.MIGRATE))
    failover = (allocator.Step(allocator.Action.FAILOVER, "node4"),)
    result = allocator.Result(
        (
            allocator.Placement("web1", ("node1", "node3"), "a", steps),
            allocator.Placement("rbd1", ("node4",), "b", failover, after=("web1",)),
        ),
        (allocator.Unplaced("lone1", {"": "plain"}),),
        "done",
    )
    assert allocator_requests.read(allocator_json.write(EVACUATE, result), EVACUATE) == result


def test_a_reason_is_read_without_its_prefix_and_by_its_beginning() -> None:
    answer = json.dumps({"success": False, "info": "Request failed: " + "no " * 1000, "result": []})
    (refusal,) = allocator_requests.read(answer, RELOCATE).unplaced
    assert refusal.text.startswith("no no ")
    assert len(refusal.text) == 500


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        (ALLOCATE, "nonsense", "the allocator's answer is no JSON: "),
        (ALLOCATE, '{"success": true, "info": ""}', "the document: the key 'result' is missing"),
        (ALLOCATE, '{"success": 1, "info": "", "result": []}', "success: true or false was expected, not 1"),
        (ALLOCATE, _answer(["node1"]), 'result: a list of 2 names was expected, not ["node1"]'),
        (ALLOCATE, _answer(["node1", ""]), 'result[1]: a name was expected, not ""'),
        (SECONDARY, _answer([]), "result: a string was expected, not []"),
        (EVACUATE, _answer([[], []]), "result: the moved, the others and jobs was expected, not [[], []]"),
        (
            EVACUATE,
            _answer([[["web1"]], [], []]),
            'result[0][0]: a name, its group and its nodes was expected, not ["web1"]',
        ),
        (EVACUATE, _answer([[], [], [[]]]), "result[2][0]: opcodes was expected, not []"),
        (
            EVACUATE,
            _answer([[], [], [[{"OP_ID": "OP_NODE_REMOVE", "instance_name": "web1"}]]]),
            (
                "result[2][0][0].OP_ID: one of OP_INSTANCE_MIGRATE, OP_INSTANCE_FAILOVER, OP_INSTANCE_REPLACE_DISKS "
                'was expected, not "OP_NODE_REMOVE"'
            ),
        ),
    ],
)
def test_an_answer_that_is_none_is_refused_with_its_place(
    request_: allocator.Request, answer: str, expected: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(expected)}"):
        allocator_requests.read(answer, request_)
