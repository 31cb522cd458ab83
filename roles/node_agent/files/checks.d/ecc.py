#!/usr/bin/python3
"""Memory that makes errors, from the kernel's error detection (/sys/devices/system/edac)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict

MANY = 1000
"""So many corrected errors since the node started are a module that will fail; fewer are told to nobody."""


def main() -> None:
    """Print how the memory is."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/")
    print(json.dumps(judged(root / "sys/devices/system/edac/mc")))  # noqa: T201 - its answer


def judged(folder: Path) -> Dict[str, Any]:
    """The diagnosis; counters are not in it, since it has to stay the same.

    Raises: LookupError where no controller tells of errors.
    """
    controllers = sorted(folder.glob("mc[0-9]*"))
    if not controllers:
        raise LookupError("no memory controller counts errors here")
    details: Dict[str, str] = {}
    for one in controllers:
        if int((one / "ue_count").read_text()):
            details[one.name] = "uncorrected errors"
        elif int((one / "ce_count").read_text()) >= MANY:
            details[one.name] = "many corrected errors"
    return {"status": "evacuate", "details": details} if details else {"status": "Ok"}


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, LookupError) as error:
        sys.exit("ecc: {}".format(error))
