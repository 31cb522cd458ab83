"""A real Ganeti, Debian's, as a cluster of virtual nodes on a machine made of namespaces: nothing of it is left behind.

It takes root, a kernel with overlayfs, and Debian's mirror unless Ganeti is installed already.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
ROOT = Path("/srv/cluster")
"""Where the cluster is, on its machine."""


class Machine:
    """A machine of its own; `pid` is its first process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def command(self, *arguments: str | Path) -> list[str]:
        """What has to be called here so that this is called there."""
        inside = ["nsenter", f"--target={self._pid}", "--mount", "--pid", "--net", "--uts", "--root", "--wd", "--"]
        return [*inside, *map(str, arguments)]

    def run(self, *arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program there, to its end."""
        return subprocess.run(
            self.command(*arguments), input=given, capture_output=True, text=True, check=False, timeout=240
        )

    def write(self, path: str, content: str) -> None:
        """Write a file there that only root can read."""
        script = 'umask 077; mkdir -p "$(dirname "$1")"; cat >"$1"'
        assert self.run("/bin/sh", "-c", script, "sh", path, given=content).returncode == 0

    def ganeti(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one of Ganeti's commands on the master."""
        return self.run("env", "-C", ROOT, ROOT / "node1" / "cmd", *arguments)


@contextlib.contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A machine with Ganeti installed; the folder has to be empty, and is so again."""
    _look_for(*("unshare", "nsenter", "mount", "chroot", "apt-get", "ip"))
    seen = [str(path) for path in dict.fromkeys([CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)])]
    script = ["/bin/sh", str(HERE / "machine.sh"), str(folder), *seen]
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--"]
    with (folder.parent / "machine.log").open("w+") as log:
        process = subprocess.Popen(
            [*namespaces, *script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )
        with process:
            assert process.stdout is not None
            try:
                yield Machine(_ready(process.stdout, log))
            finally:
                process.kill()


@contextlib.contextmanager
def cluster(folder: Path, *, nodes: int) -> Iterator[Machine]:
    """The master's machine of a cluster of node1 to node`nodes`, of which node1 is the master."""
    with machine(folder) as one:
        made = one.run("/bin/sh", HERE / "cluster.sh", str(nodes), ROOT)
        assert made.returncode == 0, f"the cluster could not be made:\n{made.stdout}{made.stderr}"
        yield one


def _ready(output: IO[str], log: IO[str]) -> int:
    """The number of the machine's first process, once it serves."""
    told = output.readline().split()
    if output.readline() != "ready\n":
        log.seek(0)
        _absent("Ganeti could not be installed:\n" + "".join(log.readlines()[-10:]))
    return int(told[1])


def _look_for(*programs: str) -> None:
    absent = [name for name in programs if shutil.which(name) is None]
    if os.geteuid() != 0 or absent:
        _absent(f"a machine of namespaces takes root, and {', '.join(programs)}")


def _absent(text: str) -> None:
    """Without its means a test is skipped, and fails where CI=true."""
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)
