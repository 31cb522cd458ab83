#!/usr/bin/python3
"""Arrays of Linux' software RAID that lack a disk, or do not run, from /proc/mdstat."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Dict

ARRAY = re.compile(r"^(?P<name>md\S*) : (?P<state>active|inactive)\b(?P<rest>.*)$")
DISKS = re.compile(r"\[(?P<wanted>\d+)/(?P<there>\d+)\]")


def main() -> None:
    """Print how the arrays are; those that rebuild are degraded until they are done."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/")
    print(json.dumps(judged((root / "proc/mdstat").read_text())))  # noqa: T201 - its answer


def judged(text: str) -> Dict[str, Any]:
    """The diagnosis: what is degraded can be repaired while instances run, what does not run cannot."""
    details: Dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        array, disks = ARRAY.match(line), DISKS.search(line)
        if array:
            last = array["name"]
            if array["state"] == "inactive":
                details[last] = "does not run"
            elif "(F)" in array["rest"]:
                details[last] = "has a failed disk"
        elif last and disks and int(disks["there"]) < int(disks["wanted"]):
            details[last] = "is degraded"
    if not details:
        return {"status": "Ok"}
    status = "evacuate" if "does not run" in details.values() else "live-repair"
    return {"status": status, "details": dict(sorted(details.items()))}


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit("raid: {}".format(error))
