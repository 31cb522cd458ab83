from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.oob import children

if TYPE_CHECKING:
    import pytest


def test_ends_come_in_the_order_of_the_tasks() -> None:
    ends = children.run([lambda report, n=n: report(f"task {n}") for n in range(12)], deadline=30.0, width=3)  # type: ignore[misc]
    assert [end.line for end in ends] == [f"task {n}" for n in range(12)]


def test_a_child_that_hangs_is_killed_and_its_last_line_kept() -> None:
    def hang(report: children.Report) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        report("begun")
        time.sleep(60)
        report("too late")

    hung, quick = children.run([hang, lambda report: report("done")], deadline=2.0, width=1)
    assert (hung.line, hung.killed) == ("begun", True)
    assert (quick.line, quick.killed) == ("done", False)


def test_a_line_that_was_cut_short_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def tear(report: children.Report) -> None:
        report("whole")
        monkeypatch.setattr(os, "write", _write_half)
        report("never whole")

    def _write_half(fd: int, data: bytes) -> int:
        write(fd, data[:4])
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    write = os.write
    [end] = children.run([tear], deadline=30.0)
    assert end.line == "whole"


def test_of_a_child_that_talks_without_end_only_the_last_line_is_kept() -> None:
    def talk(report: children.Report) -> None:
        for number in range(2000):
            report(f"{number} {'x' * 50_000}")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [end] = children.run([talk], deadline=60.0)
    assert (end.line or "").startswith("1999 ")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000


def test_a_child_whose_line_is_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LONGEST_LINE", 100_000)

    def talk(report: children.Report) -> None:
        report("first")
        report("x" * 1_000_000)

    [end] = children.run([talk], deadline=60.0)
    assert end.line == "first"


def test_a_child_that_fails_neither_speaks_nor_returns_into_the_caller(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(report: children.Report) -> None:
        sys.stdout.write("noise")
        os.write(1, b"noise")
        raise RuntimeError("broken")

    me = os.getpid()
    [end] = children.run([fail], deadline=30.0)
    assert (end.line, end.killed, os.getpid()) == (None, False, me)
    assert capfd.readouterr() == ("", "")


def test_no_child_is_left_behind() -> None:
    before = _children()
    children.run([lambda report: report("done"), lambda _: signal.pause()], deadline=0.2)
    assert _children() <= before, "those that earlier tests have left may end meanwhile"


def _children() -> set[str]:
    """The process ids of this process's children, zombies included."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}
