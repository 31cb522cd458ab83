"""A small world in which every order of events is played: three nodes that vote, two controllers, one instance.

Nodes `a` and `b` may run the instance, `c` only votes. Controllers start at any time with what they have read of any
two nodes; every message may be late or lost; nodes lose their power and boot; a fence is a command and a later
reading. A step of a controller takes the instance lock on its node, compares, and starts the instance. It must never
run on both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.roundsman.cluster.daemon.maintenance import leading
from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Reply
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept, may_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VOTERS = ("a", "b", "c")
PLACES = ("a", "b")
FENCED = "a"
"""The one that may lose its power; the world is the same where it is the other."""
BOOTS = 1
"""How often a node may lose its power and boot."""


class Node(NamedTuple):
    """What a node keeps (in memory, and on its disk), which boot it is in, and who holds the lock of the instance."""

    memory: Epoch | None = None
    disk: Epoch | None = None
    boot: int = 0
    is_on: bool = True
    lock: int | None = None
    runs: bool = False


class Leader(NamedTuple):
    """A controller at work: its epoch, whether a majority promised to follow it, and what it knows of the instance.

    `replies` are what they answered with their boot, `fenced` what it read back as off, `is_sent` whether it commanded
    that, `confirmed` the boots of which it asked a majority afterwards.
    """

    epoch: Epoch
    is_elected: bool = False
    replies: tuple[tuple[str, Reply, int, bool], ...] = ()
    is_sent: bool = False
    fenced: tuple[str, ...] = ()
    confirmed: frozenset[str] = frozenset()
    has_acted: bool = False


class Order(NamedTuple):
    """A step on its way to a node or at work there: `late`, `compared` (if that comes first), `held`, `due`, `done`."""

    epoch: Epoch
    node: str
    boot: int
    stage: str = "late"


class World(NamedTuple):
    nodes: tuple[Node, ...] = (Node(), Node(), Node())
    files: tuple[Epoch | None, ...] = (None, None)
    leaders: tuple[Leader | None, ...] = (None, None)
    orders: tuple[Order, ...] = ()
    starts: int = 0


@dataclass(frozen=True)
class Rules:
    """How the world goes by the rule; each bug replaces one of these."""

    may_order: Callable[[Kept | None, Epoch], bool] = may_order
    barrier: Callable[..., dict[str, str]] = leading.barrier
    compares_before_lock: bool = False
    syncs: bool = True
    reads_back: bool = True
    makes_new: bool = True
    names_boot: bool = True
    keeps_votes: bool = False
    starts: int = 2


def node(world: World, name: str) -> Node:
    return world.nodes[VOTERS.index(name)]


def with_node(world: World, name: str, changed: Node) -> World:
    nodes = tuple(changed if each == name else old for each, old in zip(VOTERS, world.nodes, strict=True))
    return world._replace(nodes=nodes)


def with_leader(world: World, index: int, changed: Leader | None) -> World:
    leaders = tuple(changed if each == index else old for each, old in enumerate(world.leaders))
    return world._replace(leaders=leaders)


def kept(epoch: Epoch | None) -> Kept | None:
    return None if epoch is None else Kept(epoch, "", 0)


def runs_twice(world: World) -> bool:
    return all(node(world, name).runs for name in PLACES)


def following(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Each event that may be next, and the world after it."""
    for index in range(2):
        yield from _of_controller(world, index, rules)
    for number, order in enumerate(world.orders):
        yield from _of_order(world, number, order, rules)
    yield from _of_power(world, FENCED)


def _of_controller(world: World, index: int, rules: Rules) -> Iterator[tuple[str, World]]:
    leader = world.leaders[index]
    # Which of the two starts first makes no difference.
    if world.starts < rules.starts and (world.starts or index == 0):
        # What it read of any two nodes, before anything else happened to them.
        for left_out in VOTERS:
            asked = [each for each in VOTERS if each != left_out and node(world, each).is_on]
            if len(asked) == 2:
                yield f"{'AB'[index]} starts without {left_out}", _started(world, index, asked, rules)
    if leader is None:
        return
    if not leader.is_elected:
        yield from _elected(world, index, leader, rules)
    elif not leader.has_acted:
        yield from _of_leader(world, index, leader, rules)


def _elected(world: World, index: int, leader: Leader, rules: Rules) -> Iterator[tuple[str, World]]:
    """More than half of those who vote promise to follow it."""
    for left_out in VOTERS:
        asked = [each for each in VOTERS if each != left_out]
        if all(node(world, each).is_on and _takes(node(world, each), leader.epoch, rules) for each in asked):
            promised = world
            for each in asked:
                promised = with_node(promised, each, _keeps(node(world, each), leader.epoch, rules))
            told = with_leader(promised, index, leader._replace(is_elected=True))
            yield f"{' and '.join(asked)} promise to follow {leader.epoch}", told


def _takes(found: Node, epoch: Epoch, rules: Rules) -> bool:
    return rules.may_order(kept(found.memory), epoch)


def _started(world: World, index: int, asked: list[str], rules: Rules) -> World:
    own = world.files[index]
    made = Epoch(leading.number(own, [node(world, name).memory for name in asked]), f"{'AB'[index]}{world.starts}")
    if own is not None and not rules.makes_new:
        made = own
    files = tuple(made if each == index else old for each, old in enumerate(world.files))
    started = world._replace(files=files, starts=world.starts + 1)
    # What they answered before they were shown this epoch says nothing for certain: the barrier has to leave it out.
    replies = (
        ()
        if not rules.keeps_votes
        else tuple(
            (name, Reply(node(world, name).memory or Epoch(0, ""), _steps(world, name)), node(world, name).boot, False)
            for name in asked
            if name in PLACES
        )
    )
    return with_leader(started, index, Leader(made, replies=replies))


def _keeps(found: Node, epoch: Epoch, rules: Rules) -> Node:
    if found.memory is not None and found.memory.number >= epoch.number:
        return found
    return found._replace(memory=epoch, disk=epoch if rules.syncs else found.disk)


def _of_leader(world: World, index: int, leader: Leader, rules: Rules) -> Iterator[tuple[str, World]]:
    for name in PLACES:
        found = node(world, name)
        if found.is_on and rules.may_order(kept(found.memory), leader.epoch):
            told = _asked(world, name, found, leader)
            changed = with_node(world, name, _keeps(found, leader.epoch, rules))
            yield f"{name} answers {leader.epoch}", with_leader(changed, index, told)
    yield from _of_fence(world, index, leader, rules)
    if _has_no_higher(world, leader, rules):
        asked = frozenset(name for name, *_ in leader.replies)
        if asked - leader.confirmed:
            yield f"{leader.epoch} is confirmed", with_leader(world, index, leader._replace(confirmed=asked))
    replies = {name: reply for name, reply, _, _ in leader.replies}
    fenced = dict.fromkeys(leader.fenced, leader.epoch)
    if rules.barrier(leader.epoch, PLACES, replies, fenced=fenced):
        return
    if any(runs for name, _, _, runs in leader.replies if name not in leader.fenced):
        return
    for name, _, boot, _ in leader.replies:
        if name in leader.confirmed and name not in leader.fenced:
            order = Order(leader.epoch, name, boot)
            acted = with_leader(world, index, leader._replace(has_acted=True))
            yield f"{leader.epoch} orders a start on {name}", acted._replace(orders=(*acted.orders, order))


def _of_fence(world: World, index: int, leader: Leader, rules: Rules) -> Iterator[tuple[str, World]]:
    found = node(world, FENCED)
    if not leader.is_sent:
        yield f"{leader.epoch} commands {FENCED} off", with_leader(world, index, leader._replace(is_sent=True))
    elif not leader.fenced and (not found.is_on or not rules.reads_back):
        read = leader._replace(fenced=(FENCED,))
        yield f"{leader.epoch} reads {FENCED} off", with_leader(world, index, read)


def _asked(world: World, name: str, found: Node, leader: Leader) -> Leader:
    others = tuple(one for one in leader.replies if one[0] != name)
    replies = (*others, (name, Reply(leader.epoch, _steps(world, name)), found.boot, found.runs))
    return leader._replace(replies=tuple(sorted(replies)), confirmed=leader.confirmed - {name})


def _steps(world: World, name: str) -> tuple[str, ...]:
    holder = node(world, name).lock
    return () if holder is None else (str(world.orders[holder].epoch),)


def _has_no_higher(world: World, leader: Leader, rules: Rules) -> bool:
    """Whether at least half of those who vote answer, and keep nothing higher; it asks whom it likes."""
    fine = [
        name
        for name in VOTERS
        if node(world, name).is_on and rules.may_order(kept(node(world, name).memory), leader.epoch)
    ]
    return 2 * len(fine) >= len(VOTERS)


def _of_order(world: World, number: int, order: Order, rules: Rules) -> Iterator[tuple[str, World]]:
    found = node(world, order.node)
    if not found.is_on or order.stage == "done":
        return
    if rules.compares_before_lock and order.stage == "late":
        yield from _compared(world, number, order, rules, after="compared")
    elif order.stage in {"late", "compared"} and found.lock is None:
        held = with_node(world, order.node, found._replace(lock=number))
        after = "due" if order.stage == "compared" else "held"
        yield f"the step of {order.epoch} holds the lock on {order.node}", _with_order(held, number, order, after)
    elif order.stage == "held":
        yield from _compared(world, number, order, rules, after="due")
    elif order.stage == "due":
        done = with_node(world, order.node, found._replace(lock=None, runs=True))
        yield f"{order.node} starts the instance for {order.epoch}", _with_order(done, number, order, "done")


def _compared(world: World, number: int, order: Order, rules: Rules, *, after: str) -> Iterator[tuple[str, World]]:
    found = node(world, order.node)
    named = epochs.Order(order.epoch, "", 0, str(order.boot) if rules.names_boot else "")
    is_taken = rules.may_order(kept(found.memory), order.epoch) and epochs.is_for_boot(named, str(found.boot))
    if is_taken:
        kept_now = with_node(world, order.node, _keeps(found, order.epoch, rules))
        yield f"{order.node} takes the step of {order.epoch}", _with_order(kept_now, number, order, after)
    else:
        free = found.lock if found.lock != number else None
        refused = with_node(world, order.node, found._replace(lock=free))
        yield f"{order.node} refuses the step of {order.epoch}", _with_order(refused, number, order, "done")


def _with_order(world: World, number: int, order: Order, stage: str) -> World:
    changed = order._replace(stage=stage)
    return world._replace(orders=tuple(changed if n == number else one for n, one in enumerate(world.orders)))


def _of_power(world: World, name: str) -> Iterator[tuple[str, World]]:
    """A fence, or a cut cable: what is at work there is gone, and what is on its way is not."""
    found = node(world, name)
    if found.is_on and found.boot < BOOTS and _is_wanted_off(world):
        off = found._replace(is_on=False, memory=None, lock=None, runs=False)
        gone = with_node(world, name, off)
        at_work = {"held", "due", "compared"}
        orders = tuple(
            one._replace(stage="done") if one.node == name and one.stage in at_work else one for one in gone.orders
        )
        yield f"{name} is off", gone._replace(orders=orders)
    elif not found.is_on:
        yield (
            f"{name} boots",
            with_node(world, name, found._replace(is_on=True, memory=found.disk, boot=found.boot + 1)),
        )


def _is_wanted_off(world: World) -> bool:
    """Power that nobody cut is lost in other tests: it only makes this world larger."""
    return any(leader is not None and leader.is_sent for leader in world.leaders)


def violation(rules: Rules, *, most: int, backwards: bool = True) -> list[str] | None:
    """A way to an instance that runs twice; None if there is none. `most` bounds the worlds looked at, depth first.

    With `backwards` the events of a world are tried in the opposite order: it finds most bugs much sooner.
    """
    first = World()
    seen: dict[World, tuple[World, str] | None] = {first: None}
    ahead = [first]
    while ahead:
        world = ahead.pop()
        events = list(following(world, rules))
        for event, after in reversed(events) if backwards else events:
            if after in seen:
                continue
            seen[after] = (world, event)
            if runs_twice(after):
                return _way(seen, after)
            ahead.append(after)
        if len(seen) > most:
            raise AssertionError(f"more than {most} worlds")
    return None


def _way(seen: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    told: list[str] = []
    while (step := seen[world]) is not None:
        world, event = step
        told.append(event)
    return told[::-1]
