"""Files of the controller that a crash has torn; the daemon must be down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import store as job_store
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_records, sealed_json

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

HARMLESS = frozenset({"tags_set", "tags_del", "node_role", "diagnose", "cluster_modify", "group_modify", "node_modify"})
"""Kinds of jobs without which the checker still knows what was ordered."""


def tear(where: tree.Tree, *, chance: random.Random) -> str:
    """Cut one file short; returns its path below the root, '' when there is none."""
    chosen = [
        *sorted(where.reports.glob("*.json")),
        *sorted(where.rounds.glob("*.json")),
        *sorted(where.spool.glob("*.json")),
        *_jobs(where.queue),
    ]
    if not chosen:
        return ""
    path = chance.choice(chosen)
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data) or 1)])
    return str(path.relative_to(where.root))


def tear_records(run: Path, *, chance: random.Random) -> Path | None:
    """Leave half a line at the end of what a run recorded, as a crash does; None where the run had ended before.

    Whole lines stay: the run was told that they are durable.
    """
    path = run / run_records.CHANGES
    if (run / run_records.RESULT).exists() or not (run / "began").exists():
        return None
    line = sealed_json.seal(b'{"kind": "node_powered", "node": "torn", "powered": false}')
    with path.open("ab") as stream:
        stream.write(line[: chance.randrange(1, len(line))])
    return path


def _jobs(queue: Path) -> list[Path]:
    """The files of jobs that have ended, and are about nothing that the checker needs."""
    found = []
    for number in sorted(job_store.numbers(queue)):
        path = queue / str(number) / "job.json"
        try:
            job = job_store.decode(path.read_bytes(), number=number)
        except (OSError, errors.InvalidInput):
            continue
        if job.is_final and all(opcode.kind in HARMLESS for opcode in job.opcodes):
            found.append(path)
    return found
