"""Where a new instance goes: what is asked for is kept, and an allocator, ours or an external one, chooses the rest.

An external one is a program that speaks Ganeti's protocol: PROGRAM FILE, its answer on standard output.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..module_utils import killing, trusted_paths
from ..module_utils.domain.values import errors
from .placement.allocation import allocator
from .placement.protocol import allocator_requests, own_allocator
from .rounds import configured

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..module_utils.domain.values import tree
    from .cluster import cluster as clusters
    from .placement.models import model

SECONDS = 600.0
LONGEST_ERROR = 500
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Wish:
    """What is asked for: the name of a group or "", and nodes (UUIDs), the primary first, as far as they are named."""

    group: str = ""
    nodes: tuple[str, ...] = ()


def chosen(cluster: clusters.Cluster, name: str, *, where: tree.Tree) -> allocator.Allocator:
    """The allocator of this name, else the cluster's default one, else ours; external ones are programs of root's.

    Raises:
        InvalidInput: there is no such program. Refused: others than root can write it.
    """
    wanted = name or cluster.cluster.default_iallocator
    if not wanted:
        return own_allocator.make()
    path = where.allocators / wanted
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", wanted) or not os.access(path, os.X_OK):
        raise errors.InvalidInput(f"iallocator: there is no program {wanted!r} in {where.allocators}")
    trusted_paths.check(path, root=where.root)
    return Program(path)


def place(cluster: clusters.Cluster, draft: clusters.Instance, wish: Wish, *, by: allocator.Allocator) -> list[str]:
    """The nodes (UUIDs) of a new instance, the primary first.

    Raises:
        Refused: there is no place for it; the text says why, group by group. InvalidInput: more nodes are named than
            it can have, or the allocator names others. CommandFailed: an external allocator fails.
    """
    copies = 2 if draft.disk_template == "drbd" else 1
    if len(wish.nodes) > copies:
        raise errors.InvalidInput(f"nodes: an instance with the disk template {draft.disk_template} has {copies}")
    names = {node.uuid: node.name for node in cluster.nodes.values()}
    primary, secondary = (*(names[uuid] for uuid in wish.nodes), "", "")[:2]
    newcomer = replace(configured.instance_of(draft, {"": ""}), primary=primary, secondary=secondary)
    wanted = allocator.Wanted(newcomer, tuple(disk.size for disk in draft.disks), wish.group)
    result = by.decide(configured.model_of(cluster), allocator.Allocate(wanted))
    if not result.placements:
        told = result.unplaced[0].text if result.unplaced else result.info
        raise errors.Refused(f"{draft.name} has no place: {told}")
    found = result.placements[0].nodes
    if len(found) != copies:
        raise errors.InvalidInput(f"the allocator gives {draft.name} the nodes {', '.join(found)}, and it has {copies}")
    return _uuids(cluster, found)


def _uuids(cluster: clusters.Cluster, names: Sequence[str]) -> list[str]:
    return [cluster.node(name).uuid for name in names]


@dataclass(frozen=True)
class Program:
    """An allocator by the absolute path of its program; after `seconds` its whole process group is ended."""

    path: Path
    arguments: tuple[str, ...] = ()
    seconds: float = SECONDS

    def decide(self, found: model.Model, request: allocator.Request, /) -> allocator.Result:
        """Ask the program.

        Raises:
            CommandFailed: it cannot be started, takes too long or fails.
            InvalidInput: what it answered cannot be read.
            Refused: it says that it failed.
        """
        with tempfile.NamedTemporaryFile("w", prefix="roundsman-allocator-", suffix=".json", encoding="utf-8") as file:
            file.write(allocator_requests.write(found, request))
            file.flush()
            answer = self._run([str(self.path), file.name, *self.arguments, *_options(request)])
        return allocator_requests.read(answer, request)

    def _run(self, command: Sequence[str]) -> str:
        process = self._start(command)
        is_over = False
        try:
            output, said = process.communicate(timeout=self.seconds)
            is_over = True
        except subprocess.TimeoutExpired as error:
            text = f"the allocator {self.path} did not end within {self.seconds:g} seconds"
            raise errors.CommandFailed("timeout", text) from error
        finally:
            # What a program that has come to its end leaves running is its own affair.
            if not is_over:
                _end(process)
        if process.returncode != 0:
            why = " ".join(said.split())[:LONGEST_ERROR] or f"exit status {process.returncode}"
            raise errors.CommandFailed("failed", f"the allocator {self.path} failed: {why}")
        return output

    def _start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start the very file that was checked, under its own name."""
        try:
            with trusted_paths.opened(str(self.path)) as found:
                return subprocess.Popen(
                    command,
                    executable=found.executable,
                    pass_fds=[found.descriptor],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    cwd="/",
                    env=ENVIRONMENT,
                    encoding="utf-8",
                    errors="replace",
                )
        except errors.Refused as error:
            raise errors.CommandFailed("start", f"the allocator {error}") from error
        except OSError as error:
            raise errors.CommandFailed("start", f"the allocator {self.path}: {error.strerror}") from error


def _options(request: allocator.Request) -> list[str]:
    """What Ganeti says on the command line and not in the request."""
    return ["--ignore-soft-errors"] if isinstance(request, allocator.Evacuate) and request.ignores_soft_errors else []


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a program's whole group: the program may have ended already, and a child of it keeps its output open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    killing.kill(process)
