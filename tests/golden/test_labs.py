"""The files of the trace `labs`, whose scenarios the slow tests beside this one play."""

from __future__ import annotations

from . import labs, traces


def test_every_scenario_is_recorded_and_nothing_else() -> None:
    files = {file.name for file in (traces.RECORDED / "labs").iterdir()}

    assert files == {labs.file_name(scenario) for scenario in labs.SCENARIOS}
