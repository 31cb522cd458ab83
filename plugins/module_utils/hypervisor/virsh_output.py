"""What virsh prints about domains and their jobs: pure parsers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Dict, List, Mapping, Tuple

from ..domain.values import errors


class State(Enum):
    """How a domain is on its node; the values are words for people."""

    RUNNING = "running"
    HALTED = "halted"
    MOVING = "in migration"
    OFF = "off"


# virDomainState and the reasons of each, from libvirt-domain.h.
_RUNNING, _PAUSED, _OFF = {"1", "2"}, "3", {"0", "5"}
_MIGRATION = {"2", "11", "12", "13"}
_WHY_PAUSED: Mapping[str, str] = {
    "1": "paused by somebody",
    "3": "paused while it is saved",
    "4": "paused while its memory is dumped",
    "5": "paused after an I/O error of a disk",
    "6": "paused by its watchdog",
    "8": "paused while it shuts down",
    "9": "paused for a snapshot",
    "10": "crashed, and is kept paused",
}
_OTHERWISE: Mapping[str, str] = {"4": "shutting down", "6": "crashed", "7": "put to sleep by its own system"}
ARRIVES, BUSY = "Incoming migration", "busy"
"""Operations beside those that virsh names: of a domain that comes from elsewhere, and of one that cannot be asked."""
_STATS = "domain's statistics"
_MIB = {"B": 2.0**-20, "KiB": 2.0**-10, "MiB": 1.0, "GiB": 2.0**10, "TiB": 2.0**20, "PiB": 2.0**30}
_KIB = 1024
_NANO = 10**9


@dataclass(frozen=True)
class Domain:
    """A domain of a node: memory in MiB, CPU time in seconds; `text` is its state in plain words."""

    name: str
    state: State
    text: str
    memory: int = 0
    vcpus: int = 0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Job:
    """What libvirt does to a domain at the moment; `operation` is "" for nothing, memory is in MiB."""

    operation: str = ""
    seconds: float = 0.0
    total: float = 0.0
    remaining: float = 0.0
    iteration: int = 0

    @property
    def leaves(self) -> bool:
        """Whether the domain is on its way to another node."""
        return self.operation == "Outgoing migration"

    @property
    def is_busy(self) -> bool:
        """Whether the domain does something that lets nobody ask what."""
        return self.operation == BUSY

    @property
    def moves(self) -> bool:
        """Whether the domain is on its way from or to another node."""
        return self.operation in {"Outgoing migration", ARRIVES}


def domains(text: str) -> List[Domain]:
    """The domains of `domstats --raw`.

    Raises:
        InvalidInput: the text is not that.
    """
    found: List[Tuple[str, Dict[str, str]]] = []
    for line in filter(str.strip, text.splitlines()):
        head = re.fullmatch(r"Domain: '(.*)'", line)
        key, equals, value = line.strip().partition("=")
        if head:
            found.append((head[1], {}))
        elif found and equals:
            found[-1][1][key] = value
        else:
            raise errors.InvalidInput(f"virsh domstats says {line.strip()[:80]!r}, which is no {_STATS}")
    return [_domain(name, values) for name, values in found]


def _domain(name: str, values: Mapping[str, str]) -> Domain:
    if "state.state" not in values:
        raise errors.InvalidInput(f"virsh domstats does not say how {name} is")
    state, text = _state(values["state.state"], values.get("state.reason", "0"))
    try:
        memory, vcpus, nanoseconds = (
            int(values.get(key, "0")) for key in ("balloon.maximum", "vcpu.current", "cpu.time")
        )
    except ValueError as error:
        raise errors.InvalidInput(f"virsh domstats says of {name} what is no number: {error}") from error
    return Domain(name, state, text, memory=memory // _KIB, vcpus=vcpus, cpu_seconds=nanoseconds / _NANO)


def _state(state: str, reason: str) -> Tuple[State, str]:
    if state in _RUNNING:
        return State.RUNNING, State.RUNNING.value
    if state in _OFF:
        return State.OFF, State.OFF.value
    if state == _PAUSED and reason in _MIGRATION:
        return State.MOVING, State.MOVING.value
    if state == _PAUSED:
        return State.HALTED, _WHY_PAUSED.get(reason, "paused")
    return State.HALTED, _OTHERWISE.get(state, f"in state {state} of libvirt")


def uuids(text: str) -> Dict[str, str]:
    """The UUIDs of domains by their names, of `list --all --uuid --name`."""
    pairs = (line.split(None, 1) for line in text.splitlines() if line.strip())
    return {pair[1].strip(): pair[0] for pair in pairs if len(pair) > 1}


def names(text: str) -> List[str]:
    """The names of `list --name`."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def job(text: str) -> Job:
    """The job of `domjobinfo`.

    Raises:
        InvalidInput: the text is not that.
    """
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    if "Job type" not in values:
        raise errors.InvalidInput(f"virsh domjobinfo says {text.strip()[:80]!r}, which is no job")
    if values["Job type"] not in {"Bounded", "Unbounded"}:
        return Job()
    return Job(
        operation=values.get("Operation", "unknown"),
        seconds=_first(values.get("Time elapsed", "0 ms")) / 1000,
        total=_mib(values.get("Memory total", "0 B")),
        remaining=_mib(values.get("Memory remaining", "0 B")),
        iteration=int(_first(values.get("Iteration", "0"))),
    )


def _first(value: str) -> float:
    try:
        return float(value.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        raise errors.InvalidInput(f"virsh domjobinfo says {value!r}, which is no number") from None


def _mib(value: str) -> float:
    return _first(value) * _MIB.get(value.rsplit(maxsplit=1)[-1], 0.0)


def cpu_seconds(text: str) -> float:
    """The time that a CPU has counted since its node was booted, in seconds, from `virsh nodecpustats --cpu`.

    Raises:
        Failed: it is not there.
    """
    found = re.findall(r"^(user|system|idle|iowait):\s+(\d+)\s*$", text, re.MULTILINE)
    if not found:
        raise errors.Failed("virsh nodecpustats: it does not say how long the node has been up")
    return sum(int(number) for _name, number in found) / _NANO
