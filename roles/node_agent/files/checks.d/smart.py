#!/usr/bin/python3
"""Disks that say they are failing: `smartctl` of each one that it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Dict, Optional, Sequence

CANNOT_ASK = 0b11
"""Bits of the exit status: the command line was wrong, or the disk could not be opened."""


def main() -> None:
    """Print what the disks say; a disk that cannot be asked is for a person."""
    devices = asked("--scan").get("devices", [])
    found = {one["name"]: verdict(asked("-H", "-A", "-d", one["type"], one["name"])) for one in devices}
    details = {name: text for name, text in sorted(found.items()) if text}
    status = "evacuate" if details else "Ok"
    if details and all(text == "cannot be asked" for text in details.values()):
        status = "live-repair"
    print(json.dumps({"status": status, **({"details": details} if details else {})}))  # noqa: T201 - its answer


def verdict(told: Dict[str, Any]) -> Optional[str]:
    """What is wrong with a disk, without any number that changes; nothing for one that is well or cannot tell."""
    if told.get("smartctl", {}).get("exit_status", 0) & CANNOT_ASK:
        return "cannot be asked"
    if told.get("smart_status", {}).get("passed") is False:
        return "says that it fails"
    if told.get("nvme_smart_health_information_log", {}).get("critical_warning"):
        return "gives a critical warning"
    table = told.get("ata_smart_attributes", {}).get("table", [])
    failing = [one["name"] for one in table if one.get("when_failed") == "now" and one["flags"]["prefailure"]]
    return "fails by {}".format(", ".join(sorted(failing))) if failing else None


def asked(*words: str) -> Dict[str, Any]:
    """What smartctl says, as JSON; its exit status is in there."""
    command: Sequence[str] = ("smartctl", "--json", *words)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    value = json.loads(done.stdout)
    return value if isinstance(value, dict) else {}


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit("smart: {!r}".format(error))
