"""Whether a candidate for the master role keeps a newer copy than a configuration that was restored from a backup."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.agent import copies, signing
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import voting
from . import copying

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...plugins.module_utils.domain.values import tree
    from ...plugins.plugin_utils.cluster import cluster as clusters

SECONDS = 3.0
"""For the answers of all candidates."""


@dataclass(frozen=True)
class Found:
    """The versions of newer copies by the names of their nodes, and the candidates (names) that did not say."""

    newer: Mapping[str, int]
    silent: tuple[str, ...] = ()


async def look(where: tree.Tree, cluster: clusters.Cluster, names: Sequence[str]) -> Found:
    """Ask candidates (names) which copy they keep; nothing is changed. The cluster's key is there already.

    Those that cannot be asked are silent: a node that came after the backup is not in the restored configuration.
    """
    port = cluster.maintenance.settings.agent_port
    nodes = [node for node in cluster.nodes.values() if node.name in names]
    unknown = {*names} - {node.name for node in nodes}
    if not port or not nodes:
        return Found({}, tuple(sorted({*names})))
    key = where.hmac_key.read_bytes()
    asked = [_kept(node, port, key=signing.node_key(key, node.uuid)) for node in nodes]
    given = {node.name: serial for node, serial in zip(nodes, await asyncio.gather(*asked), strict=True)}
    newer = {name: serial for name, serial in given.items() if serial is not None and serial > cluster.serial_no}
    return Found(newer, tuple(sorted(unknown | {name for name, serial in given.items() if serial is None})))


def text(found: Found, *, serial: int) -> str:
    """That a node keeps a newer copy than this version, and what a person does; '' where none does."""
    if not found.newer:
        return ""
    name, version = max(found.newer.items(), key=lambda entry: entry[1])
    return (
        f"{name} keeps a copy of version {version}, newer than the configuration here (version {serial}): copy "
        f"/{copies.FILE} from there and import it with `roundsman config import FILE`; or, if what was changed since "
        "is lost on purpose, add `--discard-copies` to `--restored`"
    )


def lost_text(found: Found) -> str:
    """Which copies count as lost where a person says so; '' for none."""
    return "; ".join(
        f"the copy of version {version} on {name} counts as lost" for name, version in sorted(found.newer.items())
    )


def silent_text(found: Found) -> str:
    """Which candidates did not answer; '' for none."""
    names = ", ".join(found.silent)
    return f"{names} did not say whether it keeps a newer copy of the configuration" if names else ""


async def _kept(node: clusters.Node, port: int, *, key: bytes) -> int | None:
    """The version of the copy that a node keeps, 0 without one; None where it does not say."""
    try:
        async with asyncio.timeout(SECONDS):
            received = await copying.posted(node, port, copies.question(node.uuid, voting.nonce()), key=key)
    except (errors.RoundsmanError, OSError, ValueError, OverflowError):
        # The last two are of a name or a port that no host can have.
        return None
    return received.stamp.serial if received.stamp is not None else 0
