#!/usr/bin/python3
"""DRBD volumes without a disk on this node: their instances live on the other node's replica alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

GONE = frozenset(("Diskless", "Failed", "Detaching"))
VOLUME = re.compile(r"^ *(?P<minor>\d+): cs:\S+ ro:\S+ ds:(?P<disk>\w+)/", re.MULTILINE)


def main() -> None:
    """Print how the node's own replicas are; how the nodes stand to each other is for the controller to repair."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/")
    table = (root / "proc/drbd").read_text()
    if table.startswith("version: 8"):
        found = {"minor {}".format(one["minor"]): one["disk"] for one in VOLUME.finditer(table)}
    else:
        command = ("drbdsetup", "status", "--json")
        found = disks(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode())
    print(json.dumps(judged(found)))  # noqa: T201 - its answer


def disks(text: str) -> Dict[str, str]:
    """The states of the disks by volume, as version 9 tells them."""
    return {
        "{} volume {}".format(one["name"], volume["volume"]): volume["disk-state"]
        for one in json.loads(text)
        for volume in one["devices"]
    }


def judged(states: Dict[str, str]) -> Dict[str, Any]:
    """The diagnosis."""
    details = {name: "has no disk here" for name, state in sorted(states.items()) if state in GONE}
    return {"status": "evacuate", "details": details} if details else {"status": "Ok"}


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
        sys.exit("drbd: {!r}".format(error))
