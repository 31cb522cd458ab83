"""The tree of a run with one controller has the limits of who leads as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos import trees

if TYPE_CHECKING:
    from pathlib import Path

LAPSE = "LAPSE_SECONDS = 180.0"


def test_only_with_two_controllers_the_limits_of_who_leads_are_shorter(tmp_path: Path) -> None:
    for name, has_two in (("one", False), ("two", True)):
        trees.make(tmp_path / name, mutant=None, has_two=has_two)
        found = LAPSE in (tmp_path / name / "daemon/maintenance/leading.py").read_text()
        assert found is not has_two
