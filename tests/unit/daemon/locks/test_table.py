from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.daemon.locks import table
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.locks import LEVELS, Mode
from hypothesis import given, settings
from hypothesis import strategies as st

X, SH = Mode.EXCLUSIVE, Mode.SHARED
A, B, C, D, E = (table.Owner(name) for name in "ABCDE")


def holders(one: table.Table, lock: str) -> set[str]:
    return {owner.name for owner in one.held.get(lock, {})}


@pytest.mark.parametrize(
    ("first", "second", "together"), [(SH, SH, True), (SH, X, False), (X, SH, False), (X, X, False)]
)
def test_only_shared_holders_are_together(first: Mode, second: Mode, *, together: bool) -> None:
    one = table.Table()
    assert one.request(A, {"node/1": first}) == [A]
    assert one.request(B, {"node/1": second}) == ([B] if together else [])
    assert one.request(C, {"node/2": X}) == [C]


def test_a_request_gets_all_its_locks_or_none() -> None:
    one = table.Table()
    one.request(A, {"node/2": X})
    assert one.request(B, {"node/1": X, "node/2": X}) == []
    assert one.locks_of(B) == {}
    assert one.release(A) == [B]
    assert one.locks_of(B) == {"node/1": X, "node/2": X}


@pytest.mark.parametrize(
    ("held", "asked"),
    [*zip(LEVELS[1:], LEVELS, strict=False), ("node/2", "node/1"), ("node/1", "instance/9")],
)
def test_asking_against_the_order_is_refused_with_both_names(held: str, asked: str) -> None:
    one = table.Table()
    one.request(A, {held: SH})
    with pytest.raises(errors.LockRefused, match=f"A asks for {asked} while it holds {held}"):
        one.request(A, {asked: SH})
    assert one.waiting == []
    assert one.locks_of(A) == {held: SH}


def test_what_is_held_already_is_no_new_wish() -> None:
    one = table.Table()
    one.request(A, {"instance/1": SH, "node/1": X})
    assert one.request(A, {"instance/1": SH, "node/1": SH, "node/2": SH}) == [A]
    assert one.locks_of(A) == {"instance/1": SH, "node/1": X, "node/2": SH}


def test_a_lock_without_a_level_and_a_second_wish_are_refused() -> None:
    one = table.Table()
    with pytest.raises(errors.LockRefused, match="'disk/1'"):
        one.request(A, {"disk/1": SH})
    one.request(A, {"node/1": X})
    one.request(B, {"node/1": X})
    with pytest.raises(errors.LockRefused, match="B waits"):
        one.request(B, {"node/2": X})


@pytest.mark.parametrize("priority", [0, -10])
def test_a_newcomer_does_not_overtake_a_waiting_request_of_the_same_or_a_higher_priority(priority: int) -> None:
    one = table.Table()
    one.request(A, {"node/1": SH})
    one.request(B, {"node/1": X}, priority=priority)
    assert one.request(C, {"node/1": SH}, priority=0) == []
    assert one.request(D, {"node/1": SH, "node/2": X}) == []
    assert one.request(E, {"node/2": X}) == []
    assert one.release(A) == [B]
    assert one.release(B) == [C, D]


def test_a_higher_priority_goes_first_and_arrival_decides_within_one() -> None:
    one = table.Table()
    one.request(A, {"node/1": X})
    for owner, priority in ((B, 10), (C, 0), (D, 0), (E, -10)):
        assert one.request(owner, {"node/1": X}, priority=priority) == []
    served, last = [], A
    while granted := one.release(last):
        served += granted
        last = granted[0]
    assert served == [E, C, D, B]


def test_a_shared_request_joins_the_waiting_group_of_its_priority_until_that_is_served() -> None:
    one = table.Table()
    one.request(A, {"node/1": X})
    one.request(B, {"node/1": SH})
    one.request(C, {"node/1": X})
    one.request(D, {"node/1": SH})
    assert one.release(A) == [B, D]
    assert one.request(E, {"node/1": SH}) == []
    assert one.release(B) == []
    assert one.release(D) == [C]
    assert one.release(C) == [E]


def test_a_shared_request_of_a_lower_priority_joins_no_group() -> None:
    one = table.Table()
    one.request(A, {"node/1": X})
    one.request(B, {"node/1": SH})
    one.request(C, {"node/1": X})
    one.request(D, {"node/1": SH}, priority=1)
    assert one.release(A) == [B]


def test_those_for_whom_one_waits_are_named() -> None:
    one = table.Table()
    one.request(A, {"node/1": SH})
    one.request(B, {"node/1": X})
    one.request(C, {"node/1": SH})
    assert (one.blockers(A), one.blockers(B), one.blockers(C)) == ([], ["A"], ["B"])


OWNERS = [table.Owner(str(number)) for number in range(5)]
WANTS = st.dictionaries(st.sampled_from(["instance/1", "node/1", "node/2"]), st.sampled_from(list(Mode)), min_size=1)
STEPS = st.lists(
    st.one_of(st.sampled_from(OWNERS), st.tuples(st.sampled_from(OWNERS), WANTS, st.integers(-1, 1))), max_size=25
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_modes_never_clash_and_nobody_waits_for_ever_when_everyone_releases(
    steps: list[table.Owner | tuple[table.Owner, dict[str, Mode], int]],
) -> None:
    one = table.Table()
    for step in steps:
        if isinstance(step, table.Owner):
            one.release(step)
        elif not one.locks_of(step[0]) and all(other.owner != step[0] for other in one.waiting):
            one.request(step[0], step[1], priority=step[2])
        for found in one.held.values():
            assert len(found) == 1 or X not in found.values()
    for _round in OWNERS:
        for owner in sorted(one.owners(), key=lambda found: found.name):
            one.release(owner)
    assert (one.waiting, one.held) == ([], {})
