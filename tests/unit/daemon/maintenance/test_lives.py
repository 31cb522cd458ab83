"""Who was asked, and who lived, as the daemon itself has seen it."""

from __future__ import annotations

from ansible_collections.roundsman.cluster.daemon.maintenance import lives
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.replicas import Moment


def at(second: float) -> Moment:
    return Moment(1_000_000.0 + second, second)


def test_a_node_was_asked_from_the_first_question_to_the_last_unless_there_was_a_gap() -> None:
    known = lives.Lives(clock=lambda: 1_000_000.0, monotonic=lambda: 0.0)
    assert known.asked("a") is None
    for second in (0.0, 10.0, 20.0):
        known.ask("a", at(second), gap=10.0)
    asked = known.asked("a")
    assert asked is not None
    assert (asked.since, asked.last) == (at(0.0), at(20.0))
    known.ask("a", at(30.5), gap=10.0)
    asked = known.asked("a")
    assert asked is not None
    assert (asked.since, asked.last) == (at(30.5), at(30.5))
    assert known.asked("b") is None


def test_the_latest_sign_of_life_counts_and_the_present_where_no_moment_is_given() -> None:
    known = lives.Lives(clock=lambda: 1_000_005.0, monotonic=lambda: 5.0)
    assert known.alive("a") is None
    known.live(["a", "b"], at(10.0))
    known.live(["a"], at(3.0))
    assert known.alive("a") == known.alive("b") == at(10.0)
    known.live(["a"], at(12.0))
    assert (known.alive("a"), known.alive("b")) == (at(12.0), at(10.0))
    known.live(["c"])
    assert known.alive("c") == known.now() == at(5.0)


def test_nodes_that_have_left_are_forgotten_and_no_others() -> None:
    known = lives.Lives(clock=lambda: 1_000_000.0, monotonic=lambda: 0.0)
    for node in ("a", "b"):
        known.ask(node, at(1.0), gap=10.0)
        known.live([node], at(1.0))
    known.keep(["b", "c"])
    assert (known.asked("a"), known.alive("a")) == (None, None)
    assert (known.asked("b") is not None, known.alive("b")) == (True, at(1.0))
