from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

if TYPE_CHECKING:
    from .running import Controller

OFF: dict[str, Any] = {"change": "node_powered", "node": "n3", "powered": False}
ON: dict[str, Any] = {"change": "node_powered", "node": "n2", "powered": True}


def test_what_the_play_holds_is_recorded_alone_or_together(controller: Controller) -> None:
    controller.run("hold", nodes={"n2": "exclusive", "n3": "exclusive"})
    result = controller.run("record", **OFF)
    assert (result["changed"], result["recorded"]) == (True, OFF)
    assert controller.run("record", changes=[ON, OFF])["changed"]
    off, on = changes.NodePowered("n3", powered=False), changes.NodePowered("n2", powered=True)
    assert controller.recorded == [off, on, off]
    assert not controller.run("record", changes=[])["changed"]
    assert len(controller.recorded) == 3


def test_in_check_mode_a_change_is_checked_and_not_recorded(controller: Controller) -> None:
    controller.run("hold", nodes={"n3": "exclusive"})
    assert controller.run("record", is_check=True, **OFF)["changed"]
    said = "node_powered: powered is None, which is not a bool"
    assert controller.refusal("record", is_check=True, change="node_powered", node="n3") == said
    assert controller.recorded == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"changes": [OFF, ON]}, "node/n2 is only shared: hold it exclusively first"),
        ({**OFF, "node": "n1"}, "node/n1 is not held: run the play again"),
        ({**OFF, "powered": "\x1b[2Jno\n"}, "node_powered: powered is '\\x1b[2Jno\\n', which is not a bool"),
        ({**OFF, "serial_no": 7}, "node_powered: there is no field 'serial_no'"),
        ({"change": "config", "text": "x"}, "'config' is not a change that can be recorded"),
        ({}, "None is not a change that can be recorded"),
        ({"changes": ["node_powered"]}, "'node_powered' is not a change that can be recorded"),
        ({"changes": 5}, "changes must be a list of changes (got 5)"),
        ({"changes": OFF}, f"changes must be a list of changes (got {OFF!r})"),
    ],
)
def test_what_is_not_held_or_no_change_is_refused_and_nothing_of_it_is_recorded(
    controller: Controller, options: dict[str, Any], said: str
) -> None:
    controller.run("hold", nodes={"n3": "exclusive", "n2": "shared"})
    assert controller.refusal("record", **options) == said
    assert controller.recorded == []
