"""The trace of plans: rounds of 300 generated clusters in trouble, and on 60 of them what all other planners answer.

The clusters are those of `tests/troubled_clusters.py`; the calls are in `planning/product.py`, and the lines in
`planning/texts.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests import troubled_clusters
from tests.golden.planning import by_hand, product, repairs, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CASES = 300
STEP = 5
"""Each fifth case is also put to the other planners; as there are fifteen themes, these are of all of them in turn."""
FILE = 30
"""Cases in one file."""


def record() -> Iterator[tuple[str, str]]:
    """The texts of the trace, by the name of their file."""
    for first in range(0, CASES, FILE):
        cases = map(troubled_clusters.make, range(first, first + FILE))
        yield f"rounds-{first:03}.txt", _text(line for case in cases for line in _round(case))
    others = [troubled_clusters.make(number) for number in numbers()]
    with tempfile.TemporaryDirectory() as folder:
        for name, (asked, first, each) in by_hand.ASKED.items():
            chosen = others[first::each]
            yield f"{name}.txt", _text(line for case in chosen for line in _asked(Path(folder), case, asked))
    yield "repairs.txt", _text(repairs.lines())


def numbers() -> list[int]:
    """The cases that all planners get."""
    return [STEP * place + place * STEP // len(troubled_clusters.THEMES) % STEP for place in range(CASES // STEP)]


def _round(case: troubled_clusters.Case) -> Iterator[str]:
    yield from texts.heading(case)
    plan, jobs = product.plan(case)
    yield from texts.plan(plan, jobs)
    if plan["held"]:
        yield "# once nothing holds it"
        yield from texts.plan(*product.plan(case, as_if_resumed=True))


def _asked(root: Path, case: troubled_clusters.Case, asked: by_hand.Asked) -> Iterator[str]:
    lines = list(asked(root, case))
    if lines:
        yield from texts.heading(case)
        yield from lines


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
