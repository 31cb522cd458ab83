"""libvirt on two nodes, in memory, which answers in the words of virsh."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import virsh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"
RUNS, HALTED, MOVING, OFF = (1, 1), (3, 5), (3, 2), (5, 0)


def facts(**changed: Any) -> dict[str, Any]:
    """What an instance is started from."""
    return {"uuid": UUID, "memory": 16, "vcpus": 1, "devices": ["/dev/x"], "nics": [], "hvparams": {}, **changed}


def by_hand(refused: Exception) -> list[list[str]]:
    """The commands of virsh that a text names, without how libvirt is reached."""
    return [found.split() for found in re.findall(rf"`virsh --connect {virsh.HERE} ([^`]*)`", str(refused))]


@dataclass
class Domain:
    """A domain: what it is, the definition that outlives it, its job, and whether it hears a soft stop."""

    state: tuple[int, int] = RUNS
    uuid: str = UUID
    defined: bool = False
    job: str = ""
    began: float = 0.0
    hears: bool = True
    dies: bool = True
    xml: str = ""


class Clock:
    """Time that passes when somebody waits; `plans` are done when it is time for them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.plans: list[tuple[float, Callable[[], object]]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        due = [plan for plan in self.plans if plan[0] <= self.now]
        self.plans = [plan for plan in self.plans if plan[0] > self.now]
        for _when, act in due:
            act()


@dataclass
class Host:
    """A node: its domains, the commands it fails with which words, and when it was booted."""

    clock: Clock
    domains: dict[str, Domain] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)
    down: bool = False
    booted: float = -86400.0


class Libvirts:
    """Nodes by the URI at which virsh reaches them; a migration takes `seconds`, its client may die at once."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.hosts = {uri: Host(self.clock) for uri in (virsh.HERE, "qemu+tcp://n2/system")}
        self.here, self.there = self.hosts.values()
        self.calls: list[tuple[str, ...]] = []
        self.seconds = 0.5
        self.client_dies = False

    def begin(self, name: str) -> None:
        """Have libvirt of the first node migrate a domain to the second."""
        one = self.here.domains[name]
        one.job, one.began = "Outgoing migration", self.clock.now
        self.there.domains[name] = Domain(state=MOVING, uuid=one.uuid, job="in")
        self.clock.plans.append((self.clock.now + self.seconds, lambda: self._arrive(name)))

    def _arrive(self, name: str) -> None:
        here = self.here.domains.get(name)
        if here is not None and here.job:
            self.there.domains[name] = dataclasses.replace(self.there.domains[name], state=(1, 2), job="")
            del self.here.domains[name]

    def connect(self, uri: str = virsh.HERE) -> Client:
        return Client(uri, self)


class Client(virsh.Virsh):
    """virsh as a node runs it."""

    def __init__(self, uri: str, libvirts: Libvirts) -> None:
        super().__init__(uri)
        self._all = libvirts

    def run(self, *arguments: str, given: str = "", time_limit: float = 60) -> str:
        self._all.calls.append(arguments)
        host = self._all.hosts.get(self.uri)
        if host is None or host.down:
            raise errors.Failed(f"virsh {arguments[0]}: failed to connect to the hypervisor: No route to host")
        if arguments[0] in host.fails:
            raise errors.Failed(f"virsh {arguments[0]}: {host.fails[arguments[0]]}")
        answer = getattr(self, "_" + arguments[0].replace("-", "_"))
        return str(answer(host, arguments[1:], given) or "\n")

    @contextlib.contextmanager
    def started(self, *arguments: str, given: str = "") -> Iterator[subprocess.Popen[str]]:
        self._all.calls.append(arguments)
        name = self._name(self._all.hosts[self.uri], arguments[-1])
        yield Migration(self._all, name)  # type: ignore[misc]  # as much of a process as is looked at

    def _name(self, host: Host, uuid: str) -> str:
        name = next((name for name, one in host.domains.items() if one.uuid == uuid), None)
        if name is None:
            raise errors.Failed(f"virsh: failed to get domain '{uuid}'")
        return name

    def _domstats(self, host: Host, *_: object) -> str:
        line = "Domain: '{}'\n  state.state={}\n  state.reason={}\n  balloon.maximum=16384\n  vcpu.current=1\n"
        times = f"  cpu.time={int(host.clock.now * 0.5e9)}\n"
        return "\n".join(line.format(name, *one.state) + times for name, one in host.domains.items())

    def _nodecpustats(self, host: Host, *_: object) -> str:
        whole = int((host.clock.now - host.booted) * 1e9)
        return f"user:  {whole // 4}\nsystem: {whole // 4}\nidle: {whole // 2}\niowait: 0\n"

    def _list(self, host: Host, options: tuple[str, ...], _given: str) -> str:
        if "--persistent" in options:
            return "".join(f"{name}\n" for name, one in host.domains.items() if one.defined)
        return "".join(f"{one.uuid} {name}\n" for name, one in host.domains.items())

    def _domjobinfo(self, host: Host, options: tuple[str, ...], _given: str) -> str:
        one = host.domains[self._name(host, options[0])]
        if one.job == "in":
            raise errors.Failed("virsh domjobinfo: migration statistics are available only on the source host")
        if one.job == "busy":
            raise errors.Failed("virsh domjobinfo: Timed out: cannot acquire state change lock (held by x)")
        if not one.job:
            return "Job type:         None\n"
        elapsed = int((host.clock.now - one.began) * 1000)
        return (
            f"Job type: Unbounded\nOperation: {one.job}\nTime elapsed: {elapsed} ms\n"
            "Memory remaining: 9.5 MiB\nMemory total: 16 MiB\nIteration: 2\n"
        )

    def _create(self, host: Host, _options: tuple[str, ...], given: str) -> None:
        root = ET.fromstring(given)
        name, uuid = (root.findtext(tag) or "" for tag in ("name", "uuid"))
        host.domains[name] = Domain(uuid=uuid, xml=given)

    def _destroy(self, host: Host, options: tuple[str, ...], _given: str) -> None:
        if host.domains[name := self._name(host, options[0])].dies:
            del host.domains[name]
        else:
            raise errors.Failed("virsh destroy: Failed to terminate process 7 with SIGKILL: Device or resource busy")

    def _shutdown(self, host: Host, options: tuple[str, ...], _given: str) -> None:
        name = self._name(host, options[0])
        if host.domains[name].hears:
            host.clock.plans.append((host.clock.now + 3, lambda: host.domains.pop(name, None)))

    def _resume(self, host: Host, options: tuple[str, ...], _given: str) -> None:
        host.domains[self._name(host, options[0])].state = RUNS

    def _dumpxml(self, host: Host, options: tuple[str, ...], _given: str) -> str:
        return host.domains[self._name(host, options[-1])].xml

    def _undefine(self, host: Host, options: tuple[str, ...], _given: str) -> None:
        name = self._name(host, options[-1])
        host.domains[name].defined = False
        if host.domains[name].state == OFF:
            del host.domains[name]

    def _domjobabort(self, host: Host, options: tuple[str, ...], _given: str) -> None:
        one = host.domains[name := self._name(host, options[0])]
        if one.job in {"", "busy"}:
            raise errors.Failed("virsh domjobabort: Requested operation is not valid: no job is active on the domain")
        one.job = ""
        self._all.there.domains.pop(name, None)

    def _migrate_setmaxdowntime(self, *_: object) -> None:
        """It is in the calls."""


class Migration:
    """A migration at work, and as much of virsh's process as is looked at."""

    def __init__(self, libvirts: Libvirts, name: str) -> None:
        self._all = libvirts
        self._name = name
        self.returncode: int | None = None
        libvirts.begin(name)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        if self._all.client_dies:
            self.returncode = -9
            return "", ""
        self._all.clock.sleep(timeout or 0)
        here = self._all.here.domains.get(self._name)
        if here is None:
            self.returncode = 0
            return "", ""
        if not here.job:
            self.returncode = 1
            return "", "error: operation aborted: job 'migration out' canceled by client\n"
        raise subprocess.TimeoutExpired("virsh", timeout or 0)
