"""A bed: a folder with a key, a controller's files and the record of the real nodes that were started for it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DIAGNOSIS = "/var/lib/roundsman/bed/diagnosis.json"
"""What the diagnose command of a bed's nodes prints."""
SSH = (
    "StrictHostKeyChecking=yes",
    "ConnectTimeout=60",
    # A connection to a node that lost its power must not be waited for.
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
    # What an emulated processor computes soonest.
    "KexAlgorithms=curve25519-sha256",
)
SHARING = ("ControlMaster=auto", "ControlPersist=60")


class Missing(errors.Refused):
    """The machine lacks what the bed takes; the text says what, and what to do."""


@dataclass(frozen=True)
class Bed:
    """The folder of a bed, and how its nodes are reached."""

    folder: Path

    @property
    def name(self) -> str:
        """A name that no bed in another folder has: what is started on the machine bears it."""
        return "roundsman-bed-" + self.mark

    @property
    def mark(self) -> str:
        """The same in eight characters."""
        return hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]

    @property
    def controller(self) -> Path:
        """The root of the controller's files."""
        return self.folder / "controller"

    @property
    def where(self) -> tree.Tree:
        return tree.Tree(self.controller)

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory/roundsman.yml"

    @property
    def shared(self) -> Path:
        """A folder of this machine that all containers of the bed see as /srv/roundsman/disks."""
        return self.folder / "shared"

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def sockets(self) -> Path:
        """Where connections to nodes are shared: a short path, as sockets want it."""
        return Path("/run") / self.name

    @property
    def record_file(self) -> Path:
        return self.folder / "bed.json"

    def record(self) -> dict[str, Any]:
        """What is up: its kind, and its nodes with their addresses; empty when nothing is."""
        try:
            content: dict[str, Any] = json.loads(self.record_file.read_text())
        except FileNotFoundError:
            return {}
        return content

    def keep_record(self, content: Mapping[str, Any]) -> None:
        """Write what is up, whole or not at all."""
        new = self.record_file.with_suffix(".new")
        new.write_text(json.dumps(content, indent=1) + "\n")
        new.replace(self.record_file)

    def addresses(self) -> dict[str, str]:
        """The address of each node, by its name."""
        return {name: str(node["address"]) for name, node in self.record().get("nodes", {}).items()}

    def command(self, node: str, *arguments: str, at: str = "") -> list[str]:
        """What has to be called here so that a command line is run there; `at` is another address of the node.

        Raises:
            NotFound: there is no such node in the bed.
        """
        found = self.addresses()
        if node not in found:
            raise errors.NotFound(f"there is no node {node!r} in {self.folder}: {', '.join(found) or 'nothing is up'}")
        more = [f"HostKeyAlias={found[node]}", f"ControlPath={self.sockets}/%C", *SHARING]
        options = [*self.ssh_options(), *(part for one in more for part in ("-o", one))]
        return ["ssh", "-i", str(self.key), *options, f"root@{at or found[node]}", *arguments]

    def ssh_options(self) -> list[str]:
        """The options with which ssh trusts the bed's nodes, and nothing else."""
        named = [f"UserKnownHostsFile={self.known_hosts}", *SSH]
        return [part for one in named for part in ("-o", one)]

    def run(
        self, node: str, script: str, *, given: bytes = b"", check: bool = True, seconds: float = 300, at: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a script of the shell on a node, to its end.

        Raises:
            Failed: it failed, and `check` was asked for; the text is what it said.
        """
        done = subprocess.run(
            self.command(node, script, at=at), input=given, capture_output=True, timeout=seconds, check=False
        )
        if check and done.returncode:
            raise errors.Failed(f"{node}: {script!r} ended with {done.returncode}: {done.stderr.decode().strip()}")
        return done

    def say(self, node: str, diagnosis: Mapping[str, Any]) -> None:
        """Have the node's diagnose command print this from now on."""
        script = f"cat >{DIAGNOSIS}.new && mv {DIAGNOSIS}.new {DIAGNOSIS}"
        self.run(node, script, given=json.dumps(diagnosis).encode() + b"\n")

    def bmc_faults(self, node: str) -> frozenset[str]:
        """What is wrong with the node's BMC."""
        try:
            return frozenset((self.folder / "bmc-faults" / node).read_text().split())
        except FileNotFoundError:
            return frozenset()

    def set_bmc_faults(self, node: str, *faults: str) -> None:
        """Break the node's BMC, or mend it with nothing: the names are those of the simulator's chassis."""
        path = self.folder / "bmc-faults" / node
        path.parent.mkdir(exist_ok=True)
        path.write_text(" ".join(faults))

    def hang_up(self) -> None:
        """End the connections that are shared, and remove their folder."""
        for path in self.sockets.glob("*"):
            command = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", self.name]
            subprocess.run(command, capture_output=True, check=False)
            path.unlink(missing_ok=True)
        if self.sockets.exists():
            self.sockets.rmdir()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the bed, so that nobody else brings it up or down meanwhile.

        Raises:
            Refused: somebody else holds it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise errors.Refused(f"{self.folder} is being brought up or down by another process") from error
            yield
