"""The lock table against a naive model that looks at everything each time (hypothesis, stateful)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.roundsman.cluster.daemon.locks import holders, table
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

LOCKS = ["instance/[lockset]", "instance/a", "instance/b", "node/[lockset]", "node/a", "node/b", "config/data"]
OWNERS = [holders.Owner(name) for name in "ABCDEF"]
WANTS = st.dictionaries(st.sampled_from(LOCKS), st.sampled_from(list(Mode)), min_size=1, max_size=3)
PRIORITIES = st.integers(-2, 1)


def overlap(one: str, other: str) -> bool:
    level, name = one.split("/")
    level2, name2 = other.split("/")
    return level == level2 and (name == name2 or "[lockset]" in {name, name2})


def clash(one: dict[str, Mode], other: dict[str, Mode]) -> bool:
    return any(
        overlap(lock, lock2) and Mode.EXCLUSIVE in {mode, mode2}
        for lock, mode in one.items()
        for lock2, mode2 in other.items()
    )


@dataclass
class Wish:
    owner: holders.Owner
    wants: dict[str, Mode]
    place: tuple[int, int, int]


@dataclass
class Model:
    """Who holds what and who waits, with every question answered by looking at all of it."""

    held: dict[holders.Owner, dict[str, Mode]] = field(default_factory=lambda: {owner: {} for owner in OWNERS})
    wishes: list[Wish] = field(default_factory=list)

    def needs(self, wish: Wish) -> set[holders.Owner]:
        """Those who must let go of something, or be served, before a wish can be."""
        holders = {one for one, held in self.held.items() if one != wish.owner and clash(wish.wants, held)}
        ahead = {one.owner for one in self.wishes if one.place < wish.place and clash(wish.wants, one.wants)}
        return holders | ahead

    def depends(self, wish: Wish, owner: holders.Owner) -> bool:
        found, before = self.needs(wish), set[holders.Owner]()
        while found != before:
            before = found
            found = found | {need for one in self.wishes if one.owner in found for need in self.needs(one)}
        return owner in found

    def is_free(self, wish: Wish) -> bool:
        if any(one != wish.owner and clash(wish.wants, held) for one, held in self.held.items()):
            return False
        ahead = [one for one in self.wishes if one.place < wish.place and clash(wish.wants, one.wants)]
        return all(self.held[wish.owner] and self.depends(one, wish.owner) for one in ahead)

    def settle(self) -> set[holders.Owner]:
        """Serve all that can be served, in order, until nothing changes."""
        served: set[holders.Owner] = set()
        while ready := next((one for one in sorted(self.wishes, key=lambda one: one.place) if self.is_free(one)), None):
            self.wishes.remove(ready)
            self.held[ready.owner].update(ready.wants)
            served.add(ready.owner)
        return served


class LockTable(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = table.Table()
        self.model = Model()
        self.number = 0

    @rule(owner=st.sampled_from(OWNERS), wants=WANTS, priority=PRIORITIES)
    def ask(self, owner: holders.Owner, wants: dict[str, Mode], priority: int) -> None:
        mine = self.table.locks_of(owner)
        try:
            granted = self.table.request(owner, wants, priority=priority)
        except errors.LockRefused:
            assert mine or any(one.owner == owner for one in self.model.wishes)
            assert self.table.locks_of(owner) == mine
            return
        missing = {
            lock: mode
            for lock, mode in wants.items()
            if not any(
                (have == lock or have == lock.split("/")[0] + "/[lockset]") and held in {Mode.EXCLUSIVE, mode}
                for have, held in mine.items()
            )
        }
        arrival = self.number
        if missing and Mode.EXCLUSIVE not in missing.values():
            group = [one for one in self.model.wishes if one.place[0] == priority and one.wants == missing]
            arrival = min((one.place[1] for one in group), default=arrival)
        self.model.wishes.append(Wish(owner, missing, (priority, arrival, self.number)))
        self.number += 1
        assert set(granted) == self.model.settle()

    @rule(owner=st.sampled_from(OWNERS))
    def let_go(self, owner: holders.Owner) -> None:
        granted = self.table.release(owner)
        self.model.held[owner] = {}
        self.model.wishes = [one for one in self.model.wishes if one.owner != owner]
        assert set(granted) == self.model.settle()

    @rule(owner=st.sampled_from(OWNERS), lock=st.sampled_from(LOCKS))
    def let_go_of_one(self, owner: holders.Owner, lock: str) -> None:
        granted = self.table.release(owner, [lock])
        self.model.held[owner].pop(lock, None)
        assert set(granted) == self.model.settle()

    @rule(owner=st.sampled_from(OWNERS))
    def give_up(self, owner: holders.Owner) -> None:
        granted = self.table.withdraw(owner)
        self.model.wishes = [one for one in self.model.wishes if one.owner != owner]
        assert set(granted) == self.model.settle()

    @rule(owner=st.sampled_from(OWNERS))
    def share(self, owner: holders.Owner) -> None:
        names = list(self.table.locks_of(owner))
        granted = self.table.downgrade(owner, names)
        self.model.held[owner] = dict.fromkeys(names, Mode.SHARED)
        assert set(granted) == self.model.settle()

    @rule(owner=st.sampled_from(OWNERS), priority=PRIORITIES)
    def age(self, owner: holders.Owner, priority: int) -> None:
        granted = self.table.reprioritize(owner, priority)
        for one in self.model.wishes:
            if one.owner == owner and one.place[0] != priority:
                one.place = (priority, one.place[2], one.place[2])
        assert set(granted) == self.model.settle()

    @invariant()
    def both_say_the_same(self) -> None:
        assert {owner: self.table.locks_of(owner) for owner in OWNERS} == self.model.held
        assert [one.owner for one in self.table.waiting] == [
            one.owner for one in sorted(self.model.wishes, key=lambda one: one.place)
        ]

    @invariant()
    def modes_never_clash(self) -> None:
        held = [(owner, locks) for owner, locks in self.model.held.items() if locks]
        assert not any(clash(one, other) for owner, one in held for owner2, other in held if owner != owner2)

    @invariant()
    def somebody_waits_for_nobody(self) -> None:
        waiting = {one.owner for one in self.model.wishes}
        assert not waiting or any(held for owner, held in self.model.held.items() if owner not in waiting)

    def teardown(self) -> None:
        """When everybody lets go of what he was given, everybody is given what he asked for."""
        waiting = {one.owner for one in self.table.waiting}
        served: set[holders.Owner] = set()
        while at_work := [owner for owner in OWNERS if self.table.locks_of(owner) and not self.table.is_waiting(owner)]:
            served.update(self.table.release(at_work[0]))
        assert (served, self.table.waiting, self.table.held) == (waiting, [], {})


LockTable.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestLockTable = LockTable.TestCase
