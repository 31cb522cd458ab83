"""The world around the daemon: its clock, its chances, what happens in it, and the processes and guests in it."""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import random
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files

from tests.simulation.controllers import Controller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.simulation.by_hand import Play
    from tests.simulation.case import Case
    from tests.simulation.clock import Loop
    from tests.simulation.disk import Disk
    from tests.simulation.disks import Disks
    from tests.simulation.nodes import Node
    from tests.simulation.processes import Living, Process

T = TypeVar("T")
EPOCH = 1_700_000_000.0
KEPT_LINES = 400


class Killed(KeyboardInterrupt):
    """The daemon is killed here and now: no event loop catches this, nothing of the daemon runs on.

    It must not act while its stack unwinds: its folder is renamed away, and comes back once every coroutine is closed.
    """


class Stuck(Exception):
    """Nothing will ever happen again, or not for far too long."""


class Trace:
    """What happened, in order: a digest of all, and the last lines."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.count = 0

    def tell(self, line: str) -> None:
        self.count += 1
        self._digest.update(line.encode() + b"\n")
        self.lines.append(line)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()[:16]


class _OfController(Generic[T]):
    """What the world has of the controller at whose work it is."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, world: World, _owner: type) -> T:
        found: T = getattr(world.here, self._name)
        return found

    def __set__(self, world: World, value: T) -> None:
        setattr(world.here, self._name, value)


class World:
    """Everything that outlives the daemon. `calm` is when no fault happens any more.

    `here` is the controller whose daemon, process or play is at work at this moment. `looks` has the runs after which a
    look for their instance began, and whether the last one has recorded where it is.
    """

    root: _OfController[Path] = _OfController()
    disk: _OfController[Disk] = _OfController()
    loop: _OfController[Loop | None] = _OfController()
    is_dead: _OfController[bool] = _OfController()
    known: _OfController[clusters.Cluster | None] = _OfController()
    on_spooled: _OfController[Callable[[], object]] = _OfController()
    lines: _OfController[dict[Path, bytes]] = _OfController()
    said: _OfController[dict[Path, dict[tuple[str, str], str]]] = _OfController()
    recorded: _OfController[dict[tuple[str, str], str]] = _OfController()
    booted: _OfController[float] = _OfController()

    def __init__(self, case: Case, root: Path) -> None:
        self.case = case
        self.now = EPOCH
        self.here = Controller(self, root, booted=EPOCH - 1000.0)
        self.controllers = [self.here]
        self.leader = self.here
        self.strays: set[str] = set()
        self.modules_take_time = False
        self.clock_error = 0.0
        self.stopped_clock: float | None = None
        self.is_calm = False
        self.trace = Trace()
        self.violations: list[str] = []
        self.processes: dict[Path, Process] = {}
        self.plays: dict[Path, Play] = {}
        self.misplaced: set[str] = set()
        self.acting: Process | None = None
        self.in_thread = False
        self.nodes: dict[str, Node] = {}
        self.disks: Disks | None = None
        self.cut_links: set[frozenset[str]] = set()
        self.guests: dict[str, set[str]] = {}
        self.names: dict[str, str] = {}
        self.begun: set[Path] = set()
        self.looks: dict[Path, bool] = {}
        self.kills = 0
        self.writes_on: Disk | None = None
        self._events: list[tuple[float, int, Controller, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._chances: dict[str, random.Random] = {}

    def wall_clock(self) -> float:
        """What the controller takes for the time; `now` goes on evenly."""
        return self.now + self.clock_error if self.stopped_clock is None else self.stopped_clock

    def set_clock(self, error: float) -> None:
        """Let the controller's clock go, so many seconds wrong."""
        self.clock_error, self.stopped_clock = error, None
        self.tell("the clock is wrong by", round(error), "s")

    def living(self, livelock: Path) -> Living | None:
        """The process or play by hand that holds a livelock, or did."""
        return self.plays.get(livelock) or self.processes.get(livelock.parent)

    def rng(self, concern: str) -> random.Random:
        """The chances of one concern: more of them elsewhere change nothing here."""
        if concern not in self._chances:
            self._chances[concern] = random.Random(f"{self.case.seed}/{concern}")
        return self._chances[concern]

    def happens(self, fault: str) -> bool:
        """Whether a fault happens, where it could."""
        rate = self.case.faults.get(fault, 0.0)
        return bool(rate) and not self.is_calm and self.rng(fault).random() < rate

    def tell(self, *words: Any) -> None:
        """Add a line to the trace."""
        text = " ".join(str(word) for word in words)
        for each in self.controllers:
            text = text.replace(str(each.root), each.name)
        self.trace.tell(f"{self.now - EPOCH:.3f} {self.here.name + ': ' if self.here.name else ''}{text}")

    def violated(self, text: str) -> None:
        """Keep that an invariant does not hold, once."""
        for uuid, name in self.names.items():
            text = text.replace(uuid, name)
        if text not in self.violations:
            self.violations.append(text)
            self.tell("VIOLATION", text)

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        """Have something happen after so many seconds, whether the daemon lives or not."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), self.here, act))

    @contextlib.contextmanager
    def being(self, controller: Controller) -> Iterator[None]:
        """What is done meanwhile is the work of this controller's machine."""
        before = self.here
        self._turn_to(controller)
        try:
            yield
        finally:
            self._turn_to(before)

    def _turn_to(self, controller: Controller) -> None:
        if controller is not self.here:
            self.here.memory = durable_files._DISK
            self.here, durable_files._DISK = controller, controller.memory

    def leap(self, seconds: float | None) -> None:
        """Move on to the next event, or by so many seconds where that is earlier."""
        until = None if seconds is None else self.now + seconds
        if self._events and (until is None or self._events[0][0] <= until):
            self._happen()
        elif until is not None:
            self.now = until
        else:
            raise Stuck("the daemon and the world wait for each other")

    def sleep(self, seconds: float) -> None:
        """Let time pass without a daemon."""
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self._happen()
        self.now = until

    def _happen(self) -> None:
        """The next event; one that kills a daemon has it dead, and no more."""
        at, _, controller, act = heapq.heappop(self._events)
        self.now = max(self.now, at)
        with self.being(controller), contextlib.suppress(Killed):
            act()

    def kill(self, why: str) -> NoReturn:
        """Kill the daemon here: what it does while its stack unwinds reaches no file, for its folder is away."""
        if not self.is_dead:
            self.kills += 1
            self.tell("the daemon is killed", why)
            self.here.die()
        raise Killed(why)

    def lose_power(self, why: str) -> NoReturn:
        """The whole controller is without power: its processes are gone, and what its disk has not kept."""
        self.here.has_lost_power = True
        self.kill(f"with its machine, {why}")

    def cut_power(self, within: float, why: str) -> None:
        """Have the controller lose power within so many seconds, if a daemon runs then and faults still happen."""
        self._end_soon(within, "power cuts", lambda: self.lose_power(why))

    def kill_soon(self, within: float, why: str) -> None:
        """The same, and only the daemon is killed."""
        self._end_soon(within, "kills", lambda: self.kill(why))

    def _end_soon(self, within: float, concern: str, end: Callable[[], NoReturn]) -> None:
        def act() -> None:
            if not self.is_dead and not self.is_calm:
                end()

        self.at(self.rng(self.here.concern(concern)).random() * within, act)

    def look_for_strays(self) -> None:
        """Instances of which the configuration of a controller that begins to lead says what is not so."""
        assert self.known is not None
        assert self.disks is not None
        for uuid, instance in self.known.instances.items():
            is_elsewhere = self.guests[uuid] - {instance.primary_node}
            if is_elsewhere or {*self.disks.of[uuid].ends} != {*instance.nodes}:
                self.has_strayed(uuid)

    def has_strayed(self, uuid: str) -> None:
        """Only a person corrects where an instance is: a controller whose state is older does not know it."""
        if uuid not in self.misplaced:
            self.misplaced.add(uuid)
            self.strays.add(uuid)
            self.tell(self.names[uuid], "is not where the controller that leads has it")

    def refuse_the_dead(self) -> None:
        """Whatever a daemon that was killed still does while its stack unwinds ends here."""
        if self.is_dead and self.acting is None:
            raise Killed("it is dead")
