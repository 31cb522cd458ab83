#!/usr/bin/python3
"""One diagnosis of a node from the small checks in /etc/roundsman/checks.d: a diagnose command, ready to use.

A check is a program that prints a JSON object with `status` (Ok, live-repair, evacuate or evacuate-failover), where it
likes `details`, and for a live repair `command`. All run side by side. What they find becomes one action, the most
invasive; of several repair commands it is that of the first check by name, the others follow when it is done. A check
that hangs, fails or prints something else is no sign of health: it asks for a person, by a live repair without a
command. The output is the same as long as the findings are.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

FOLDER = Path("/etc/roundsman/checks.d")
SECONDS = 20.0
STATUSES = ("Ok", "live-repair", "evacuate", "evacuate-failover")
LIVE_REPAIR = STATUSES[1]
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class Broken(Exception):
    """A check did not say how things are; the text is the same each time."""


def main() -> None:
    """Print the diagnosis of the folder that is given, or of the usual one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    print(json.dumps(diagnosis(folder), sort_keys=True))  # noqa: T201 - this is how it answers


def diagnosis(folder: Path, *, seconds: float = SECONDS) -> Dict[str, Any]:
    """Run all checks of a folder, and merge what they say."""
    refuse_writable(folder)
    checks = sorted(path for path in folder.iterdir() if path.is_file() and os.access(path, os.X_OK))
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(checks))) as pool:
        said = list(pool.map(lambda path: _asked(path, seconds=seconds), checks))
    return merged({path.stem: said[place] for place, path in enumerate(checks)})


def merged(said: Dict[str, Tuple[Dict[str, Any], str]]) -> Dict[str, Any]:
    """One diagnosis of what the checks said, by name: their findings, or how they are broken."""
    broken = {name: why for name, (_, why) in said.items() if why}
    findings = {name: one for name, (one, why) in said.items() if not why and one["status"] != STATUSES[0]}
    found: List[str] = [one["status"] for one in findings.values()] + [LIVE_REPAIR for _ in broken]
    status = max(found, key=STATUSES.index, default=STATUSES[0])
    result: Dict[str, Any] = {"status": status}
    commands = [one["command"] for _, one in sorted(findings.items()) if isinstance(one.get("command"), str)]
    if status == LIVE_REPAIR and commands:
        result["command"] = commands[0]
    if found:
        result["details"] = {"broken-checks": broken, "findings": findings}
    return result


def refuse_writable(path: Path) -> None:
    """Run nothing that others can change: this runs with the rights of the agent."""
    found = path.stat()
    if found.st_uid not in {0, os.geteuid()} or stat.S_IMODE(found.st_mode) & 0o022:
        raise Broken("others may write it")


def _asked(path: Path, *, seconds: float) -> Tuple[Dict[str, Any], str]:
    try:
        refuse_writable(path)
        return _read(_output(path, seconds=seconds)), ""
    except Broken as error:
        return {}, str(error)


def _output(path: Path, *, seconds: float) -> bytes:
    try:
        process = subprocess.Popen(
            [str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise Broken("it does not start: {}".format(error.strerror)) from error
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # What cannot be killed, because it waits for a dead disk, is left alone.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        raise Broken("it is not done after {:g} s".format(seconds)) from error
    if process.returncode:
        raise Broken("it ends with {}".format(process.returncode))
    return out


def _read(output: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(output)
    except ValueError as error:
        raise Broken("it prints no JSON") from error
    if not isinstance(value, dict) or value.get("status") not in STATUSES:
        raise Broken("it prints no status")
    return {name: value[name] for name in ("status", "command", "details") if name in value}


if __name__ == "__main__":
    try:
        main()
    except (OSError, Broken) as error:
        sys.exit("run-checks: {}".format(error))
