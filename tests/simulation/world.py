"""The world around the daemon: its clock, its chances, what happens in it, and the processes and guests in it."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import os
import random
import shutil
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

from tests.simulation.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.simulation.by_hand import Play
    from tests.simulation.case import Case
    from tests.simulation.clock import Loop
    from tests.simulation.disks import Disks
    from tests.simulation.nodes import Node
    from tests.simulation.processes import Living, Process

_RENAME = os.rename
EPOCH = 1_700_000_000.0
KEPT_LINES = 400


class Killed(KeyboardInterrupt):
    """The daemon is killed here and now: no event loop catches this, nothing of the daemon runs on."""


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


class World:
    """Everything that outlives the daemon. `calm` is when no fault happens any more."""

    def __init__(self, case: Case, root: Path) -> None:
        self.case = case
        self.root = root
        self.now = EPOCH
        self.clock_error = 0.0
        self.stopped_clock: float | None = None
        self.is_calm = False
        self.is_dead = True
        self.loop: Loop | None = None
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
        self.known: clusters.Cluster | None = None
        self.on_spooled: Callable[[], object] = lambda: None
        self.guests: dict[str, set[str]] = {}
        self.names: dict[str, str] = {}
        self.begun: set[Path] = set()
        self.lines: dict[Path, bytes] = {}
        self.said: dict[Path, dict[tuple[str, str], str]] = {}
        self.recorded: dict[tuple[str, str], str] = {}
        self.kills = 0
        self.boots = 1
        self.booted = EPOCH - 1000.0
        self.disk = Disk(self)
        self._has_lost_power = False
        self.on_leap: Callable[[], None] = lambda: None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
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
        text = " ".join(str(word) for word in words).replace(str(self.root), "")
        self.trace.tell(f"{self.now - EPOCH:.3f} {text}")

    def violated(self, text: str) -> None:
        """Keep that an invariant does not hold, once."""
        for uuid, name in self.names.items():
            text = text.replace(uuid, name)
        if text not in self.violations:
            self.violations.append(text)
            self.tell("VIOLATION", text)

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        """Have something happen after so many seconds, whether the daemon lives or not."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), act))

    def leap(self, seconds: float | None) -> None:
        """Move on to the next event, or by so many seconds where that is earlier."""
        self.on_leap()
        until = None if seconds is None else self.now + seconds
        if self._events and (until is None or self._events[0][0] <= until):
            at, _, act = heapq.heappop(self._events)
            self.now = max(self.now, at)
            act()
        elif until is not None:
            self.now = until
        else:
            raise Stuck("the daemon and the world wait for each other")

    def sleep(self, seconds: float) -> None:
        """Let time pass without a daemon."""
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            at, _, act = heapq.heappop(self._events)
            self.now = max(self.now, at)
            act()
        self.now = until

    def kill(self, why: str) -> NoReturn:
        """Kill the daemon here: what it does while its stack unwinds reaches no file, for its folder is away."""
        if not self.is_dead:
            self.is_dead = True
            self.kills += 1
            self.tell("the daemon is killed", why)
            _RENAME(self.root, self._aside)
        raise Killed(why)

    def lose_power(self, why: str) -> NoReturn:
        """The whole controller is without power: its processes are gone, and what its disk has not kept."""
        self._has_lost_power = True
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

        self.at(self.rng(concern).random() * within, act)

    def bury(self) -> None:
        """Nothing of the killed daemon is left: its folder is back in its place, without what its end made anew."""
        if self._aside.exists():
            shutil.rmtree(self.root, ignore_errors=True)
            _RENAME(self._aside, self.root)
        if self._has_lost_power:
            self._has_lost_power = False
            for process in (*self.processes.values(), *self.plays.values()):
                process.end("is gone with the machine")
            self.disk.lose_power()
            self.boots, self.booted = self.boots + 1, self.now
            self.boot()

    def boot(self) -> None:
        """What a boot of the controller makes anew: its name, and the folders that are memory."""
        (self.root.parent / "boot_id").write_text(f"boot {self.boots}\n")
        where = tree.Tree(self.root)
        shutil.rmtree(where.run, ignore_errors=True)
        where.run.mkdir(parents=True)

    @property
    def _aside(self) -> Path:
        return self.root.with_name(self.root.name + ".of-the-dead")

    def refuse_the_dead(self) -> None:
        """Whatever a daemon that was killed still does while its stack unwinds ends here."""
        if self.is_dead and self.acting is None:
            raise Killed("it is dead")
