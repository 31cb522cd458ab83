"""Adds up what logs of pytest say: `totals.py LOG...` prints the sum, `totals.py --failed LOG` the tests that failed.

A log that is not there counts nothing. A log `NAME-again.log` has the tests of `NAME.log` that failed, run once more:
what passed there has passed. `--failed` exits with status 1 where running the failed tests again would prove nothing:
after errors of the collection, crashes, or more than five failures.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

MOST = 5
AGAIN = "-again"
_SUMMARY = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in \d[\d.]*s(?: \([\d:]+\))?(?: =*)?$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
# What a failed test has logged begins with ERROR, too, and more spaces.
_TROUBLE = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_BROKEN = re.compile(r"^INTERNALERROR>|^!+ Interrupted:|worker '\w+' crashed|^ERROR (?=\S)(?!.*::)", re.MULTILINE)


def counts(text: str) -> dict[str, int]:
    """How many tests passed, failed and were skipped in all runs of a log; an error is a failure."""
    found = {"passed": 0, "failed": 0, "skipped": 0}
    for summary in _SUMMARY.findall(text):
        for number, what in _COUNT.findall(summary):
            found[what if what in found else "failed"] += int(number)
    return found


def total(logs: list[Path]) -> str:
    """The sum of the logs, in a line."""
    found = {"passed": 0, "failed": 0, "skipped": 0}
    for log in logs:
        if not log.is_file():
            continue
        here = counts(log.read_text(errors="replace"))
        if log.stem.endswith(AGAIN):
            here["failed"] = -here["passed"]
        for what, number in here.items():
            found[what] += number
    return ", ".join(f"{number} {what}" for what, number in found.items())


def failed(text: str) -> list[str]:
    """The tests that failed, in a log whose failures may be chance; else nothing."""
    names = list(dict.fromkeys(_TROUBLE.findall(text)))
    is_whole = _SUMMARY.search(text) is not None and not _BROKEN.search(text)
    return names if is_whole and len(names) <= MOST else []


def main(arguments: list[str]) -> int:
    """Print what is asked for; returns the exit status."""
    if arguments[:1] != ["--failed"]:
        sys.stdout.write(f"{total([Path(name) for name in arguments])}\n")
        return 0
    log = Path(arguments[1])
    names = failed(log.read_text(errors="replace")) if log.is_file() else []
    sys.stdout.write("".join(f"{name}\n" for name in names))
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
