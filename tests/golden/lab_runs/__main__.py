"""`python -m tests.golden.lab_runs NAME ...`: record these scenarios alone in place of what was recorded of them."""

from __future__ import annotations

import sys

from tests.golden import labs, traces

if __name__ == "__main__":
    for scenario in labs.SCENARIOS:
        if scenario.name in sys.argv[1:]:
            (traces.RECORDED / "labs").mkdir(parents=True, exist_ok=True)
            (traces.RECORDED / "labs" / labs.file_name(scenario)).write_text(labs.text(scenario), encoding="utf-8")
            print(f"{scenario.name} is recorded")
