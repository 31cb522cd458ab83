"""A run says what it did not make, and whether the machine was too slow to prove anything."""

from __future__ import annotations

import inspect
import random
import re
from typing import TYPE_CHECKING

import pytest

from tests.chaos import faults, speed, verdict
from tests.chaos.chronicle import Chronicle

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("late", "opcodes", "said"),
    [
        (0.0, [], ""),
        (0.05, [5.0] * 9, ""),
        (0.06, [5.0] * 9, "too slow to prove anything: 6 % of the looks at the clock came late"),
        (0.0, [31.0] * 4, ""),
        (0.0, [31.0] * 5, "too slow to prove anything: half of the opcodes took longer than 31 s"),
        (0.0, [31.0] * 4 + [5.0] * 5, ""),
    ],
)
def test_a_machine_that_is_too_slow_proves_nothing(late: float, opcodes: list[float], said: str) -> None:
    assert speed.why_slow(late, opcodes) == said


def test_a_machine_with_other_work_proves_nothing() -> None:
    assert speed.why_slow(0.0, [], load=4.0) == ""
    assert speed.why_slow(0.0, [], load=8.4) == "too slow to prove anything: 8 processes for each CPU wanted to run"


def test_a_run_names_what_never_came(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "chaos.log")
    chronicle.count("scenes", "lying")
    chronicle.count("kills", "daemon")
    assert chronicle.missing({"scenes": ["lying", "rack", "panicked"], "kills": ["daemon"], "stops": ["a"]}) == (
        "no scenes: panicked, rack\nno stops: a"
    )
    assert chronicle.missing({"scenes": ["lying"]}) == ""
    chronicle.close()


def test_every_fault_that_is_counted_is_expected() -> None:
    counted = set(re.findall(r'_begun\(\s*"([^"]+)"|count\("faults", "([^"]+)"', inspect.getsource(faults)))
    names = {first or second for first, second in counted}
    assert names <= set(faults.KINDS)
    assert set(faults.KINDS) - names == {
        *(f"bmc {fault}" for fault in faults.BMC_FAULTS),
        "full disk",
        "controller with a node",
    }


def test_without_agents_nothing_is_expected_of_them() -> None:
    with_agents, without = verdict.expected(has_agents=True), verdict.expected(has_agents=False)
    assert with_agents["faults"] - without["faults"] == {"agent", "loss", "lies"}
    assert "panicked" in without["scenes"]
    assert random.Random(1).choice(sorted(without["kills"])) in with_agents["kills"]
