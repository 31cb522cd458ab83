"""A secondary is outdated only on the word of a node on which the instance runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.roles import role_tasks

STEP = {"instance": {"name": "web1"}, "primary": {"name": "node1"}, "member": {"name": "node2"}}
REFUSE = "Refuse to outdate a replica on the word of a node where the instance does not run"


@pytest.mark.parametrize(
    ("answer", "is_refused"),
    [
        ({"running": ["web1", "web2"]}, False),
        ({"running": ["web2"]}, True),
        ({"running": [], "states": {"web1": "crashed"}}, True),
        ({"failed": True, "msg": "no libvirt"}, True),
        ({"unreachable": True}, True),
    ],
)
def test_nothing_is_outdated_unless_the_instance_runs_on_its_primary(
    answer: dict[str, Any], *, is_refused: bool
) -> None:
    known = {"step": STEP, "repair_primary": answer}
    names = [task["name"] for task in role_tasks.tasks("repair", "outdate_replica")]
    assert names.index(REFUSE) < names.index("Outdate the replica")
    step = role_tasks.task("repair", "outdate_replica", REFUSE)
    assert role_tasks.refuses("repair", step, known) is is_refused
