from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import locks
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode

X, SH = Mode.EXCLUSIVE, Mode.SHARED
SET = "node/[lockset]"


@pytest.mark.parametrize(
    ("wants", "named"),
    [
        ({"instance/a": X, "node/b": SH, "moon/c": X, "instance": X}, {"a"}),
        ({"instance/[lockset]": SH}, {"a", "b"}),
        ({"instance/gone": X}, {"gone"}),
        ({"node/a": X}, set()),
    ],
)
def test_the_objects_of_locks_are_those_that_they_name_or_all(wants: dict[str, Mode], named: set[str]) -> None:
    assert locks.objects(wants, "instance", known=("a", "b")) == named


@pytest.mark.parametrize(
    ("held", "mode", "covered"),
    [
        ({"node/a": X}, X, True),
        ({"node/a": X}, SH, True),
        ({"node/a": SH}, X, False),
        ({"node/a": SH}, SH, True),
        ({SET: X}, X, True),
        ({SET: SH}, SH, True),
        ({SET: SH}, X, False),
        ({SET: SH, "node/a": X}, X, True),
        ({"node/b": X, "instance/[lockset]": X}, SH, False),
        ({}, SH, False),
    ],
)
def test_a_lock_is_had_by_itself_or_by_its_set_and_exclusive_stands_for_shared(
    held: dict[str, Mode], mode: Mode, *, covered: bool
) -> None:
    assert locks.covers(held, "node/a", mode) is covered


def test_a_member_does_not_stand_for_its_set() -> None:
    assert not locks.covers({"node/a": X}, SET, SH)


@pytest.mark.parametrize("held", [{"node/a": X}, {SET: X}])
def test_who_has_a_lock_alone_may_record(held: dict[str, Mode]) -> None:
    locks.refuse_unless_alone(held, "node/a")


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ({"node/a": SH}, "node/a is only shared"),
        ({SET: SH}, "node/a is only shared"),
        ({"node/b": X}, "node/a is not held"),
        ({"instance/[lockset]": X}, "node/a is not held"),
    ],
)
def test_who_shares_a_lock_or_has_another_may_not_record(held: dict[str, Mode], told: str) -> None:
    with pytest.raises(errors.Refused, match=told):
        locks.refuse_unless_alone(held, "node/a")
