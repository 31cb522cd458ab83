"""libvirt on one node, this one or another: its domains, looked up by name and handled by UUID.

virsh takes a name of digits for the number of another domain, so no command here gets a name.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional

from ..domain.values import errors
from . import virsh, virsh_output
from .virsh_output import Domain, State

if TYPE_CHECKING:
    import pathlib

DEFINITIONS = "var/lib/roundsman/definitions"
FAR_LIMIT = 30.0
"""How long another node may take to answer, in seconds: it may be down."""

_STATS = ("--raw", "--nowait", "--state", "--balloon", "--vcpu", "--cpu-total")
_ARRIVES = "available only on the source host"
_BUSY = "cannot acquire state change lock"


class Host:
    """The domains of the libvirt that a client reaches."""

    def __init__(self, client: virsh.Virsh) -> None:
        self.client = client
        self._uuids: Dict[str, str] = {}
        self._limit = virsh.TIME_LIMIT if client.uri == virsh.HERE else FAR_LIMIT

    def domains(self) -> List[Domain]:
        """Every domain, those that are off, too.

        Raises:
            Failed: libvirt does not answer.
        """
        return virsh_output.domains(self._run("domstats", *_STATS))

    def domain(self, name: str) -> Optional[Domain]:
        """One domain that is not off.

        Raises:
            Failed: libvirt does not answer.
        """
        return next(
            (domain for domain in self.domains() if domain.name == name and domain.state is not State.OFF), None
        )

    def job(self, name: str) -> virsh_output.Job:
        """What libvirt does to a domain at the moment; nothing where there is none."""
        try:
            return virsh_output.job(self._run("domjobinfo", self.uuid(name)))
        except errors.Failed as error:
            if _ARRIVES in str(error):
                return virsh_output.Job(virsh_output.ARRIVES)
            if _BUSY in str(error):
                return virsh_output.Job(virsh_output.BUSY)
            if self.domain(name) is None:
                return virsh_output.Job()
            raise

    def seconds_up(self) -> float:
        """How long this node has been up, as the time that its first CPU has counted since; stolen time is missing.

        Raises:
            Failed: libvirt does not answer, or does not say so.
        """
        return virsh_output.cpu_seconds(self._run("nodecpustats", "--cpu", "0"))

    def is_defined(self, name: str) -> bool:
        """Whether there is a definition that outlives the domain."""
        return name in virsh_output.names(self._run("list", "--all", "--persistent", "--name"))

    def release(self, name: str, *, keep: pathlib.Path) -> bool:
        """Drop the definition that outlives a domain, so that nobody but Roundsman starts it; what runs goes on.

        The definition is kept in a file. Returns whether there was one.
        """
        if not self.is_defined(name):
            return False
        uuid = self.uuid(name)
        try:
            keep.parent.mkdir(parents=True, exist_ok=True)
            keep.write_text(self._run("dumpxml", "--inactive", uuid))
        except OSError as error:
            raise errors.StoreFailed(f"{keep}: {error.strerror}: the definition of {name} stays") from error
        self._run("undefine", "--keep-nvram", uuid)
        return True

    def create(self, name: str, xml: str) -> None:
        """Start a domain that leaves no definition behind.

        Raises:
            Failed: it does not start; the text has libvirt's words.
        """
        with _about(name):
            self._run("create", "/dev/stdin", given=xml)

    def order(self, command: str, name: str, *arguments: str) -> None:
        """Have a command of virsh done to a domain.

        Raises:
            Failed: it failed, or there is no such domain.
        """
        with _about(name):
            self._run(command, self.uuid(name), *arguments)

    def uuid(self, name: str) -> str:
        """The UUID that libvirt knows a domain by.

        Raises:
            Failed: there is no such domain.
        """
        if name not in self._uuids:
            self._uuids = virsh_output.uuids(self._run("list", "--all", "--uuid", "--name"))
        if name not in self._uuids:
            raise errors.Failed(f"{name} is not on {self.client.uri}")
        return self._uuids[name]

    def _run(self, *arguments: str, given: str = "") -> str:
        return self.client.run(*arguments, given=given, time_limit=self._limit)


@contextlib.contextmanager
def _about(name: str) -> Iterator[None]:
    try:
        yield
    except errors.Failed as error:
        raise errors.Failed(f"{name}: {error}") from error
