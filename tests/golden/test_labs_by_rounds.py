"""What rounds do in a lab by themselves, compared with the trace `labs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import labs, traces
from .lab_runs import by_rounds

if TYPE_CHECKING:
    from .lab_runs.story import Scenario

pytestmark = [pytest.mark.slow, pytest.mark.traces]


@pytest.mark.parametrize("scenario", by_rounds.SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_lab_comes_to_what_it_came_to_before(scenario: Scenario) -> None:
    text = labs.text(scenario)

    assert traces.file_differences("labs", labs.file_name(scenario), text) == []
