"""What a failover records of its source, what it takes from one step into the next, and which step may not fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.roles import role_tasks

LIFE = "Record that it lives"
SOURCE, TARGET = ({"uuid": f"u-{name}", "name": name} for name in ("node2", "node3"))
CHANGES_HANDS = (
    "Demote the replica on the old primary",
    "Promote the disks on the target",
    "Demote a replica that was promoted by force for an instance that stays down",
)


@pytest.mark.parametrize(
    ("life", "is_recorded"),
    [
        ({"alive": "it runs programs"}, True),
        ({"alive": ""}, False),
        ({"alive": "", "accepts": "its SSH port accepts connections"}, False),
        # What is not known keeps the source from being fenced, so it counts as a life.
        ({"unreachable": True, "msg": "no route to host"}, True),
        ({"failed": True, "msg": "the module crashed"}, True),
    ],
)
def test_a_source_that_answers_is_recorded_as_alive_and_a_silent_one_is_not(
    life: dict[str, Any], is_recorded: bool
) -> None:
    told = {"step.source": SOURCE, "step.target": TARGET, "instance_life": life}
    assert role_tasks.runs("instance", role_tasks.task("instance", "fence_source", LIFE), told) is is_recorded


@pytest.mark.parametrize("name", CHANGES_HANDS)
def test_no_disk_changes_hands_in_a_failover_that_may_fail_unnoticed(name: str) -> None:
    step = role_tasks.task("instance", "failover", name)
    assert step["vars"]["instance_disks_may_fail"] is False
    assert not step.keys() & {"ignore_errors", "failed_when"}
    (at,) = {step["vars"]["instance_member"]}
    assert at == ("{{ step.source }}" if name == CHANGES_HANDS[0] else "{{ step.target }}")


@pytest.mark.parametrize("in_sync", [True, False])
@pytest.mark.parametrize("answers", [True, False])
def test_what_the_source_said_before_the_stop_is_kept_for_the_second_look(*, in_sync: bool, answers: bool) -> None:
    told: dict[str, Any] = {"instance_check": {"in_sync": in_sync, "answers": answers}}
    remembered = role_tasks.task("instance", "failover", "Remember what the source answered")
    facts = role_tasks.value("instance", remembered["ansible.builtin.set_fact"], told)
    assert facts == {"instance_was_in_sync": in_sync, "instance_has_answered": answers}
    again = role_tasks.task("instance", "failover", "Look at both nodes again")
    assert role_tasks.value("instance", again["vars"]["instance_look_in_sync"], facts) is in_sync
    judged = role_tasks.task("instance", "failover_look", "Judge what both answered")
    asked = judged["roundsman.cluster.failover_check"]["was_in_sync"]
    assert role_tasks.value("instance", asked, {"instance_look_in_sync": in_sync}) is in_sync
