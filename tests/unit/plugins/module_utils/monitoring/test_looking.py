from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import looking
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import sights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from . import nodes


class Clock(threading.Event):
    """The time of the thread: looks take time, and the pauses between them are noted; it stops after the last look."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.pauses: list[float] = []
        self.changes: list[float] = []
        self.looks: list[Callable[[], object]] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        self.now += timeout or 0.0
        if not self.looks:
            self.set()
        return self.is_set()

    def look(self, *_: object, **__: object) -> object:
        return self.looks.pop(0)()


def run(
    node: nodes.Node, monkeypatch: pytest.MonkeyPatch, looks: Callable[[Clock], Sequence[Callable[[], object]]]
) -> Clock:
    """The clock after these looks."""
    clock = Clock()
    clock.looks = list(looks(clock))
    monkeypatch.setattr(looking, "time", clock)
    monkeypatch.setattr(sights, "look", clock.look)
    looking._run(node.surroundings().node, clock, lambda: clock.changes.append(clock.now))
    return clock


def raising(error: Exception) -> Callable[[], None]:
    def look() -> None:
        raise error

    return look


def test_it_looks_every_five_seconds_whatever_a_look_takes(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def taking(clock: Clock, seconds: float) -> Callable[[], None]:
        return lambda: setattr(clock, "now", clock.now + seconds)

    clock = run(node, monkeypatch, lambda one: [taking(one, 0.5), taking(one, 0.0), taking(one, 7.0)])
    assert clock.pauses == [4.5, 5.0, 0.0]


def test_programs_that_hang_do_not_pile_up(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def hanging(clock: Clock) -> Callable[[], None]:
        def look() -> None:
            clock.now += sights.SECONDS
            raise errors.Failed("drbdsetup show is not done after 10 s")

        return look

    clock = run(node, monkeypatch, lambda one: [hanging(one) for _ in range(8)] + [lambda: None])
    assert clock.pauses == [0.0, 10.0, 30.0, 70.0, 150.0, 290.0, 290.0, 290.0, 5.0]


def test_a_look_that_fails_is_logged_once_and_is_not_the_last(
    node: nodes.Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failure = errors.Failed("drbdsetup status: no answer")
    looks = [raising(failure), raising(failure), raising(ZeroDivisionError("x")), lambda: None, lambda: None]
    run(node, monkeypatch, lambda _: looks)
    assert [record.getMessage() for record in caplog.records] == [
        "the look at DRBD: drbdsetup status: no answer",
        "the look at DRBD failed",
        "the look at DRBD: it answers again",
    ]


def test_a_look_that_never_ends_holds_up_nobody(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, ends, stopping = threading.Event(), threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> None:
        looks.set()
        ends.wait()

    monkeypatch.setattr(sights, "look", hang)
    looking.start(node.surroundings().node, stopping, on_change=looks.clear)
    assert looks.wait(30), "it looks in a thread of its own"
    (found,) = (thread for thread in threading.enumerate() if thread.name == "sights")
    assert found.daemon, "it does not keep the agent from ending"
    stopping.set()
    ends.set()
    found.join(30)
    assert not found.is_alive()


def test_what_a_look_finds_otherwise_than_the_one_before_is_told_once(
    node: nodes.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter(["connected", "connected", "lost", "lost", "connected"])
    clock = run(node, monkeypatch, lambda _: [lambda: next(found)] * 5)
    assert clock.changes == [10.0, 20.0], "not the first look: the agent has just begun"
