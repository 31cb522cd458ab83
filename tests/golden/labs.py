"""The trace `labs`: what short scripted runs of small labs come to, some of them with kills; a file for each.

The scenarios are data with small functions in `lab_runs/by_rounds.py`, `by_hand.py` and `killed.py`.
`lab_runs/story.py` plays them: it calls the labs of `tests/integration` (a real daemon, real playbooks, simulated
nodes), the daemon's socket and the command line. `lab_runs/account.py` writes what they come to: it calls the daemon's
answers, `roundsman explain`, the readers of the nodes' journals and replicas, and the checker.

Only what follows from the script under any interleaving is recorded:
- what happened to an instance, across nodes in its order: one job at a time acts on an instance, and its steps are in
  an order; the events of several instances are not put in one order;
- roles and connections of each replica on its node, in their order there: the two ends of a pair act at the same time;
- not when a resync ended, how far writes had come, when a node was looked at, ages, dates, sizes of memory in use;
- jobs by their number: a round submits its jobs at once in the order of its plan, and a script asks for the next job
  when the one before has ended or waits for it; no time or order of their ends;
- what incidents, nodes and instances are when nothing is at work any more, and how often an incident was changed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.integration import labs

from .lab_runs import account, by_hand, by_rounds, killed, story

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIOS = (*by_rounds.SCENARIOS, *by_hand.SCENARIOS, *killed.SCENARIOS)


def record() -> Iterator[tuple[str, str]]:
    """The text of each scenario; all of them take a quarter of an hour."""
    for scenario in SCENARIOS:
        yield file_name(scenario), text(scenario)


def file_name(scenario: story.Scenario) -> str:
    """The name of the file of a scenario."""
    return f"{scenario.name}.txt"


def text(scenario: story.Scenario) -> str:
    """Play a scenario, and write what it has come to."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        running = (scenario.start or story.up)(Path(folder) / "lab", scenario.options)
        try:
            scenario.play(running)
            return f"# {scenario.name}\n\n{account.write(running, scenario.explained)}"
        finally:
            running.close()
            labs.down(running)
