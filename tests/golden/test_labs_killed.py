"""What labs with kills and canceled jobs come to, compared with the trace `labs`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from . import labs, traces
from .lab_runs import elder, killed

if TYPE_CHECKING:
    from .lab_runs.story import Scenario

pytestmark = [pytest.mark.slow, pytest.mark.traces]


@pytest.mark.parametrize("scenario", killed.SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_lab_comes_to_what_it_came_to_before(scenario: Scenario) -> None:
    text = labs.text(scenario)

    assert traces.file_differences("labs", labs.file_name(scenario), text) == []


@pytest.mark.skipif(elder.environment() is None, reason=f"{elder.VARIABLE} names no environment of another checkout")
def test_what_the_daemon_of_another_checkout_began_is_adopted_and_settled() -> None:
    text = labs.text(dataclasses.replace(killed.ADOPTED, options={"environment": elder.environment()}))

    assert traces.file_differences("labs", labs.file_name(killed.ADOPTED), text) == []
