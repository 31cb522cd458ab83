from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import opcode_process, process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONE = "print(flush=True); input()"
TWO = f"import threading; threading.Thread(target=threading.Event().wait, daemon=True).start(); {ONE}"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with an event that was begun."""
    events = tmp_path / opcode_process.EVENTS
    events.mkdir(parents=True)
    (events / "1-partial.json.tmp").touch()
    return tmp_path


@contextlib.contextmanager
def at_work(run: Path, script: str) -> Iterator[None]:
    """A process of the run that has come so far as to have all its threads."""
    environment = {**os.environ, process.RUN_VARIABLE: str(run)}
    command = [sys.executable, "-S", "-c", script]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield
        child.kill()


def test_a_play_without_the_thread_that_takes_results_is_not_heard(run: Path) -> None:
    with at_work(run, ONE):
        assert opcode_process.is_unheard(run)


def test_a_play_with_the_thread_that_takes_results_is_heard(run: Path) -> None:
    with at_work(run, ONE), at_work(run, TWO):
        assert not opcode_process.is_unheard(run)


def test_a_play_whose_events_are_all_written_is_heard(run: Path) -> None:
    begun = run / opcode_process.EVENTS / "1-partial.json.tmp"
    begun.rename(begun.with_suffix(""))
    with at_work(run, ONE):
        assert not opcode_process.is_unheard(run)


def test_a_play_that_has_ended_is_nobody_to_be_ended(run: Path) -> None:
    assert not opcode_process.is_unheard(run)
