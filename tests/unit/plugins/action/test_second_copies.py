from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .running import Controller

RECORDS = {"inst1": {"primary": "node2", "up": True, "hypervisor": "kvm", "resources": ["r0"]}}
RUNNING = {"states": {"inst1": "running"}}
WRITES = {"sides": [{"resource": "r0", "role": "Primary"}]}


@pytest.mark.parametrize(
    ("looks", "found", "troubles"),
    [
        ({"node2": {"runs": [RUNNING], "disks": [WRITES]}}, {}, {}),
        ({"node3": {"runs": [{"states": {"stray": "running"}}]}}, {}, {}),
        ({"node3": {"disks": [{"sides": [{"resource": "r0", "role": "Secondary"}]}]}}, {}, {}),
        ({"node3": {"runs": [RUNNING]}}, {"node3": ["inst1 is running on node3, and its primary is node2: "]}, {}),
        (
            {"node2": {"runs": [RUNNING]}, "node3": {"runs": [{"states": {"inst1": "paused"}}]}},
            {"node3": ["inst1 is paused on node3, and its primary is node2, where it is running too: "]},
            {},
        ),
        ({"node3": {"disks": [WRITES]}}, {"node3": ["node3 may write the disk r0 of inst1, whose primary is "]}, {}),
        ({"node3": {"runs": [{"unreachable": True}]}}, {}, {"node3": "it does not answer"}),
        (
            {"node3": {"runs": [RUNNING], "disks": [{"failed": True, "msg": "no drbd\x1b[2J"}]}},
            {"node3": ["inst1 is running on node3, "]},
            {"node3": "no drbd\\x1b[2J"},
        ),
        (
            {"node3": {"runs": [{"states": None}]}},
            {},
            {"node3": "its answer does not say which instances are there"},
        ),
    ],
)
def test_what_a_node_runs_or_writes_of_others_is_told_and_why_not_all_was_seen(
    controller: Controller, looks: dict[str, Any], found: dict[str, list[str]], troubles: dict[str, str]
) -> None:
    for is_check in (False, True):
        result = controller.run("second_copies", is_check=is_check, looks=looks, records=RECORDS)
        assert (result.get("failed"), result["changed"]) == (None, False)
        assert result["troubles"] == troubles
        assert {node: len(texts) for node, texts in result["found"].items()} == dict.fromkeys(found, 1)
        for node, (beginning,) in found.items():
            assert result["found"][node][0].startswith(beginning)


def test_what_a_node_says_is_printable_and_cut(controller: Controller) -> None:
    state = "running\x1b[2J\nnode2: nothing runs here" + "x" * 5000
    looks = {"node3": {"runs": [{"states": {"inst1": state}}]}}
    (text,) = controller.run("second_copies", looks=looks, records=RECORDS)["found"]["node3"]
    assert text.startswith("inst1 is running\\x1b[2J\\nnode2: nothing")
    assert text.isprintable()
    assert len(text) < 600
