#!/usr/bin/python3
"""SIMULATED: drbdadm and drbdsetup of two nodes, for machines whose kernel has no DRBD. Nothing is copied anywhere.

It answers as version 9 does: `status --json`, `get-gi`, `sh-ll-dev` (a partition), and what a repair runs. Its state is
one JSON object in /srv/simulated-drbd/state.json, which both nodes share: of each resource its minor, and its side on
each node, with

    up        whether it is up
    role      Primary or Secondary
    disk      UpToDate, Inconsistent or Diskless
    wants     whether it connects, and does not stand alone
    paused    whether somebody paused the resync on this side
    gi        generation identifiers: what its data are, what they were when the peer went, and what they were before

What would take a resync is equal at once, unless that is paused. `changes` beside it has a line for each command that
changes something, also where it comes to nothing.
"""

import fcntl
import json
import os
import pathlib
import sys
from typing import Any

Side = dict[str, Any]
FOLDER = pathlib.Path("/srv/simulated-drbd")
NODES = ("node1", "node2")
FLAGS = "1:1:{}:0:1:0:0:0:0:0:0:1"


class Pair:
    """A resource as one of its nodes has it: its `own` side and the `peer`."""

    def __init__(self, told: dict[str, Any], node: str) -> None:
        self.minor, self.node = told["minor"], node
        self.own, self.peer = (told[name] for name in sorted(NODES, key=lambda name: name != node))

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.own, self.peer

    @property
    def is_together(self) -> bool:
        return all(side["up"] and side["wants"] for side in self.sides)

    @property
    def is_paused(self) -> bool:
        return any(side["paused"] for side in self.sides)

    def meet(self) -> None:
        """What the kernels of both nodes do by themselves."""
        if not self.is_together:
            return
        if not any(side["disk"] == "Diskless" for side in self.sides):
            self._compare()
        for side, other in (self.sides, self.sides[::-1]):
            may_copy = self.is_together and not self.is_paused
            if may_copy and (side["disk"], other["disk"]) == ("Inconsistent", "UpToDate"):
                side["disk"], side["gi"] = "UpToDate", list(other["gi"])
        for side in self.sides:
            side.pop("discards", None)

    def _compare(self) -> None:
        for side, other in (self.sides, self.sides[::-1]):
            if side["gi"][0] == other["gi"][0]:
                return
            if side["gi"][0] in other["gi"][1:] or side.get("discards"):
                side["disk"] = "Inconsistent"
                return
        for side in self.sides:
            side["wants"] = False

    def status(self, name: str) -> dict[str, Any]:
        own, peer, replication = self.own, self.peer, "Off"
        if self.is_together:
            replication = "Established"
            if self.is_paused and "Inconsistent" in {own["disk"], peer["disk"]}:
                replication = "PausedSyncT" if own["disk"] == "Inconsistent" else "PausedSyncS"
        connection = "Connected" if self.is_together else "Connecting" if own["wants"] else "StandAlone"
        peer_device = {
            "volume": 0,
            "replication-state": replication,
            "peer-disk-state": peer["disk"] if self.is_together else "DUnknown",
            "resync-suspended": "user" if own["paused"] else "peer" if self.is_together and peer["paused"] else "no",
            "out-of-sync": 4096 if replication.startswith("Paused") else 0,
            "percent-in-sync": 87.5 if replication.startswith("Paused") else 100.0,
        }
        number = NODES.index(self.node)
        connected = {
            "peer-node-id": 1 - number,
            "name": NODES[1 - number],
            "connection-state": connection,
            "peer-role": peer["role"] if self.is_together else "Unknown",
            "peer_devices": [peer_device],
        }
        device = {"volume": 0, "minor": self.minor, "disk-state": own["disk"]}
        return {"name": name, "node-id": number, "role": own["role"], "devices": [device], "connections": [connected]}

    def identifiers(self) -> str:
        """As `get-gi` prints them; version 9 has the bit of the role in none of them."""
        return ":".join([*self.own["gi"], FLAGS.format(int(self.own["role"] == "Primary"))])


def adjust(own: Side) -> None:
    own.update(up=True, wants=True)
    attach(own)


def attach(own: Side) -> None:
    if own["disk"] == "Diskless":
        own["disk"] = "Inconsistent"


def resume(own: Side) -> None:
    own["paused"] = False


def connect(own: Side) -> None:
    own["wants"] = True


def connect_and_discard(own: Side) -> None:
    own.update(wants=True, discards=True)


def disconnect(own: Side) -> None:
    own["wants"] = False


CHANGES = {
    ("adjust",): adjust,
    ("attach",): attach,
    ("resume-sync",): resume,
    ("connect",): connect,
    ("connect", "--discard-my-data"): connect_and_discard,
    ("disconnect",): disconnect,
}


def main() -> None:
    node, program, words = os.uname().nodename, pathlib.Path(sys.argv[0]).name, sys.argv[1:]
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = json.loads((FOLDER / "state.json").read_text())
        pairs = {name: Pair(told, node) for name, told in state.items()}
        if (program, words) == ("drbdsetup", ["status", "--json"]):
            sys.stdout.write(json.dumps([pair.status(name) for name, pair in pairs.items() if pair.own["up"]]))
            return
        pair = pairs.get(words[-1].partition("/")[0]) if words else None
        if program != "drbdadm" or pair is None:
            sys.exit(f"the simulated {program} does not know {words}")
        if words[0] == "sh-ll-dev":
            sys.stdout.write("/dev/vda3\n")
            return
        if words[0] == "get-gi":
            sys.stdout.write(pair.identifiers() + "\n")
            return
        change = CHANGES.get(tuple(words[:-1]))
        if change is None or (words[0] != "adjust" and not pair.own["up"]):
            sys.exit(f"the simulated drbdadm cannot {words}")
        with (FOLDER / "changes").open("a") as changes:
            changes.write(f"{node}: drbdadm {' '.join(words)}\n")
        change(pair.own)
        pair.meet()
        (FOLDER / "state.new").write_text(json.dumps(state, indent=1))
        (FOLDER / "state.new").replace(FOLDER / "state.json")


if __name__ == "__main__":
    main()
