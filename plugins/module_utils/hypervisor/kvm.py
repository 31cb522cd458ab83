"""Instances of KVM through libvirt: domains that leave no definition behind, the configuration is their record."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping

from .. import trusted_paths
from ..domain.values import errors
from ..domain.values import hvparams as parameters
from . import kvm_migration, libvirt_host, libvirt_xml, virsh
from .kvm_migration import TargetLacks, Where
from .virsh_output import State

if TYPE_CHECKING:
    import pathlib

    from .virsh_output import Domain

PAUSES = (0.25, 2.0)
"""How long between two looks at a domain that shuts down, in seconds: the first, and the longest."""


class Driver:
    """The KVM of this node; what it leaves for its next process is below `root`, `opcode` is whom it works for."""

    def __init__(self, root: pathlib.Path, *, opcode: str, connect: Callable[..., virsh.Virsh] = virsh.Virsh) -> None:
        self._root = root
        self._here = libvirt_host.Host(connect())
        self._moves = kvm_migration.Migrations(self._here, root, opcode=opcode, connect=connect)

    @property
    def progress(self) -> Mapping[str, float]:
        """How far the last migration was when it was looked at last: seconds, MiB of memory, passes over it."""
        return self._moves.progress

    def running(self) -> List[str]:
        """The names of the instances that run here; what is halted or half made does not."""
        return sorted(domain.name for domain in self._here.domains() if domain.state is State.RUNNING)

    def states(self) -> Dict[str, str]:
        """Of every instance that is here, running or not, its state in plain words."""
        return {domain.name: domain.text for domain in self._here.domains() if domain.state is not State.OFF}

    def facts(self) -> Dict[str, Dict[str, Any]]:
        """Of every instance that is here its memory (MiB), vcpus, and the CPU time it has used (seconds)."""
        found = [domain for domain in self._here.domains() if domain.state is not State.OFF]
        return {
            domain.name: {"memory": domain.memory, "vcpus": domain.vcpus, "cpu_seconds": round(domain.cpu_seconds, 3)}
            for domain in found
        }

    def migrations(self) -> Dict[str, Dict[str, Any]]:
        """The migrations from here that were begun and have no known end, with their progress."""
        return kvm_migration.notes(self._root)

    def start(self, name: str, facts: Mapping[str, Any], *, runs_nowhere: bool = False) -> bool:
        """Start an instance; returns whether it was not running yet.

        With `runs_nowhere` it is known that no other node runs it, though the target of a migration that was
        interrupted does not answer.

        Raises:
            Failed: it does not start, it is here and halted, or a migration that was interrupted took it to another
                node, where it runs or may run. InvalidInput: the facts make no domain, or others than root could have
                written a program that it names.
        """
        told = self._moves.recover(name)
        if told is not None:
            self._refuse_elsewhere(name, *told, runs_nowhere=runs_nowhere)
        found = self._here.domain(name)
        if found is not None and found.state is State.RUNNING:
            return False
        if found is not None:
            raise errors.Failed(f"{name} is here already, {found.text}: fix that, or stop it first")
        xml = libvirt_xml.definition(name, facts)
        _refuse_programs(name, xml)
        self._release(name)
        self._here.create(name, xml)
        self._moves.forget(name)
        return True

    def stop(self, name: str, *, time_limit: float, only_here: bool = False) -> bool:
        """Stop an instance, softly, and hard after `time_limit` seconds; returns whether it was here.

        A migration that was interrupted is waited for as long as a soft stop. What is halted cannot hear one. Its
        definition goes, too, so that no boot of the node starts it. With `only_here` it only must not be here, in no
        state, and whoever starts it looks for it on both nodes of that migration.

        Raises:
            Failed: it is still here, it arrives from another node, or a migration that was interrupted took it to
                another node, where it runs or may run.
        """
        told, found = self._moves.recover(name, patience=time_limit), self._here.domain(name)
        is_left = told is not None and found is None and told[0] is not Where.NOT_THERE
        if told is not None and is_left and not only_here:
            raise errors.Failed(f"{name} was not stopped: {told[1]}")
        released = self._release(name)
        if found is None:
            return released
        if not only_here:
            self._refuse_arriving(found)
        if self._here.job(name).leaves:
            # To end it here needs no monitor, and ends the migration, too.
            with contextlib.suppress(*((errors.Failed,) if only_here else ())):
                self._here.order("domjobabort", name)
        if found.state is State.RUNNING and time_limit > 0 and self._ends_softly(name, time_limit=time_limit):
            return True
        try:
            self._here.order("destroy", name)
        except errors.Failed as error:
            if self._here.domain(name) is not None:
                raise errors.Failed(f"{name} could not be ended and is still here: {error}") from error
        return True

    def migrate(self, name: str, target: str, *, hvparams: Mapping[str, str], target_lacks: TargetLacks) -> bool:
        """Hand a running instance over to the node with this address, without a stop.

        Returns whether it was here; when it runs there already, nothing is done. `target_lacks` says why that node may
        lack writes of the instance, '' while it has all.

        Raises:
            Failed: it runs on neither node, or was not moved; the text says where it runs.
        """
        self._moves.recover(name, target_lacks=target_lacks)
        self._release(name)
        return self._moves.migrate(name, target, given=parameters.kvm(hvparams), target_lacks=target_lacks)

    def recover(self, name: str) -> str:
        """Await or abort what a killed step left at work on an instance, and say where it runs; "" for nothing left."""
        told = self._moves.recover(name)
        if told is None:
            return ""
        if told[0] is Where.THERE:
            self._moves.forget(name)
        return f"{name}: {told[1]}"

    def _release(self, name: str) -> bool:
        return self._here.release(name, keep=self._root / libvirt_host.DEFINITIONS / f"{name}.xml")

    def _refuse_elsewhere(self, name: str, where: Where, text: str, *, runs_nowhere: bool) -> None:
        if kvm_migration.may_start(where, runs_nowhere=runs_nowhere):
            return
        remedy = (
            "; restore the network link of the target, or start its libvirt, then retry. If the target is off and will "
            f"stay off, run `rm {self._moves.path(name)}` here, then retry"
            if where is Where.UNANSWERED
            else ""
        )
        raise errors.Failed(f"{name} was not started: {text}{remedy}")

    def _refuse_arriving(self, found: Domain) -> None:
        if found.state is State.MOVING and not self._here.job(found.name).leaves:
            raise errors.Failed(
                f"{found.name} arrives here from another node, or was left half-way: on the node that it comes from, "
                f"run `{virsh.by_hand('domjobabort', found.name)}`, which ends a migration at work; if it is "
                f"here then, run `{virsh.by_hand('destroy', found.name)}` here, then retry"
            )

    def _ends_softly(self, name: str, *, time_limit: float) -> bool:
        deadline, (pause, longest) = time.monotonic() + time_limit, PAUSES
        try:
            self._here.order("shutdown", name)
        except errors.Failed:
            return self._here.domain(name) is None
        while self._here.domain(name) is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, longest)
        return True


def _refuse_programs(name: str, xml: str) -> None:
    """Go on only if nobody but root could have written the programs that a definition names; libvirt starts them.

    One that is missing is libvirt's to tell.
    """
    for path in libvirt_xml.programs(xml):
        if not os.path.lexists(path):
            continue
        try:
            with trusted_paths.opened(path):
                pass
        except errors.Refused as error:
            raise errors.InvalidInput(f"{name}: its definition names a program that is not root's: {error}") from error
