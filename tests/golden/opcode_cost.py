"""How many runs of modules at nodes an opcode costs, counted in the trace `opcode_runs`, as a table of a page.

`python -m tests.golden.opcode_cost` writes the table of `docs/decisions/opcode-cost.md` again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).parent / "recorded/opcode_runs"
PAGE = Path(__file__).resolve().parents[2] / "docs/decisions/opcode-cost.md"
BEGIN, END = "<!-- the table of tests/golden/opcode_cost.py -->\n\n", "\n<!-- its end -->\n"
ASKED = re.compile(r"== (.*)")
TASK = re.compile(r"  \[(.*)\]")
RUN = re.compile(r"  (node\d+) \w+")
PROGRAM = re.compile(r"      \$ ")
ENDED = re.compile(r"(\w+): (success|error)\b")


@dataclass(frozen=True)
class Cost:
    """What one opcode did: its kind and its file, tasks at nodes one after the other, module runs, programs."""

    file: str
    kind: str
    tasks: int
    runs: int
    programs: int


def costs(file: str, text: str) -> Iterator[Cost]:
    """The opcodes of a recorded file, in their order; those without a run at a node are left out."""
    tasks, runs, programs, is_at_node = 0, 0, 0, False
    for line in text.splitlines():
        if ASKED.fullmatch(line):
            tasks, runs, programs = 0, 0, 0
        elif TASK.fullmatch(line):
            is_at_node = False
        elif RUN.match(line):
            tasks, runs, is_at_node = tasks + (not is_at_node), runs + 1, True
        elif PROGRAM.match(line):
            programs += 1
        elif ended := ENDED.match(line):
            if runs:
                yield Cost(file, ended[1], tasks, runs, programs)
            tasks, runs, programs = 0, 0, 0


def table() -> str:
    """All opcodes of the trace as a table."""
    found = [
        cost
        for path in sorted(RECORDED.glob("*.txt"))
        if path.stem != "playbooks"
        for cost in costs(path.stem, path.read_text())
    ]
    # An opcode that is recorded twice with one cost has one line.
    lines = dict.fromkeys(
        f"| `{cost.kind}` | {cost.file} | {cost.tasks} | {cost.runs} | {cost.programs} |"
        for cost in sorted(found, key=lambda cost: (cost.kind, cost.file))
    )
    head = "| opcode | of | tasks at nodes | module runs | programs |\n|---|---|---|---|---|\n"
    return head + "".join(f"{line}\n" for line in lines)


def written(page: str) -> str:
    """The table that a page has."""
    return page.partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
