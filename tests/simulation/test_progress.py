"""What is said of a run of seeds: while it goes on, and where it is ended early."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simulation import progress, trial

ROOT = Path(__file__).resolve().parents[2]
OUTCOME = trial.Outcome("", (), (), settled=10, daemons=2, seconds=1.0)


class Times:
    """Clocks that are set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_comes_each_half_minute_where_no_terminal_shows_it() -> None:
    out, times = io.StringIO(), Times()
    done = progress.Progress(7, out=out, clock=times, cpu=times)
    for _ in range(7):
        times.now += 10.0
        done.add(OUTCOME)
    assert out.getvalue().splitlines() == [
        "seeds 7 to 9: 30 jobs settled in 6 daemons, 60 in a CPU minute; 30 s",
        "seeds 7 to 12: 60 jobs settled in 12 daemons, 60 in a CPU minute; 60 s",
    ]


def test_a_seed_that_was_not_played_to_its_end_was_under_way() -> None:
    times = Times()
    done = progress.Progress(7, out=io.StringIO(), clock=times, cpu=times)
    with done.playing(7):
        done.add(OUTCOME)
    assert "under way" not in done.text()
    with pytest.raises(KeyboardInterrupt), done.playing(8):
        raise KeyboardInterrupt
    assert done.text().startswith("seeds 7 to 7: 10 jobs")
    assert done.text().endswith("; seed 8 was under way")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_says_how_far_it_was(number: signal.Signals) -> None:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "playbooks/collections")))
    words = [sys.executable, "-c", PROGRAM, "--seeds", "1000"]
    child = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.send_signal(number)
    said, _ = child.communicate(timeout=60)
    assert child.returncode == 128 + number
    assert "no invariant was violated, and it was ended early" in said
    assert said.startswith(("no seed: 0 jobs", "seeds 1 to "))
    # An interruption that comes between two seeds has none under way.
    assert " was under way" in said or said.startswith("seeds 1 to ")


PROGRAM = """
import signal
from tests.simulation import __main__ as main
listen = main._signals
def said():
    heard = listen()
    print("ready", flush=True)
    return heard
main._signals = said
main.main()
"""
