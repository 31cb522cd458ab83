"""All benches, one after the other: `python -m tests.bench`; `--write` keeps what they print in docs/performance.md.

Each is a process of its own that prints its figures. Those that fail, or are not over within their time, are listed at
the end. `--quick` has those that take about five minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = "docs/performance.md"
LIMIT = 1200.0
"""Seconds that one bench may take."""
QUICK = ("one_opcode", "round", "failover", "job_queue")
ALL = ("power", "emergency", *QUICK, "configuration", "agents", "leading", "planner", "balancing", "growth")
HEAD = """# What operations cost

`make bench WRITE=1` has written this page: figures of one machine and one commit, to be compared with those of another
commit on the same machine. Ratios in one run say more than seconds; each bench says what it compares with.

"""


def main() -> int:
    """Run the benches, and say in the end which of them failed."""
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.add_argument("benches", nargs="*", metavar="BENCH", help=f"some of them: {', '.join(ALL)} (default: all)")
    options.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    options.add_argument("--write", action="store_true", help=f"write {PAGE}")
    given = options.parse_args()
    if unknown := set(given.benches) - set(ALL):
        options.error(f"there is no bench {', '.join(sorted(unknown))}: use some of {', '.join(ALL)}")
    if given.write and (given.quick or given.benches):
        options.error("the page has all benches: --write stands alone")
    figures, failed = [], []
    for name in given.benches or (QUICK if given.quick else ALL):
        text, why = run(name)
        figures.append((name, text))
        failed += [f"{name}: {why}"] if why else []
    if given.write and not failed:
        (ROOT / PAGE).write_text(page(figures))
    print(*failed or ["all benches ran to their end"], sep="\n")
    return 1 if failed else 0


def run(name: str) -> tuple[str, str]:
    """What a bench prints, which is shown as it comes, and why it failed ('' if it did not)."""
    print(f"== {name}", flush=True)
    began, lines = time.monotonic(), []
    command = ["timeout", "--kill-after=10", f"{LIMIT:g}", sys.executable, str(ROOT / "tests/bench" / f"{name}.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    took = time.monotonic() - began
    print(f"({took:.0f} s)\n", flush=True)
    why = "" if process.returncode == 0 else f"it ended with {process.returncode} after {took:.0f} s"
    return "".join(lines), why


def page(figures: list[tuple[str, str]]) -> str:
    """The page with the figures of all benches."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    python = f"Python {platform.python_version()}"
    machine = f"{os.cpu_count()} CPUs, {platform.machine()}, Linux {platform.release()}, {python}"
    parts = [f"## {name}\n\n```\n{text.rstrip()}\n```\n" for name, text in figures]
    return f"{HEAD}{today}, commit {commit}, {machine}.\n\n" + "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
