"""What is seen from outside is as it was recorded, and every route of the daemon's applications is recorded."""

from __future__ import annotations

import pytest

from tests.golden import traces


@pytest.mark.timeout(1800)  # 25 s of CPU, whatever else the machine does
def test_answers_refusals_and_help_are_as_they_were_recorded() -> None:
    assert traces.differences("faces") == []
