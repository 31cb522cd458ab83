from __future__ import annotations

import inspect
from pathlib import Path

from ansible_collections.roundsman.cluster.daemon.cli import lab_faults
from ansible_collections.roundsman.cluster.daemon.lab import standing_faults

DOCUMENT = Path(__file__).parents[4] / "docs/lab.md"


def test_every_standing_fault_is_an_option_of_break_and_of_fix_and_has_its_row_in_the_document() -> None:
    faults = {fault.option for fault in standing_faults.FAULTS}
    broken, fixed = (
        {name.strip("_").replace("_", "-") for name in inspect.signature(command).parameters}
        for command in (lab_faults.break_, lab_faults.fix)
    )
    text = DOCUMENT.read_text()
    assert faults - broken == {"cut"}, "`lab cut` is a command of its own"
    assert faults <= fixed
    assert [
        option for option in faults - {"cut"} if f"| `--{option}" not in text and f", `--{option}" not in text
    ] == []


def test_every_repeatable_option_of_fix_has_its_check() -> None:
    options = inspect.signature(lab_faults.fix).parameters.values()
    repeatable = {one.name.replace("_", "-") for one in options if one.default is None and one.name != "folder"}
    assert repeatable == set(lab_faults.CHECKS)
