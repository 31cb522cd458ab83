from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.maintenance_settings import Settings
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import report_ages


@pytest.mark.parametrize(
    ("settings", "nodes", "expected"),
    [
        (Settings(diagnose_interval=60.0, agent_port=1815), 1000, 240.0),
        (Settings(diagnose_interval=2.0, agent_port=1815), 6, 240.0),
        (Settings(diagnose_interval=300.0, agent_port=1815), 6, 960.0),
        (Settings(diagnose_interval=2.0), 6, 75.0),
        (Settings(diagnose_interval=60.0), 1000, 1740.0),
        (Settings(diagnose_interval=0.0), 6, 3600.0),
    ],
)
def test_a_report_counts_for_three_polls_and_a_minute(settings: Settings, nodes: int, expected: float) -> None:
    assert report_ages.limit(settings, nodes=nodes) == expected


@pytest.mark.parametrize(
    ("age", "expected"), [(0.0, True), (240.0, True), (240.1, False), (-1.0, True), (-60.0, False)]
)
def test_a_report_from_the_future_has_no_known_age(age: float, *, expected: bool) -> None:
    assert report_ages.is_current(1000.0, now=1000.0 + age, limit=240.0) is expected
