"""A daemon that starts on a state folder of the version of before says and does what was recorded."""

from __future__ import annotations

import pytest

from tests.golden import traces


@pytest.mark.timeout(1800)  # 6 s of CPU, whatever else the machine does
def test_a_kept_state_folder_is_taken_over_as_it_was_recorded() -> None:
    assert traces.differences("state_folder") == []
