"""A node that runs what has its primary elsewhere, or at which nobody can look, ends the play."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.roles import role_tasks

WRONG = "Refuse a node that runs what has its primary on another one"
UNKNOWN = "Refuse a node that nobody can look at"


@pytest.mark.parametrize(
    ("name", "compared", "expected"),
    [
        (WRONG, {"found": {"node1": ["web1 runs"]}, "troubles": {}}, True),
        (WRONG, {"found": {}, "troubles": {}}, False),
        (WRONG, {"failed": True}, True),
        (UNKNOWN, {"found": {}, "troubles": {"node1": "no answer"}}, True),
        (UNKNOWN, {"found": {}, "troubles": {}}, False),
        (UNKNOWN, {"skipped": True}, True),
    ],
)
def test_what_is_wrong_or_not_known_ends_the_play(name: str, compared: dict[str, Any], expected: bool) -> None:
    one = role_tasks.task("node", "second_copies", name)
    assert role_tasks.refuses("node", one, {"node_copies": compared}) is expected
