"""The audit log: what people will ask about later, in the daemon's log and in a file of its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..plugins.plugin_utils import log_output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..plugins.module_utils.domain import cluster as clusters
    from ..plugins.plugin_utils.opcodes import contract

LOG = logging.getLogger(log_output.AUDIT)
WORDS = {True: "on", False: "off"}


def power_changes(before: clusters.Cluster, after: clusters.Cluster, *, by: str) -> None:
    """Log each node whose power state of record has changed (seed 001, "Logging")."""
    if before.nodes is after.nodes:
        return
    for uuid, node in after.nodes.items():
        known = before.nodes.get(uuid)
        if known is not None and known.powered is not node.powered:
            LOG.info(
                "%s: %s is recorded as powered %s, was %s", by, node.name, WORDS[node.powered], WORDS[known.powered]
            )


def notices(told: Iterable[contract.Notice], *, by: str) -> None:
    """Log what an opcode did or found."""
    for one in told:
        LOG.log(logging.WARNING if one.is_trouble else logging.INFO, "%s: %s", by, one.text)
