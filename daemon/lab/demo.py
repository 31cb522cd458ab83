"""`make demo`: a lab with two broken nodes, and the whole walk of both, live in the terminal."""

from __future__ import annotations

import argparse
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from ...plugins.module_utils.domain.values import errors, tree
from ...plugins.plugin_utils import daemon_client
from ...plugins.plugin_utils.cluster import cluster as clusters
from . import building, checker, processes, world

NODES, INSTANCES = 6, 15
EVACUATED, REPAIRED = BROKEN = ("node3", "node5")
WALK = ("noted", "pending")
PATIENCE = 300.0
"""Seconds without any step after which the demonstration is given up."""


class Demo:
    """One run of the demonstration: waits by news of the daemon, tells each step once."""

    def __init__(self, lab: world.Lab, console: Console) -> None:
        self._lab = lab
        self._socket = tree.Tree(lab.controller).socket
        self._console = console
        self._told: set[str] = set()
        self._started = self._told_at = time.monotonic()

    def run(self) -> None:
        """Break two nodes, watch both repairs, acknowledge them, and bring the first node back."""
        self._say(f"{EVACUATED} breaks: its diagnose command asks for evacuate, because of disk sdb", "bold")
        self._lab.node(EVACUATED).break_with({"status": "evacuate", "details": {"disk": "sdb"}})
        self._say(f"{REPAIRED} breaks: its diagnose command asks for live-repair by {world.REPAIR_COMMAND}", "bold")
        details = {"status": "live-repair", "command": world.REPAIR_COMMAND, "details": {"raid": "degraded"}}
        self._lab.node(REPAIRED).break_with(details)
        ended: dict[str, dict[str, Any]] = self._until(self.both_ended)
        self._prove(ended)
        for name, incident in ended.items():
            self._put(f"/2/incidents/{incident['id']}/ack")
            self._say(f"the incident of {name} is acknowledged: its tag is removed", "bold")
        self._bring_back()

    def _bring_back(self) -> None:
        self._lab.node(EVACUATED).say(world.OK)
        self._say(f"somebody has swapped the disk: {EVACUATED} is healthy; it is powered on and brought back", "bold")
        self._job(self._put(f"/2/nodes/{EVACUATED}/power", {"command": "on"})["id"])
        self._job(self._put(f"/2/nodes/{EVACUATED}/role", "online"))
        role = self._until(lambda: self._role_of(EVACUATED) in {"candidate", "regular"} and self._role_of(EVACUATED))
        self._say(f"{EVACUATED} is {role} again", "green")
        self._until(lambda: not self._get("/1/status"))
        self._say("no incident is left", "green")

    def both_ended(self) -> dict[str, dict[str, Any]] | None:
        """Tell what is new of both incidents; returns them by node when both are completed."""
        found = {incident["node_name"]: incident for incident in self._get("/1/status")}
        ended = [self._ended(name, found[name]) for name in BROKEN if name in found]
        return found if len(ended) == len(BROKEN) and all(ended) else None

    def _ended(self, name: str, found: dict[str, Any]) -> bool:
        status = found["repair-status"]
        # Each incident is noted first and then pending, also where it was over before anybody looked.
        for step in ("noted",) if status == "noted" else WALK:
            self._once(f"incident {found['id'][:8]} of {name} is {step}", key=(name, step))
        self._tell_jobs(found["jobs"])
        if status not in WALK:
            self._once(f"incident {found['id'][:8]} of {name} is {status}", key=(name, status))
        if status == "failed":
            raise errors.Failed(f"the incident of {name} failed: {found['reason']}")
        return bool(status == "completed")

    def _tell_jobs(self, wanted: list[int]) -> None:
        for job in self._get("/1/jobs"):
            if job["id"] not in wanted:
                continue
            for index, opcode in enumerate(job["opcodes"]):
                if opcode["status"] in {"running", "success", "error"}:
                    step = f"  job {job['id']}: {opcode['what']}"
                    self._once(
                        f"{step}: {opcode['status']} {opcode['text']}".rstrip().replace("\n", "; "),
                        key=(job["id"], index, opcode["status"]),
                    )

    def _prove(self, ended: dict[str, dict[str, Any]]) -> None:
        node = next(node for node in self._get("/1/nodes") if node["name"] == EVACUATED)
        facts = {
            f"{EVACUATED} is empty": not node["primaries"] and not node["secondaries"],
            f"{EVACUATED} is offline": node["offline"],
            f"{EVACUATED} is powered off, says its BMC": not self._lab.node(EVACUATED).is_powered(),
            f"{EVACUATED} is tagged {ended[EVACUATED]['tag']}": ended[EVACUATED]["tag"] in node["tags"],
            f"{REPAIRED} was repaired once": self._lab.node(REPAIRED).repairs() == 1,
        }
        for text, is_so in facts.items():
            if not is_so:
                raise errors.Failed(f"not so: {text}")
            self._say(text, "green")
        wrong = checker.check(self._lab)
        if wrong:
            raise errors.Failed("the nodes' journals say: " + "; ".join(wrong))
        self._say("the nodes' journals prove: no instance was lost or ran twice, and each opcode ran once", "green")

    def _job(self, job: int) -> None:
        ended = self._until(lambda: self._final(job))
        self._tell_jobs([job])
        if ended["status"] != "success":
            raise errors.Failed(f"job {job} ended in {ended['status']}: {ended['text']}")

    def _final(self, job: int) -> dict[str, Any] | None:
        self._tell_jobs([job])
        found: dict[str, Any] = self._get(f"/2/jobs/{job}")
        return found if found["status"] in {"success", "error", "canceled"} else None

    def _role_of(self, name: str) -> str:
        return str(next(node["role"] for node in self._get("/1/nodes") if node["name"] == name))

    def _until(self, look: Any) -> Any:
        self._told_at, number = time.monotonic(), -1
        while time.monotonic() < self._told_at + PATIENCE:
            number = self._get(f"/1/news?after={number}&seconds=30")["number"]
            if found := look():
                return found
        log = self._lab.controller / "var/log/roundsman/daemon.log"
        raise errors.Failed(f"nothing has happened for {PATIENCE:g} s; see {log}")

    def _get(self, path: str) -> Any:
        with daemon_client.connected(self._socket, seconds=70) as client:
            return client.get(path).raise_for_status().json()

    def _put(self, path: str, body: Any = None) -> Any:
        with daemon_client.connected(self._socket, seconds=70) as client:
            answer = client.put(path, json=body)
        if answer.is_error:
            raise errors.Failed(str(answer.json().get("detail", answer.text)))
        return answer.json()

    def _once(self, text: str, *, key: object) -> None:
        if str(key) not in self._told:
            self._told.add(str(key))
            self._say(text)

    def _say(self, text: str, style: str = "") -> None:
        self._told_at = time.monotonic()
        self._console.print(
            f"{time.monotonic() - self._started:6.1f} s  {text}", style=style, soft_wrap=True, highlight=False
        )


def main() -> int:
    """Make the lab, run the demonstration, bring the lab down; 0 when everything came out as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dir", type=Path, required=True, help="the folder of the lab; a lab that is there is replaced"
    )
    folder = parser.parse_args().dir
    console = Console()
    if (folder / tree.LAB_FILE).exists():
        processes.down(world.Lab(folder.resolve()))
        shutil.rmtree(folder)
    ports = {"http": processes.free_port(), "bmc": processes.free_port(socket.SOCK_DGRAM)}
    settings = clusters.Settings(diagnose_command="lab-diagnose", diagnose_interval=5, power_off_evacuated=True)
    lab = building.build(folder, nodes=NODES, instances=INSTANCES, ports=ports, settings=settings, migration_seconds=1)
    console.print(f"A lab of {NODES} simulated nodes and {INSTANCES} instances starts in {folder}.", highlight=False)
    # As Ctrl-C: the lab's processes are of their own sessions, and outlive one that is just ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        processes.start_bmcs(lab)
        processes.start_daemon(lab)
        console.print(f"Watch it at http://127.0.0.1:{ports['http']}/ui while it runs.", style="bold", highlight=False)
        Demo(lab, console).run()
    except (errors.RoundsmanError, httpx.HTTPError) as error:
        console.print(f"roundsman: {error}", style="red", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped", style="red")
        return 130
    finally:
        processes.down(lab)
    return 0


if __name__ == "__main__":
    sys.exit(main())
