"""What one opcode costs over a bare `ansible-playbook` of the same play: with Ansible started for it, and kept warm.

Run by `make bench`. The play reads the power of a simulated node by IPMI. All three are measured in turn, so that a
machine that is busy for a while is so for each of them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible_collections.roundsman.cluster.plugins.plugin_utils import daemon_client, run_group, run_records

from tests.integration import labs

TIMES = 9


def main() -> int:
    """Measure, and print seconds and ratios."""
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        plain, warm = _lab(Path(folder) / "plain", is_warm=False), _lab(Path(folder) / "warm", is_warm=True)
        try:
            runs = [_opcode(plain)[1], _opcode(warm)[1]]
            seen: dict[str, list[float]] = {"bare ansible-playbook": [], "opcode": [], "opcode, warm": []}
            for _ in range(TIMES):
                seen["bare ansible-playbook"].append(_bare(runs[0]))
                seen["opcode"].append(_opcode(plain)[0])
                seen["opcode, warm"].append(_opcode(warm)[0])
        finally:
            labs.down(plain)
            labs.down(warm)
    bare = statistics.median(seen["bare ansible-playbook"])
    for name, seconds in seen.items():
        median = statistics.median(seconds)
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        print(f"{name}: {median:.2f} s ({spread}), {median / bare:.2f} times the bare play")
    return 0


def _lab(folder: Path, *, is_warm: bool) -> labs.Running:
    running = labs.up(folder, nodes=3, instances=0)
    running.stop()
    settings = running.where.etc / "roundsmand.json"
    known: dict[str, Any] = json.loads(settings.read_bytes())
    settings.write_text(json.dumps({**known, "warm_ansible": is_warm}))
    running.start()
    return running


def _opcode(running: labs.Running) -> tuple[float, Path]:
    """Seconds from the submission of the opcode to the end of its job, and its run."""
    began = time.perf_counter()
    with daemon_client.connected(running.where.socket, seconds=70) as client:
        job = client.put("/2/nodes/node3/power", json={"command": "status"}).raise_for_status().json()["id"]
        client.get(f"/2/jobs/{job}/wait?timeout=60").raise_for_status()
    seconds = time.perf_counter() - began
    run = running.where.queue / f"{job}/0"
    outcome = run_records.result(run)
    assert outcome["status"] == "success", outcome
    return seconds, run


def _bare(run: Path) -> float:
    """Seconds of the same play with the same inventory, variables and environment, without daemon and runner."""
    opcode = json.loads((run / "opcode.json").read_bytes())
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(run / "inventory.json")]
    environment = {**os.environ, **opcode["environment"], run_group.RUN_VARIABLE: str(run), "PATH": os.environ["PATH"]}
    began = time.perf_counter()
    subprocess.run(
        [*command, "-e", json.dumps(opcode["variables"]), opcode["playbook"]],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
