"""The files that make a host a node of its bed: keys, settings, whitelisted commands."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing

from . import beds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

DIAGNOSE, REPAIR = "bed-diagnose", "bed-repair"
FOLDERS = {
    "etc": 0o755,
    "etc/roundsman": 0o755,
    "etc/roundsman/node-diagnose-commands": 0o755,
    "etc/roundsman/node-repair-commands": 0o755,
    "root/.ssh": 0o700,
    "run/roundsman": 0o755,
    "var/lib/roundsman": 0o755,
    "var/lib/roundsman/bed": 0o755,
    "var/lib/roundsman/disks": 0o755,
    "srv/roundsman/disks": 0o755,
}
DIAGNOSE_SCRIPT = f"#!/bin/sh\nexec cat {beds.DIAGNOSIS}\n"
REPAIR_SCRIPT = f"""#!/bin/sh
cat >{beds.DIAGNOSIS}.input
echo repaired >>/var/lib/roundsman/bed/repairs
echo '{{"status": "Ok"}}' >{beds.DIAGNOSIS}.new && mv {beds.DIAGNOSIS}.new {beds.DIAGNOSIS}
"""

Files = dict[str, tuple[str | bytes, int]]
"""Content and mode by path, which does not begin with a slash."""


def of_node(node: clusters.Node, *, cluster_key: bytes, prefix: str = "/") -> Files:
    """The files with which a node diagnoses and repairs itself; `prefix` is where its root is for its own commands."""
    settings = {"node": node.uuid, "name": node.name, "command_owner": "root", "diagnose_time_limit": 30}
    diagnose, repair = (script.replace("/var/lib/", f"{prefix}var/lib/") for script in (DIAGNOSE_SCRIPT, REPAIR_SCRIPT))
    return {
        "etc/roundsman/node.json": (json.dumps(settings), 0o644),
        f"etc/roundsman/node-diagnose-commands/{DIAGNOSE}": (diagnose, 0o755),
        f"etc/roundsman/node-repair-commands/{REPAIR}": (repair, 0o755),
        "var/lib/roundsman/node.key": (signing.node_key(cluster_key, node.uuid), 0o600),
        beds.DIAGNOSIS.lstrip("/"): ('{"status": "Ok"}\n', 0o644),
    }


def of_ssh(bed: beds.Bed) -> Files:
    """The files with which the bed's nodes let the bed and each other in."""
    public = bed.key.with_suffix(".pub").read_text()
    trusted = "".join(f"{name},{address} {_host_key(bed)}" for name, address in bed.addresses().items())
    return {
        "root/.ssh/authorized_keys": (public, 0o600),
        "root/.ssh/id_ed25519": (bed.key.read_text(), 0o600),
        "root/.ssh/known_hosts": (trusted, 0o644),
    }


def of_names(bed: beds.Bed) -> Files:
    """The names of the bed's nodes."""
    named = "".join(f"{address} {name}\n" for name, address in bed.addresses().items())
    return {"etc/hosts": (f"127.0.0.1 localhost\n{named}", 0o644)}


def of_host_key(bed: beds.Bed) -> Files:
    """The key by which the bed's nodes are known."""
    return {
        "etc/ssh/ssh_host_ed25519_key": ((bed.folder / "host_key").read_text(), 0o600),
        "etc/ssh/ssh_host_ed25519_key.pub": (_host_key(bed), 0o644),
    }


def trust(bed: beds.Bed) -> None:
    """Write the hosts that the bed knows."""
    bed.known_hosts.write_text("".join(f"{one} {_host_key(bed)}" for one in bed.addresses().values()))


def archive(files: Mapping[str, tuple[str | bytes, int]], *, folders: Iterable[str] = FOLDERS) -> bytes:
    """The files as a tar archive of root's."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as made:
        for path in folders:
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, FOLDERS[path]
            made.addfile(entry)
        for path, (content, mode) in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode
            made.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def _host_key(bed: beds.Bed) -> str:
    return (bed.folder / "host_key.pub").read_text()
