"""Reads the power of many nodes at their BMCs, in a process of its own: the power drivers fork, and may hang.

It gets `{"credentials": FILE, "nodes": {NAME: DRIVER}}` on its standard input, and prints an outcome as a line of JSON
for each node, as soon as that is known. A node without a line gave no answer. Nothing is commanded.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import TYPE_CHECKING

from ..plugins.module_utils.domain.power import power
from ..plugins.module_utils.domain.values import errors
from ..plugins.module_utils.oob import children, drivers, request

if TYPE_CHECKING:
    from collections.abc import Mapping

AT_ONCE = 32
LIMIT = 65.0
"""Seconds that one node may take: a helper program has its minute."""


def main() -> None:
    """Read what standard input asks for."""
    asked = json.load(sys.stdin)
    try:
        read(asked["credentials"], asked["nodes"], output=os.dup(sys.stdout.fileno()))
    except (errors.RoundsmanError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def read(credentials: str, nodes: Mapping[str, str], *, output: int) -> None:
    """Read each node in a process of its own, which writes its line to the descriptor `output`.

    Raises:
        errors.InvalidInput: the credentials file as a whole does not serve.
    """
    wanted = request.of_file(credentials, nodes=list(nodes), chosen=nodes)
    for node in wanted:
        if node.failure is not None:
            _tell(power.untried(power.Command.STATUS, name=node.name, failure=node.failure), output=output)
    targets = [node.target for node in wanted if node.target is not None]
    tasks = [functools.partial(_read_one, target, output) for target in targets]
    children.run(tasks, deadline=LIMIT, width=AT_ONCE)


def _read_one(target: power.Target, output: int, _report: children.Report) -> None:
    [outcome] = drivers.run([target], command=power.Command.STATUS)
    _tell(outcome, output=output)


def _tell(outcome: power.Outcome, *, output: int) -> None:
    # One write of less than a page: lines of several processes do not mix.
    os.write(output, json.dumps({**outcome.as_dict(), "text": (outcome.text or "")[:500]}).encode() + b"\n")


if __name__ == "__main__":
    main()
