from __future__ import annotations

import itertools

import pytest
from ansible_collections.roundsman.cluster.daemon.locks import holders, table
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import LEVELS, Mode

X, SH = Mode.EXCLUSIVE, Mode.SHARED
A, B, C, D, E = (holders.Owner(name) for name in "ABCDE")


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
    [
        *((f"{one}/x", f"{other}/x") for one, other in itertools.pairwise(reversed(LEVELS))),
        ("node/2", "node/1"),
        ("node/1", "instance/9"),
    ],
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


def test_the_queue_of_the_design_is_served_in_the_order_that_it_draws() -> None:
    """Seed 004, "Locking priorities": the order in which its example is acquired; all who share may do so at once."""
    one = table.Table()
    one.request(A, {"node/1": X})
    for priority, mode, names in (
        (33, SH, ["S6"]),
        (33, X, ["E4", "E5"]),
        (10, X, ["E3"]),
        (0, X, ["E1", "E2"]),
        (2, SH, ["S4"]),
        (0, SH, ["S1", "S2"]),
        (2, SH, ["S5"]),
        (0, SH, ["S3"]),
    ):
        for name in names:
            one.request(holders.Owner(name), {"node/1": mode}, priority=priority)
    order: list[str] = []
    at_work = one.release(A)
    while at_work:
        order += [owner.name for owner in at_work]
        at_work = [later for owner in at_work for later in one.release(owner)]
    groups = [["E1"], ["E2"], ["S1", "S2", "S3"], ["S4", "S5"], ["E3"], ["S6"], ["E4"], ["E5"]]
    assert order == [name for group in groups for name in group]


SET = "instance/[lockset]"


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ({SET: X}, {"instance/a": SH}, False),
        ({SET: SH}, {"instance/a": SH}, True),
        ({SET: SH}, {"instance/a": X}, False),
        ({"instance/a": X}, {SET: SH}, False),
        ({"instance/a": SH}, {SET: SH}, True),
        ({"instance/a": SH}, {SET: X}, False),
        ({SET: X}, {"node/a": X}, True),
    ],
)
def test_a_set_lock_stands_for_all_of_its_level(
    first: dict[str, Mode], second: dict[str, Mode], *, together: bool
) -> None:
    one = table.Table()
    one.request(A, first)
    assert one.request(B, second) == ([B] if together else [])
    assert one.blockers(B) == ([] if together else ["A"])
    assert together or one.release(A) == [B]


def test_nobody_waits_for_a_member_of_a_set_that_he_has() -> None:
    one = table.Table()
    one.request(A, {SET: X})
    assert one.request(A, {"instance/a": X}) == [A]
    assert one.locks_of(A) == {SET: X}


def test_a_member_cannot_be_had_alone_while_its_set_is_shared() -> None:
    one = table.Table()
    one.request(A, {SET: SH})
    with pytest.raises(errors.LockRefused, match=r"A asks for instance/a alone while it shares instance/\[lockset\]"):
        one.request(A, {"instance/a": X})


def test_a_set_comes_before_its_members_in_the_order() -> None:
    one = table.Table()
    one.request(A, {"instance/A": X})
    with pytest.raises(errors.LockRefused, match=r"asks for instance/\[lockset\] while it holds instance/A"):
        one.request(A, {SET: X})


def test_what_is_shared_from_now_on_lets_the_others_share_it() -> None:
    one = table.Table()
    one.request(A, {"node/1": X, "node/2": X})
    one.request(B, {"node/1": SH})
    one.request(C, {"node/2": SH})
    assert one.downgrade(A, ["node/1"]) == [B]
    assert one.locks_of(A) == {"node/1": SH, "node/2": X}
    assert one.release(A, ["node/2"]) == [C]
    with pytest.raises(errors.LockRefused, match="A does not hold node/2"):
        one.downgrade(A, ["node/2"])


def test_of_two_who_share_only_one_may_wait_to_have_it_alone() -> None:
    one = table.Table()
    one.request(A, {"node/1": SH})
    one.request(B, {"node/1": SH})
    assert one.request(A, {"node/1": X}) == []
    with pytest.raises(errors.LockRefused, match="B asks for node/1, where A holds a lock and waits for what B holds"):
        one.request(B, {"node/1": X})
    assert one.release(B) == [A]


@pytest.mark.parametrize("asked", ["node/1", "node/2"])
def test_who_has_a_member_and_who_shares_its_set_do_not_wait_for_each_other_for_ever(asked: str) -> None:
    one = table.Table()
    one.request(A, {"node/[lockset]": SH})
    one.request(B, {"node/1": SH})
    assert one.request(A, {"node/[lockset]": X}) == []
    with pytest.raises(errors.LockRefused, match=f"B asks for {asked}, where A holds a lock and waits for what B"):
        one.request(B, {asked: X})
    assert one.release(B) == [A]


def test_another_priority_moves_a_waiting_request_but_not_before_those_that_came_earlier() -> None:
    one = table.Table()
    for owner in (A, B, C, D):
        one.request(owner, {"node/1": X}, priority=0 if owner != D else -1)
    assert one.reprioritize(C, -1) == []
    assert [request.owner for request in one.waiting] == [C, D, B]
    one.reprioritize(C, 0)
    assert [request.owner for request in one.waiting] == [D, B, C]


def test_an_owner_does_not_wait_behind_a_request_that_waits_for_it() -> None:
    one = table.Table()
    one.request(A, {"instance/1": X})
    one.request(B, {"instance/1": X, "node/1": X})
    assert one.request(A, {"node/1": X}) == [A]


def test_an_owner_passes_those_who_come_to_wait_for_it_later() -> None:
    one = table.Table()
    one.request(A, {"instance/1": X})
    one.request(C, {"instance/2": X})
    one.request(B, {"instance/2": X, "node/1": X})
    assert one.request(A, {"node/1": X}) == []
    assert one.request(C, {"instance/3": SH, "node/2": SH}) == [C]
    assert one.blockers(A) == ["B"]
    one.request(D, {"node/0": X})
    assert one.request(C, {"node/3": SH}) == [C]
    assert one.release(C) == [B]
    assert one.release(B) == [A]


def test_a_thousand_waiting_requests_are_served_in_their_order() -> None:
    one = table.Table()
    one.request(A, {"node/1": X})
    for number in range(1000):
        one.request(holders.Owner(str(number)), {"node/1": X, f"instance/{number}": X}, priority=-(number % 3))
    served = one.release(A)
    order = []
    while served:
        assert len(served) == 1
        order.append(int(served[0].name))
        served = one.release(served[0])
    assert order == sorted(range(1000), key=lambda number: (-(number % 3), number))
