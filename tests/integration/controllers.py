"""Several controllers of one lab, each on a machine of its own, and which of them the nodes follow."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import daemon_client

from . import labs, states

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Kept


def follows(lab: labs.Running, node: str) -> Kept | None:
    """Whom a node follows."""
    return leader_record.load(lab.lab.node(node).root)


def followed(lab: labs.Running) -> list[int]:
    """The numbers of the epochs that the nodes follow."""
    found = [follows(lab, node.name) for node in lab.lab.nodes()]
    return [0 if kept is None else kept.epoch.number for kept in found]


def roundsman(where: tree.Tree, *words: str, status: int | None = 0) -> str:
    """Run a command, which ends with this status, or with any; what it prints."""
    command = [sys.executable, "-m", f"{processes.PACKAGE}.cli.main", "--dir", str(where.root), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=labs.LIMIT, check=False)
    assert status in {None, done.returncode}, done.stdout + done.stderr
    return done.stdout + done.stderr


class Controller:
    """A controller with a folder of its own in the lab's; what its daemon logs is `told`."""

    def __init__(self, lab: labs.Running, root: Path) -> None:
        self._lab = lab
        self.where = tree.Tree(root)
        self._log = lab.lab.folder / f"{root.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def copied(cls, lab: labs.Running, name: str) -> Controller:
        """A copy of the first one's state, its epoch too, as a backup or a rash administrator makes it."""
        root = lab.lab.folder / name
        shutil.copytree(lab.where.root, root, ignore=shutil.ignore_patterns("run"))
        return cls(lab, root)._on_its_own_port()

    @classmethod
    def restored(cls, lab: labs.Running, root: Path, *, old: tree.Tree, configuration: Path) -> Controller:
        """A new machine with settings and key of an old one and an export or copy of the configuration.

        As docs/operating.md makes it.
        """
        made = cls(lab, root)
        made.where.lib.mkdir(parents=True)
        made.where.log.mkdir(parents=True)
        shutil.copytree(old.etc, made.where.etc)
        shutil.copy2(old.hmac_key, made.where.hmac_key)
        made._on_its_own_port()
        roundsman(made.where, "config", "import", str(configuration), "--yes")
        return made

    def _on_its_own_port(self) -> Controller:
        settings = json.loads(self.where.daemon_settings.read_bytes())
        self.where.daemon_settings.write_text(json.dumps({**settings, "port": processes.free_port()}))
        return self

    def start(self, *words: str) -> int | None:
        """Start the daemon; None once it serves, else its exit status."""
        ready, tell = os.pipe()
        command = [sys.executable, "-m", processes.PACKAGE, "--root", str(self.where.root), *words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--ready-fd", str(tell)], pass_fds=(tell,), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        os.close(tell)
        with os.fdopen(ready, "rb") as stream:
            return None if stream.readline() == b"ready\n" else self.ended()

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait for the end of the daemon; its exit status."""
        assert self._process is not None
        return self._process.wait(labs.LIMIT)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            self.ended()

    def put(self, path: str) -> Any:
        with daemon_client.connected(self.where.socket, seconds=70) as client:
            return client.put(path).json()

    def get(self, path: str) -> Any:
        with daemon_client.connected(self.where.socket, seconds=70) as client:
            return client.get(path).json()

    def migrated(self, instance: str) -> dict[str, Any]:
        """The job that migrates an instance, once it has ended."""
        job, end = self.put(f"/2/instances/{instance}/migrate"), time.monotonic() + labs.LIMIT
        while (found := self.get(f"/2/jobs/{job}"))["status"] not in states.FINAL:
            assert time.monotonic() < end, found
            time.sleep(0.5)
        return dict(found)

    @property
    def epoch(self) -> int:
        """The number of the epoch in which the daemon leads."""
        return int(self.get("/1/health")["leadership"]["epoch"]["number"])

    @property
    def told(self) -> str:
        return self._log.read_text()
