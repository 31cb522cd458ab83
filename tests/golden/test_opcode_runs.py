from __future__ import annotations

import pytest

from tests.golden import traces


@pytest.mark.slow
@pytest.mark.traces
@pytest.mark.timeout(3600)  # 9 minutes of an idle machine
def test_runs_of_opcodes_do_in_a_lab_what_they_did() -> None:
    assert traces.differences("opcode_runs") == []
