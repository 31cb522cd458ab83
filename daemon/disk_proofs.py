"""Failures to write that are over: while one is reported the disk is written to, and a success ends the report."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..plugins.module_utils.domain.values import errors
from ..plugins.plugin_utils import durable_files
from . import configuration
from .jobs import submission
from .locks import desk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..plugins.module_utils.domain.values import tree
    from .failures import Failures

LOG = logging.getLogger(__name__)
INTERVAL = 30.0
"""Seconds between two proofs."""
LEAST = 64 << 10
"""Bytes that a proof writes at least."""
PROOF = ".proof"


def beside(where: tree.Tree) -> dict[str, Path]:
    """The parts whose failures a proof can end, and a file of each: a proof is written beside it."""
    return {configuration.PART: where.config, submission.PART: where.queue / "job.json", desk.PART: where.locks}


async def keep_proving(files: Mapping[str, Path], failures: Failures, *, interval: float = INTERVAL) -> None:
    """Prove the disk for ever, every `interval` seconds in which one of the parts fails."""
    while True:
        await asyncio.sleep(interval)
        await prove(files, failures)


async def prove(files: Mapping[str, Path], failures: Failures) -> None:
    """Write beside the file of each part that fails; the part works again unless that, or the part meanwhile, fails."""
    for failing in failures.listed():
        part = failing["part"]
        if part not in files:
            continue
        try:
            await asyncio.to_thread(_write_beside, files[part])
        except (errors.StoreFailed, OSError) as error:
            LOG.debug("%s still fails: %s", part, error)
            continue
        if failing in failures.listed():
            failures.recovered(part)


def content(path: Path) -> bytes:
    """What a proof writes: as many bytes as the file has, for a disk with less room fails at its next write."""
    return bytes(max(LEAST, path.stat().st_size if path.is_file() else 0))


def _write_beside(path: Path) -> None:
    proof = path.with_name(PROOF)
    durable_files.replace(proof, content(path))
    proof.unlink()
