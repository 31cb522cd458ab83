#!/usr/bin/python3
"""Network interfaces without a link: those that /etc/roundsman/check-links names, one in a line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, List


def main() -> None:
    """Print how the interfaces are."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/")
    names = (root / "etc/roundsman/check-links").read_text().split()
    if not names:
        raise LookupError("no interface is named in /etc/roundsman/check-links")
    print(json.dumps(judged(root / "sys/class/net", names)))  # noqa: T201 - its answer


def judged(folder: Path, names: List[str]) -> Dict[str, Any]:
    """The diagnosis: without a link instances leave; a bond that lacks one of its links can be repaired meanwhile."""
    details = {name: "has no link" for name in names if not has_link(folder / name)}
    status = "evacuate" if details else "live-repair"
    for name in names:
        bond = folder / name / "bonding/slaves"
        members = bond.read_text().split() if bond.exists() else []
        details.update((one, "of {} has no link".format(name)) for one in members if not has_link(folder / one))
    return {"status": status, "details": dict(sorted(details.items()))} if details else {"status": "Ok"}


def has_link(interface: Path) -> bool:
    """Whether an interface is there, up, and sees the other end."""
    try:
        state, carrier = (interface / "operstate").read_text().strip(), (interface / "carrier").read_text().strip()
    except OSError:  # the carrier of one that is down cannot be read
        return False
    # Interfaces without a state of their own, such as bridges of some drivers, say "unknown".
    return state in {"up", "unknown"} and carrier == "1"


if __name__ == "__main__":
    try:
        main()
    except (OSError, LookupError) as error:
        sys.exit("link: {}".format(error))
