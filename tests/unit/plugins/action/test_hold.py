from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .running import Controller

WANTED: dict[str, Any] = {"instances": {"i1": "exclusive"}, "nodes": {"n2": "shared"}}


def test_a_play_holds_what_it_names_and_each_further_task_adds_to_it(controller: Controller) -> None:
    result = controller.run("hold", **WANTED)
    assert (result.get("failed"), result["changed"]) == (None, False)
    assert controller.held == {"instance/i1": "exclusive", "node/n2": "shared"}
    controller.run("hold", nodes={"n2": "exclusive", "[lockset]": "shared"}, power={"n3": "exclusive"})
    held = {"instance/i1": "exclusive", "node/n2": "exclusive", "node/[lockset]": "shared"}
    held |= {"node/n3": "shared", "node-res/n3": "exclusive"}
    assert controller.held == held
    controller.run("hold", power={"n2": "exclusive"})
    assert controller.held == held, "who has a node alone has its power"


def test_in_check_mode_nothing_is_held(controller: Controller) -> None:
    assert not controller.run("hold", is_check=True, **WANTED).get("failed")
    assert controller.held == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nodes": {"n2": "exclusive"}}, "hold: node/n2 (exclusive) was not granted to this job"),
        ({"instances": {"i2": "shared"}}, "hold: instance/i2 (shared) was not granted to this job"),
        (
            {"nodes": {"n2": "shared", "n3": "both\x1b[2J\n"}},
            "hold: the mode of node n3 is shared or exclusive, not 'both\\x1b[2J\\n'",
        ),
        ({"nodes": {"n2": ["shared"]}}, "hold: the mode of node n2 is shared or exclusive, not ['shared']"),
    ],
)
def test_what_was_not_granted_and_what_is_no_mode_is_refused_and_nothing_is_held(
    controller: Controller, options: dict[str, Any], said: str
) -> None:
    controller.grant({"node/n2": "shared"})
    assert controller.refusal("hold", **options) == said
    assert controller.held == {}
