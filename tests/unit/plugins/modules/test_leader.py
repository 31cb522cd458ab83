from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock, leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import votes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import node_boot
from ansible_collections.roundsman.cluster.plugins.modules import leader

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node

UUID, BOOT = "0c1d2e3f-0000-4000-8000-000000000001", "0c1d2e3f-0000-4000-8000-00000000000b"
FIVE = Kept(Epoch(5, "five"), "0c1d2e3f-0000-4000-8000-0000000000aa", 7, frozenset({"four"}))


@pytest.fixture(autouse=True)
def _settings(node: Node) -> None:
    for path, text in (("etc/roundsman/node.json", json.dumps({"node": UUID})), (node_boot.BOOT_ID, BOOT)):
        (node.root / path).parent.mkdir(parents=True, exist_ok=True)
        (node.root / path).write_text(text)


def ask(node: Node, *, offer: Kept | None = None, boot: str = "", check: bool = False) -> dict[str, Any]:
    return node.call(leader, hypervisor=None, offer=votes.document(offer), boot=boot, check=check)


def test_a_node_says_whom_it_follows_and_follows_what_is_offered_for_its_boot(node: Node) -> None:
    asked = ask(node)
    assert {key: asked[key] for key in votes.SHOWN} == {
        "node": UUID,
        "boot": BOOT,
        "follows": None,
        "refusal": "",
        "steps": {},
    }
    assert ask(node, offer=FIVE, boot=BOOT, check=True)["follows"] is None
    late = ask(node, offer=FIVE, boot="0c1d2e3f-0000-4000-8000-00000000000c")
    assert (late["follows"], late["refusal"]) == (None, "this node has booted since the controller asked it")

    followed = ask(node, offer=FIVE, boot=BOOT)

    assert (followed["changed"], votes.kept(followed["follows"])) == (True, FIVE)
    assert leader_record.load(node.root) == FIVE
    assert ask(node, offer=FIVE, boot=BOOT)["changed"] is False


def test_a_node_refuses_an_earlier_epoch_and_names_the_steps_at_work(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader_record.keep(node.root, FIVE)
    monkeypatch.setenv(leader_record.VARIABLE, f"5:five:{FIVE.master}:7")
    with instance_lock.held("web1", node.root, opcode="1/0"):
        answer = ask(node, offer=Kept(Epoch(4, "four-again"), FIVE.master, 1), boot=BOOT)

    assert "follows epoch 5 (five) and refuses epoch 4 (four-again)" in answer["refusal"]
    assert answer["steps"].keys() == {"web1"}
    assert "opcode 1/0" in answer["steps"]["web1"]


def test_a_record_that_cannot_be_read_is_no_answer(node: Node) -> None:
    (node.root / leader_record.FILE).parent.mkdir(parents=True, exist_ok=True)
    (node.root / leader_record.FILE).write_text("{")
    answer = ask(node)
    assert answer["failed"]
    assert "cannot be read" in answer["msg"]


def test_the_answer_of_another_node_does_not_count(node: Node) -> None:
    found = {key: value for key, value in ask(node, offer=FIVE, boot=BOOT).items() if key in votes.SHOWN}
    answer = votes.shown_answer(found, asked=votes.Question(UUID, "nonce"))
    assert (answer.follows, answer.boot, answer.heard, answer.refusal) == (FIVE, BOOT, None, "")
    for wrong in (
        {**found, "node": "another"},
        {**found, "more": 1},
        {**found, "boot": "none"},
        {**found, "steps": None},
        {**found, "follows": {**found["follows"], "master": "no UUID"}},
    ):
        with pytest.raises(errors.InvalidInput):
            votes.shown_answer(wrong, asked=votes.Question(UUID, "nonce"))
