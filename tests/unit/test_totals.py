from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import totals

ROOT = Path(__file__).resolve().parents[2]
FAILING = """
=========================== short test summary info ============================
SKIPPED [2] tests/unit/a.py:3: no such program
FAILED tests/unit/a.py::test_one[x y-1] - AssertionError: it - is not
ERROR tests/unit/b.py::test_two - OSError: none
=== 1 failed, 5 passed, 2 skipped, 9 deselected, 1 warning, 1 error in 62.10s (0:01:02) ===
"""
LOGGED = """
------------------------------ Captured log call -------------------------------
ERROR    asyncio:base_events.py:1771 Task was destroyed but it is pending!
WARNING  roundsman:settling.py:191 Interrupted: INTERNALERROR
"""
PASSING = "============ 7 passed, 3 deselected in 1.20s ============\n3 passed, 1 skipped in 0.50s\n"


def log(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = totals.main(list(arguments))
    return status, capsys.readouterr().out


def test_all_runs_of_all_logs_are_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = [log(tmp_path, "test.log", FAILING), log(tmp_path, "real.log", PASSING)]
    assert printed(capsys, *logs) == (0, "15 passed, 2 failed, 3 skipped\n")


def test_a_log_that_is_not_there_counts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, str(tmp_path / "none.log")) == (0, "0 passed, 0 failed, 0 skipped\n")
    assert printed(capsys, "--failed", str(tmp_path / "none.log")) == (1, "")


def test_what_passed_when_it_was_run_once_more_has_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = [log(tmp_path, "test.log", FAILING), log(tmp_path, "test-again.log", "=== 1 failed, 1 passed in 3.00s ===")]
    assert printed(capsys, *logs) == (0, "6 passed, 1 failed, 2 skipped\n")


def test_the_tests_that_failed_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = "tests/unit/a.py::test_one[x y-1]\ntests/unit/b.py::test_two\n"
    assert printed(capsys, "--failed", log(tmp_path, "test.log", FAILING)) == (0, names)
    assert printed(capsys, "--failed", log(tmp_path, "test.log", LOGGED + FAILING)) == (0, names)


@pytest.mark.parametrize(
    "text",
    [
        PASSING,
        FAILING.replace("tests/unit/b.py::test_two", "tests/unit/b.py"),
        FAILING.replace("OSError: none", "worker 'gw1' crashed while running tests/unit/b.py::test_two"),
        "INTERNALERROR> Traceback\n" + FAILING,
        FAILING + "!!!!! Interrupted: 1 error during collection !!!!!\n",
        FAILING.partition("===\n")[0].rpartition("\n===")[0],
        "".join(f"FAILED tests/a.py::test_{number} - x\n" for number in range(6)) + "== 6 failed in 1.00s ==\n",
    ],
    ids=["nothing failed", "collection", "crash", "internal", "interrupted", "no end", "many"],
)
def test_what_is_no_chance_is_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert printed(capsys, "--failed", log(tmp_path, "test.log", text)) == (1, "")


SUITE = """
set -euo pipefail
make() { .venv/bin/python -m pytest "test_$1.py"; }
eval "$(sed -n '/^suite() {/,/^}/p' "$RUN")"
suite "$NAME" "not slow"
"""
CHANCE = """
from pathlib import Path
def test_chance():
    there = Path("there").exists()
    Path("there").touch()
    assert there
def test_well(): ...
"""
TEXTS = {"chance": CHANCE, "wrong": "def test_wrong(): assert 0\n", "broken": "import nothing_of_the_kind\n"}


@pytest.mark.parametrize(("name", "status"), [("chance", 0), ("wrong", 1), ("broken", 1)])
def test_a_failure_that_does_not_come_again_is_named_and_every_other_one_ends_the_run(
    tmp_path: Path, name: str, status: int
) -> None:
    (tmp_path / ".lab").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / ".venv/bin/python").chmod(0o755)
    (tmp_path / "tests").mkdir()
    shutil.copy(totals.__file__, tmp_path / "tests")
    (tmp_path / f"test_{name}.py").write_text(TEXTS[name])
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra\nmarkers = slow\n")
    environment = {**os.environ, "NAME": name, "RUN": str(ROOT / ".ci/run")}
    ended = subprocess.run(
        ["bash", "-c", SUITE], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert (ended.returncode != 0) == bool(status), ended.stdout + ended.stderr
    flaky = tmp_path / ".lab/flaky.log"
    assert (flaky.read_text() if flaky.exists() else "") == (
        "test_chance.py::test_chance\n" if name == "chance" else ""
    )
    assert (tmp_path / f".lab/{name}-again.log").exists() == (name != "broken")


@pytest.mark.parametrize("command", ["true", "false"])
def test_the_last_line_of_a_run_is_the_sum_however_it_ends(tmp_path: Path, command: str) -> None:
    (tmp_path / ".lab").mkdir()
    log(tmp_path / ".lab", "flaky.log", "a.py::test_one\nb.py::test_two\n")
    logs = [log(tmp_path / ".lab", "test.log", PASSING), str(tmp_path / ".lab/guests.log")]
    (tmp_path / "tests").mkdir()
    shutil.copy(totals.__file__, tmp_path / "tests")
    lines = (
        'eval "$(sed -n \'/^finish() {/,/^}/p\' "$RUN")"',
        f"logs=({' '.join(logs)})",
        "background=",
        "trap finish EXIT",
    )
    script = "\n".join(("set -euo pipefail", *lines, command, "echo well"))
    environment = {**os.environ, "RUN": str(ROOT / ".ci/run")}
    ended = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert ended.returncode == (command == "false"), ended.stderr
    told = ["FLAKY: a.py::test_one b.py::test_two", "10 passed, 0 failed, 1 skipped"]
    assert ended.stdout.splitlines() == [*([] if command == "false" else ["well"]), *told]


@pytest.mark.parametrize(("status", "told"), [(0, "With the newest libraries: "), (1, "THE NEWEST LIBRARIES FAIL: ")])
def test_what_fails_with_the_newest_libraries_is_told_at_the_end_and_fails_nothing(
    tmp_path: Path, status: int, told: str
) -> None:
    (tmp_path / ".lab").mkdir()
    (tmp_path / "tests").mkdir()
    shutil.copy(totals.__file__, tmp_path / "tests")
    (tmp_path / "make").write_text(f"#!/bin/sh\necho newer than pinned: a==2\necho it ran $1\nexit {status}\n")
    (tmp_path / "make").chmod(0o755)
    script = """
        set -euo pipefail
        eval "$(sed -n -e '/^finish() {/,/^}/p' -e '/^newest() {/,/^}/p' "$RUN")"
        logs=() background=
        trap finish EXIT
        newest >.lab/newest-said.log
    """
    environment = {**os.environ, "RUN": str(ROOT / ".ci/run"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "it ran newest" in ended.stdout
    *_, summary, newer, _total = ended.stdout.splitlines()
    assert summary.startswith(told)
    assert newer == "newer than pinned: a==2"
