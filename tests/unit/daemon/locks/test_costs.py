"""What changes of the table cost, in lines of code carried out: twice the requests, about twice the work."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.locks import holders, listing, table
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

X, SH = Mode.EXCLUSIVE, Mode.SHARED
SET = "node/[lockset]"
FIRST = holders.Owner("first")
FEW = 100
WANTS: dict[str, Callable[[int], dict[str, Mode]]] = {
    "one node": lambda _: {"node/1": SH},
    "the set": lambda _: {SET: SH},
    "a node each": lambda number: {f"node/{number}": X},
    "an instance and two nodes": lambda number: {
        f"instance/{number}": X,
        f"node/{number % 7}": SH,
        f"node/{number % 5}": SH,
    },
}


def steps(act: Callable[[], object]) -> int:
    """How many lines a call carries out."""
    count, before = 0, sys.gettrace()

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def awaited(wants: Callable[[int], dict[str, Mode]], number: int) -> table.Table:
    """A set that is held, and requests that wait for it."""
    one = table.Table()
    one.request(FIRST, {SET: X})
    for each in range(number):
        one.request(holders.Owner(str(each)), wants(each))
    return one


@pytest.mark.parametrize("wants", WANTS.values(), ids=WANTS)
def test_to_release_a_set_costs_so_much_for_each_who_waits(wants: Callable[[int], dict[str, Mode]]) -> None:
    few, many = awaited(wants, FEW), awaited(wants, 2 * FEW)
    assert steps(lambda: many.release(FIRST)) < 2.5 * steps(lambda: few.release(FIRST))
    assert len(many.owners()) == 2 * FEW


def test_the_locks_of_one_are_given_back_at_the_same_cost_however_many_share_them_and_wait() -> None:
    costs = []
    for number in (FEW, 2 * FEW):
        one = awaited(WANTS["one node"], number)
        one.release(FIRST)
        for each in range(number):
            one.request(holders.Owner(f"waits {each}"), {"node/1": X})
        costs.append(steps(lambda one=one: one.release(holders.Owner("0"))))  # type: ignore[misc]  # bound now
    assert costs[1] < 1.5 * costs[0]


def test_a_list_of_all_costs_so_much_for_each_who_waits_and_names_ten_of_those_before() -> None:
    few, many = (awaited(lambda _: {"node/1": X, "node/2": SH}, number) for number in (FEW, 2 * FEW))
    assert steps(lambda: listing.rows(many, name_of=str)) < 2.5 * steps(lambda: listing.rows(few, name_of=str))
    last = listing.rows(many, name_of=str)[1]["waiting"][-1]
    assert len(last["behind"]) == table.MOST_BLOCKERS
    assert "first" in last["behind"]
