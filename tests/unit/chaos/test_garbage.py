"""Each body that chaos sends is refused at the door, and nothing changes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.api.asking import Door

from tests.chaos import garbage
from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Every:
    """A chance that offers everything it could choose from, one at each call."""

    def __init__(self) -> None:
        self.found: list[bytes] = []

    def randbytes(self, count: int) -> bytes:
        return random.Random(count).randbytes(count)

    def randint(self, low: int, _high: int) -> int:
        return low + 40

    def choice(self, kinds: tuple[bytes, ...]) -> bytes:
        self.found = list(kinds)
        return kinds[0]


def bodies(field: str) -> list[bytes]:
    chance = Every()
    garbage.body(field, chance)  # type: ignore[arg-type]
    return chance.found


def test_whatever_garbage_is_sent_it_is_refused_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: Reached) -> None:
        before = one.running.configuration.current.serial_no
        answers = {}
        for method, path, field in garbage.FIELDS:
            for content in bodies(field):
                url = path.format(instance="instance1", node="node2")
                headers = {"content-type": "application/json", "x-roundsman-user": "wim"}
                answer = await one.client.request(method, url, content=content, headers=headers)
                answers[method, url, content[:40]] = answer.status_code
        assert {key: status for key, status in answers.items() if not 400 <= status < 500} == {}
        # A text may also be a name that nobody has; all else is refused for what it is.
        assert all(answers[method, path, b"17"] == 400 for method, path, _ in answers)
        assert (one.running.configuration.current.serial_no, one.running.queue.jobs) == (before, {})

    reach(tmp_path, monkeypatch, act, is_local=False, door=Door.REMOTE)
