"""The nodes of one request, each with how to reach its BMC or why it cannot be tried: one such node stops no other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar

from ..domain.power import power
from ..domain.values import errors
from . import credentials, drivers, program

Told = TypeVar("Told")
HELPERS = "oob-programs"
"""The folder of root's with the helper programs that root runs, beside the credentials file."""
TARGET: Mapping[str, Any] = {
    "name": {"type": "str", "required": True},
    "driver": {"type": "str", "default": credentials.DEFAULT_DRIVER},
    "address": {"type": "str", "default": ""},
    "port": {"type": "int", "default": 0},
    "username": {"type": "str", "default": ""},
    "password": {"type": "str", "default": "", "no_log": True},
    "certificate": {"type": "str", "default": ""},
}
OPTIONS: Mapping[str, Any] = {
    "targets": {"type": "list", "elements": "dict", "options": TARGET},
    "credentials_file": {"type": "path"},
    "nodes": {"type": "list", "elements": "str"},
    "drivers": {"type": "dict"},
    "deadline": {"type": "float"},
}
"""The options that every module about BMCs has."""
TOGETHER: Mapping[str, Any] = {
    "required_one_of": [("targets", "credentials_file")],
    "mutually_exclusive": [("targets", "credentials_file")],
    "required_together": [("credentials_file", "nodes")],
}
"""Which of them go together, in the words of AnsibleModule."""


@dataclass(frozen=True)
class Wanted:
    """One node of a request: its target, or what stands against trying it."""

    name: str
    target: Optional[power.Target] = None
    failure: Optional[power.Failure] = None


def of_options(options: Mapping[str, Any]) -> List[Wanted]:
    """Read the nodes that a module's options name.

    Raises:
        errors.InvalidInput: the file as a whole does not serve, or a node is named twice.
    """
    if options["targets"] is None:
        return of_file(options["credentials_file"], nodes=options["nodes"], chosen=options["drivers"] or {})
    entries = [dict(entry) for entry in options["targets"]]
    names = [entry.pop("name") for entry in entries]
    return _of_entries(names, dict(zip(names, entries)), source="the request")  # noqa: B905 -- Python 3.9 has no strict=


def of_file(path: str, *, nodes: Sequence[str], chosen: Mapping[str, str] = MappingProxyType({})) -> List[Wanted]:
    """Read the nodes from a credentials file, in the order asked for; `chosen` are drivers that go before the file's.

    The file need not be there when all nodes are reached through helper programs. Somebody else than root may have
    written the file or chosen the drivers, so root runs only programs that are in the folder HELPERS beside the file
    (see `program.check_listed`).

    Raises:
        errors.InvalidInput: the file as a whole does not serve, or a node is named twice.
    """
    programs = {name: {"driver": driver} for name, driver in chosen.items() if driver.startswith("/")}
    read = credentials.read(path) if set(nodes) - set(programs) else {}
    entries = {name: _with_driver(entry, chosen.get(name)) for name, entry in read.items()}
    # A path may begin with two slashes: that of the root, and that of the file.
    folder = f"/{str(Path(path).absolute().parent / HELPERS).lstrip('/')}"
    return _of_entries(nodes, {**entries, **programs}, source=path, folder=folder)


def ask(
    wanted: Sequence[Wanted],
    *,
    work: Callable[[List[power.Target]], Sequence[Told]],
    refuse: Callable[[str, power.Failure], Told],
) -> List[Told]:
    """Let `work` do all that can be tried in one call, and `refuse` the others; answers in the order asked for."""
    usable = [node.target for node in wanted if node.target is not None]
    told: Dict[str, Told] = dict(zip((target.name for target in usable), work(usable)))  # noqa: B905 -- Python 3.9 has no strict=
    for node in wanted:
        if node.failure is not None:
            told[node.name] = refuse(node.name, node.failure)
    return [told[node.name] for node in wanted]


def _of_entries(names: Sequence[str], entries: Mapping[str, object], *, source: str, folder: str = "") -> List[Wanted]:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise errors.InvalidInput(f"named twice: {', '.join(twice)}")
    return [_of_entry(name, entries, source=source, folder=folder) for name in names]


def _with_driver(entry: object, driver: Optional[str]) -> object:
    return {**entry, "driver": driver} if driver and isinstance(entry, dict) else entry


def _of_entry(name: str, entries: Mapping[str, object], *, source: str, folder: str) -> Wanted:
    if name not in entries:
        return _refused(name, power.Reason.UNCONFIGURED, f"{source} has no entry for {name}")
    try:
        target = credentials.make_target(name, entries[name])
        drivers.check(target)
        if folder and target.driver.startswith("/"):
            program.check_listed(target, folder)
    except errors.InvalidInput as error:
        # Whoever tells an answer names its node.
        return _refused(name, power.Reason.UNCONFIGURED, str(error).removeprefix(f"{name}: "))
    except errors.PowerFailed as error:
        return _refused(name, power.Reason(error.reason), str(error))
    return Wanted(name, target=target)


def _refused(name: str, reason: power.Reason, text: str) -> Wanted:
    return Wanted(name, failure=power.Failure(reason, text))
