from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import drbd
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_node

if TYPE_CHECKING:
    from pathlib import Path

STATE = " 0: cs:{} ro:Secondary/Unknown ds:UpToDate/DUnknown C r-----\n"
GOING = "web-disk0 role:Secondary\n  volume:0 minor:0 disk:UpToDate\n"


class Going:
    """A node on which a resource is up in the first looks, and always gone from /proc/drbd by then."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def run(self, *_: str, time_limit: float = 0.0, accepted: tuple[int, ...] = ()) -> str:
        del time_limit, accepted
        self.looks -= 1
        return GOING if self.looks >= 0 else ""


def test_a_resource_that_goes_down_between_the_two_looks_is_looked_at_again(tmp_path: Path) -> None:
    proc = tmp_path / "drbd"
    proc.write_text("version: 8.4.11 (api:1/proto:86-101)\n")
    assert drbd_node.DrbdNode(Going(2), proc=proc).resources() == drbd.Resources([], {})
    found = drbd_node.DrbdNode(Going(3), proc=proc).resources()
    assert found == drbd.Resources([], {"web-disk0": "/proc/drbd does not list all its minors"})


@pytest.mark.parametrize(("state", "left"), [("Splendid", 8), ("WFConnection", 8)])
def test_what_is_there_in_both_looks_is_not_looked_at_again_though_it_cannot_be_read(
    tmp_path: Path, state: str, left: int
) -> None:
    proc, node = tmp_path / "drbd", Going(9)
    proc.write_text("version: 8.4.11 (api:1/proto:86-101)\n" + STATE.format(state))
    found = drbd_node.DrbdNode(node, proc=proc).resources()
    assert (list(found.unread), node.looks) == (["web-disk0"] if state == "Splendid" else [], left)
