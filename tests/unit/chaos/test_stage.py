"""Scenes are played in calm only, each once before one comes again, and what they leave behind is ended."""

from __future__ import annotations

import inspect
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import standing_faults

from tests.chaos import stage
from tests.chaos.chronicle import Chronicle
from tests.chaos.scenes import Cast, Scenes, Until

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[3] / "docs/decisions/chaos.md"
NUMBERS = {10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen"}


class Deck(stage.Stage):
    """A stage with scenes of a test, which an instance of a lab that was never built plays; `now` is its clock."""

    def __init__(self, chronicle: Chronicle, scenes: dict[str, Any]) -> None:
        self.now = 0.0
        super().__init__(None, None, Faults(), random.Random(1), chronicle, clock=lambda: self.now)  # type: ignore[arg-type]
        self._scenes = scenes

    def _cast(self, now: float) -> Cast:
        node: Any = Node()
        return Cast("instance1", node, node, node)

    def play(self, *, times: int) -> None:
        """Begin scenes, with two seconds between the looks at them."""
        for _ in range(times):
            self.now += 2
            self.begin()
            self.tend()


class Faults:
    """The faults of a lab, of which there are none."""

    reserved: frozenset[str] = frozenset()


class Node:
    """A node that remembers nothing."""

    name = "node2"

    def set_faults(self, faults: list[str]) -> None:
        """Break no BMC."""


@pytest.fixture(autouse=True)
def no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node has a fault that could be ended."""
    monkeypatch.setattr(standing_faults, "fix", lambda _node: [])


@pytest.fixture
def chronicle(tmp_path: Path) -> Iterator[Chronicle]:
    made = Chronicle(tmp_path / "chaos.log")
    yield made
    made.close()


def test_every_scene_is_played_and_the_page_says_how_many_there_are() -> None:
    written = [
        name
        for name, method in inspect.getmembers(Scenes, inspect.isgeneratorfunction)
        if [*inspect.signature(method).parameters] == ["self", "cast"]
    ]
    played = Scenes(None, random.Random(1)).all  # type: ignore[arg-type] # no door is opened
    assert sorted(scene.__name__ for scene in played.values()) == sorted(written)
    assert f"| {NUMBERS[len(played)]} scenes (`tests/chaos/scenes.py`)" in PAGE.read_text()


def test_each_scene_comes_round_before_one_comes_again(chronicle: Chronicle) -> None:
    Deck(chronicle, {name: lambda _: iter(()) for name in "abc"}).play(times=6)
    assert chronicle.counts["scenes"] == {"a": 2, "b": 2, "c": 2}


def test_a_scene_waits_for_what_it_waits_for_and_no_longer_than_its_limit(chronicle: Chronicle) -> None:
    has_come, done = [False], []

    def scene(_: Cast) -> Iterator[Until]:
        yield Until(lambda: has_come[0], 1000)
        done.append("came")
        yield Until(lambda: False, 5)
        done.append("did not come")

    deck = Deck(chronicle, {"one": scene})
    deck.play(times=1)
    deck.tend()
    assert done == []
    has_come[0] = True
    deck.tend()
    assert done == ["came"]
    deck.now += 5
    deck.tend()
    assert done == ["came", "did not come"]


def test_no_more_than_two_scenes_are_played_at_the_same_time(chronicle: Chronicle) -> None:
    Deck(chronicle, {"long": lambda _: iter([1000.0])}).play(times=5)
    assert chronicle.counts["scenes"] == {"long": 2}
