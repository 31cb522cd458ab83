from __future__ import annotations

from typing import Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.plugin_utils import power_looks

LOOKS: dict[str, dict[str, Any]] = {
    "node1": {"running": [], "failed": False},
    "node2": {"running": ["b", "a"]},
    "node3": {"unreachable": True, "msg": "no route"},
    "node4": {"unreachable": True, "msg": "no route"},
    "node5": {"failed": True, "msg": "no hypervisor there"},
}


def read(name: str, state: power.State) -> power.Outcome:
    return power.judge(power.Command.STATUS, name=name, before=state, seconds=0.1)


def test_who_runs_something_or_could_not_be_seen_keeps_its_power_unless_it_reads_off() -> None:
    assert power_looks.unreachable(LOOKS) == {"node3", "node4"}
    found = power_looks.objections(LOOKS, read=[read("node3", power.State.OFF), read("node4", power.State.UNKNOWN)])
    assert found == {
        "node2": "node2 still runs b, a, which the configuration does not know of: stop it first",
        "node4": power_looks.UNSEEN.format("node4"),
        "node5": "node5 could not be looked at: no hypervisor there",
    }


def test_a_node_that_was_left_alone_is_not_confirmed_and_nothing_was_sent() -> None:
    told = power_looks.refused(power.Command.OFF, "node2", "it runs a")
    assert (told.confirmed, told.sent, told.reason, told.text) == (False, False, "refused", "it runs a")


def test_outcomes_are_in_the_order_of_people() -> None:
    found = power_looks.ordered(read(name, power.State.ON) for name in ("node10", "node9"))
    assert [one.name for one in found] == ["node9", "node10"]


def test_who_answers_is_not_fenced_and_a_question_that_failed_counts_as_an_answer() -> None:
    asked: dict[str, dict[str, Any]] = {
        "node1": {"alive": ""},
        "node2": {"alive": "its SSH port"},
        "node3": {"failed": True, "msg": "a defect"},
        "node4": {"alive": "", "accepts": "its agent's port"},
    }
    found = power_looks.answering(power.Command.CONFIRM_OFF, asked)
    assert found == {"node2": "its SSH port", "node3": "not known: a defect"}
    assert power_looks.answering(power.Command.FENCE, asked) == {**found, "node4": "its agent's port"}
    told = power_looks.answers(power.Command.FENCE, "node2", found["node2"])
    assert (told.confirmed, told.sent, told.reason) == (False, False, "answers")
    assert told.text == "it is not fenced for its silence: its SSH port"
