"""`python -m tests.chaos.mutants` names each mutant whose text is no longer in the code, within a second."""

from __future__ import annotations

import sys

from tests.chaos import trees
from tests.chaos.mutants import known
from tests.chaos.mutants.mutant import Mutant
from tests.simulation import mutants

LIMITS = Mutant("shorter limits", 0, "not a mutant: what trees of chaos shorten", trees.SHORTER)
ALL = (*known.MUTANTS, *mutants.MUTANTS, LIMITS)


def unfit(among: tuple[Mutant, ...]) -> list[str]:
    """What is wrong with each edit that does not fit the code, a line or more for each."""
    found = []
    for mutant in among:
        for path in dict.fromkeys(edit.path for edit in mutant.edits):
            try:
                mutant.text(path)
            except (OSError, ValueError) as error:
                found.append(f"{mutant.name}: {error}")
    return found


def main() -> int:
    """Print what does not fit; returns the exit status."""
    found = unfit(ALL)
    sys.stderr.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
