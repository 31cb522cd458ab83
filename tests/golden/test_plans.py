from __future__ import annotations

from tests.golden import traces


def test_plans_are_as_they_were_recorded() -> None:
    assert traces.differences("plans") == []
