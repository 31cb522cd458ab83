from __future__ import annotations

from tests.golden import traces


def test_opcodes_are_to_the_queue_what_they_were() -> None:
    assert traces.differences("opcodes") == []
