"""What goes wrong by chance in a run of chaos, on the folder of a lab in which nothing runs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.lab import standing_faults

from tests.chaos.chronicle import Chronicle
from tests.chaos.faults import Faults
from tests.integration import labs
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

NOT_BY_CHANCE = {"autostart": "a node that starts what moved away meanwhile is a second copy: a scene ends it in time"}


def test_each_fault_of_the_lab_comes_by_chance_unless_there_is_a_reason(tmp_path: Path) -> None:
    lab = twins.lab(tmp_path)
    faults = Faults(labs.Running(lab, {}), random.Random(1), Chronicle(tmp_path / "chaos.log"))
    missing = {fault.option for fault in standing_faults.FAULTS} - NOT_BY_CHANCE.keys()
    for _ in range(300):
        if missing:
            faults.strike()
            missing -= {one.option for node in lab.nodes() for one in standing_faults.standing(node)}
            faults.end_all()
    assert missing == set()
