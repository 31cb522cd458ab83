"""DRBD as it is on this node: its version, and what its resources say of themselves."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import TYPE_CHECKING, Dict, FrozenSet, Optional

from ..domain.disks.drbd import Connection, Generation, Net, Resources, Side, Volume
from ..domain.values import errors
from . import drbd_status

if TYPE_CHECKING:
    from .programs import Runner

PROC = "proc/drbd"
"""Where a node's kernel tells of its DRBD, below the node's root."""
REPORT = "report"
"""What stands in the place of an opcode where a node makes its report."""
NO_JSON = 8
TRIES = 3
HASTY = "did not terminate within"
"""What drbdadm says when it waits no longer for its own child, a few seconds: that may still have done it."""


class DrbdNode:
    """Reads DRBD on this node."""

    def __init__(self, runner: Runner, *, proc: pathlib.Path = pathlib.Path("/") / PROC) -> None:
        self._runner = runner
        self._proc = proc

    def version(self) -> Optional[int]:
        """The major version of the module in the kernel; None while there is none."""
        match = re.match(r"version: (\d+)\.", self._told())
        return int(match.group(1)) if match else None

    def load(self) -> int:
        """Put the module into the kernel if it is not there; returns its major version.

        Raises:
            Failed: this node has no DRBD.
        """
        if self.version() is None:
            self._runner.run("modprobe", "drbd")
        version = self.version()
        if version is None:
            raise errors.Failed(f"the kernel has no DRBD: {self._proc} does not have its version")
        return version

    def resources(self) -> Resources:
        """What every resource that is up says of itself.

        Raises:
            InvalidInput: nothing of it can be read.
        """
        version = self.version()
        if version is None:
            return Resources([], {})
        if version > NO_JSON:
            return drbd_status.of_json(self._runner.run("drbdsetup", "status", "--json"))
        # Two looks, of which the second may miss what has gone down since the first: then both are taken again.
        for _ in range(TRIES - 1):
            found = self._resources_of_8()
            if drbd_status.GONE not in found.unread.values():
                return found
        return self._resources_of_8()

    def _resources_of_8(self) -> Resources:
        status = self._runner.run("drbdsetup", "status", "--verbose", "--statistics")
        return drbd_status.of_text(status, self._told())

    def side(self, resource: str) -> Optional[Side]:
        """What one resource says of itself; None while it is down.

        Raises:
            InvalidInput: it cannot be read.
        """
        return self.resources().side(resource)

    def adjust(self, resource: str) -> None:
        """Have a resource be as its file says, which brings it up where it is down."""
        insist(self._runner, "drbdadm", "adjust", resource)

    def forget_peers(self, resource: str) -> None:
        """Have version 9 forget the peer that a resource has in its file, and what that one lacks.

        Repeated, it does what is left of it. A resource that is down is forgotten in its metadata.
        """
        for number in drbd_status.peers_of_json(self._runner.run("drbdsetup", "status", "--json"), resource):
            self._runner.run("drbdsetup", "del-peer", resource, str(number))
        self._runner.run("drbdadm", "forget-peer", resource)

    def with_generations(self, side: Side) -> Side:
        """The same with the generation identifiers of its volumes, where they can be read."""
        volumes = [dataclasses.replace(volume, generation=self.generation(side, volume)) for volume in side.volumes]
        return dataclasses.replace(side, volumes=tuple(volumes))

    def generation(self, side: Side, volume: Volume) -> Optional[Generation]:
        """The generation identifiers of a volume; None if they cannot be read, as where the disk is gone."""
        return self.stored_generation(side.resource, volume.number)

    def stored_generation(self, resource: str, number: int = 0) -> Optional[Generation]:
        """The same, also of a resource that is down: drbdadm then reads its metadata."""
        try:
            return drbd_status.generation(insist(self._runner, "drbdadm", "get-gi", f"{resource}/{number}"))
        except errors.RoundsmanError:
            return None

    def nets(self) -> Dict[str, Net]:
        """How the kernel is to reach the peer of each resource that is up."""
        return {} if self.version() is None else drbd_status.nets(self._runner.run("drbdsetup", "show"))

    def allowing_two(self) -> FrozenSet[str]:
        """The resources that may have two primaries just now."""
        return frozenset(name for name, net in self.nets().items() if net.two_primaries)

    def has_none_up(self) -> bool:
        """Whether it is known without a program that no resource is up; version 9 has to be asked."""
        told = self._told()
        match = re.match(r"version: (\d+)\.", told)
        return match is None or (int(match.group(1)) <= NO_JSON and " cs:" not in told)

    def _told(self) -> str:
        try:
            return self._proc.read_text()
        except FileNotFoundError:
            return ""


def insist(runner: Runner, *command: str) -> str:
    """Run a command of drbdadm that may be repeated, again where drbdadm was in a hurry on a busy node."""
    for _ in range(TRIES - 1):
        try:
            return runner.run(*command)
        except errors.Failed as error:
            if HASTY not in str(error):
                raise
    return runner.run(*command)


def is_together(side: Side) -> bool:
    """Whether a side has its peer."""
    return side.connection is Connection.CONNECTED
