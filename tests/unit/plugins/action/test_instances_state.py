from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.action import instances_state

from .running import Modules

if TYPE_CHECKING:
    from .running import Controller

PEER = {"here": "node2", "name": "node3"}
DISK = {"text": "Secondary", "disk": "UpToDate"}


def given(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, node: str, results: object, **step: object
) -> dict[str, Any]:
    """The peer of inst1 as its module gets it, after a node answered about replicas."""
    modules = Modules(monkeypatch, lambda _: {"changed": True, "results": [], "missed": []})
    instances = [{"name": "inst1", "hypervisor": "fake", "peer": PEER}, {"name": "inst2", "hypervisor": "fake"}]
    variables = {"hostvars": {"node2": {}, "node3": {}, node: {"epo_replicas": {"results": results, **step}}}}
    result = controller.run("instances_state", state="started", instances=instances, variables=variables)
    assert result == {"changed": True, "results": [], "missed": []}
    (call,) = modules.calls
    assert (call["module"], call["state"]) == ("roundsman.cluster.instances_state", "started")
    first, second = call["instances"]
    assert second == instances[1]
    peer: dict[str, Any] = first["peer"]
    return peer


@pytest.mark.parametrize(
    ("node", "results"),
    [
        ("node2", [{"name": "inst1", "disks": [DISK]}]),
        ("nobody", [{"name": "inst1", "disks": [DISK]}]),
    ],
)
def test_only_its_own_other_node_says_anything_of_the_replica_there(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, node: str, results: object
) -> None:
    assert given(controller, monkeypatch, node, results) == PEER


@pytest.mark.parametrize("step", [{"unreachable": True}, {"skipped": True}])
def test_a_node_that_did_not_answer_says_nothing(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, step: dict[str, bool]
) -> None:
    assert given(controller, monkeypatch, "node3", [], **step) == PEER


@pytest.mark.parametrize(
    ("results", "step"),
    [
        ([{"name": "inst2", "disks": [DISK]}, {}, {"name": ["inst1"]}], {}),
        (None, {}),
        (None, {"failed": True, "msg": "the answer of the module cannot be read"}),
    ],
)
def test_one_that_answers_and_says_nothing_of_its_replica_leaves_nothing_to_compare(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, results: object, step: dict[str, object]
) -> None:
    assert given(controller, monkeypatch, "node3", results, **step) == {**PEER, "answered": True, "disks": None}


@pytest.mark.parametrize(
    ("disks", "handed"),
    [
        ([DISK], [DISK]),
        ([{**DISK, "text": "down\x1b[2J"}], [{**DISK, "text": "down\\x1b[2J"}]),
        (None, None),
        ("many", None),
        (["one"], None),
        ([{**DISK, "peer": "x" * instances_state.LARGEST}], None),
    ],
)
def test_what_it_says_is_handed_on_where_it_is_fit_for_another_node(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, disks: object, handed: object
) -> None:
    peer = given(controller, monkeypatch, "node3", [{"name": "inst1", "text": "it stands alone", "disks": disks}])
    assert peer == {**PEER, "answered": True, "disks": handed}
