"""The programs of a lab's node of a trace: `programs.py NAME ARGUMENTS` notes the command and has a twin answer.

DRBD and LVM are the lab's simulated programs (`daemon/lab/simulator/simulated_programs.py`), virsh is `virsh_twin`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

ROOT = Path(os.environ["ROUNDSMAN_ROOT"]).resolve()


def main() -> int:
    """Note the command, and print what its twin answers."""
    command = sys.argv[1:]
    given = sys.stdin.read() if command[0] == "virsh" and command[-1] == "/dev/stdin" else ""
    run = os.environ.get("ROUNDSMAN_RUN", "")
    line = json.dumps({"run": run, "node": ROOT.name, "command": " ".join(command), "given": given})
    with Path(os.environ["ANSIBLE_GOLDEN_LOG"]).open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")
    try:
        print(_answer(command, given), end="")
    except errors.Failed as error:
        cause = error.__cause__
        print(getattr(cause, "text", f"error: {str(error).partition(': ')[2]}"), file=sys.stderr)
        return int(getattr(cause, "status", 1))
    return 0


def _answer(command: list[str], given: str) -> str:
    if command[0] == "virsh":
        from tests.golden.adapters.node_site import virsh_twin  # noqa: PLC0415 - hundreds of commands need only a half

        return virsh_twin.run(ROOT, command[3], command[4:], given=given)
    from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_programs  # noqa: PLC0415 - as above

    return simulated_programs.SimulatedPrograms(ROOT, opcode="golden").run(*command)


if __name__ == "__main__":
    sys.exit(main())
