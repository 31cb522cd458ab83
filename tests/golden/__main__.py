"""`python -m tests.golden [TRACE ...]`: record golden traces in place of what was recorded, all of them by default."""

from __future__ import annotations

import argparse

from tests.golden import traces

if __name__ == "__main__":
    known = ", ".join(traces.names())
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("traces", nargs="*", metavar="TRACE", help=f"one of: {known}")
    wanted = parser.parse_args().traces or traces.names()
    if unknown := sorted(set(wanted) - set(traces.names())):
        parser.error(f"unknown trace {', '.join(unknown)}; valid traces: {known}")
    for trace in wanted:
        print(f"{trace}: {traces.write(trace)} files recorded")
