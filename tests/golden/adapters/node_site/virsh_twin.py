"""virsh of the unit tests' `libvirt_twin`, whose domains are kept in a file of each node between its calls."""

from __future__ import annotations

import dataclasses
import fcntl
import json
from typing import TYPE_CHECKING

from tests.unit.plugins.module_utils.hypervisor import libvirt_twin

if TYPE_CHECKING:
    from pathlib import Path

HERE = "qemu:///system"


def run(root: Path, uri: str, arguments: list[str], *, given: str) -> str:
    """What virsh prints on the node with this root; what it began is done when it has ended.

    Raises:
        Failed: it fails.
    """
    with (root.parent / "golden-domains.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _run(root, uri, arguments, given=given)


def _run(root: Path, uri: str, arguments: list[str], *, given: str) -> str:
    target = arguments[arguments.index("--desturi") + 1] if arguments[0] == "migrate" else uri
    twin = libvirt_twin.Libvirts()
    names = [root.name] if target == HERE else [root.name, target.rpartition("/nodes/")[2].partition("/")[0]]
    hosts = [libvirt_twin.Host(twin.clock, domains=_read(root.parent / name)) for name in names]
    twin.hosts = dict(zip((HERE, target), hosts, strict=False))
    twin.here, twin.there = hosts[0], hosts[-1]
    if arguments[0] == "migrate":
        twin.begin(next(name for name, one in twin.here.domains.items() if one.uuid == arguments[-1]))
        said = ""
    else:
        said = twin.connect(uri).run(*arguments, given=given)
    twin.clock.sleep(60)
    for name, host in zip(names, hosts, strict=True):
        found = {key: dataclasses.asdict(one) for key, one in host.domains.items()}
        _path(root.parent / name).write_text(json.dumps(found))
    return said


def _path(node: Path) -> Path:
    return node / "lab/golden-domains.json"


def _read(node: Path) -> dict[str, libvirt_twin.Domain]:
    if not _path(node).exists():
        return {}
    found = json.loads(_path(node).read_text())
    return {name: libvirt_twin.Domain(**{**one, "state": tuple(one["state"])}) for name, one in found.items()}
