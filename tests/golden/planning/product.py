"""What the trace `plans` calls of Roundsman, in this one place, so that it can follow when functions move.

A round is planned as `daemon/maintenance/rounds.py` does it: the plan, its balancing step, and the document of the
resource /2/plan; its jobs get numbers as they do when they are submitted. All other planners are asked by the command
`roundsman`, which reads a configuration file where no daemon runs, and by the program `roundsman-iallocator`. Repairs
of disks are judged as the play does it that reads the answers of the module `drbd_info`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import typer.main
from ansible_collections.roundsman.cluster.daemon import allocator_program
from ansible_collections.roundsman.cluster.daemon.api import views
from ansible_collections.roundsman.cluster.daemon.cli import main
from ansible_collections.roundsman.cluster.daemon.jobs import submission
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import Where
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import disk_repairs, replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import allocator_requests
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import (
    balancing_step,
    configured,
    measured,
    rebalancing,
    rounds,
    single_moves,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.jobs import values

    from tests import troubled_clusters


def plan(case: troubled_clusters.Case, *, as_if_resumed: bool = False) -> tuple[dict[str, Any], Sequence[values.Job]]:
    """The plan of a round as the resource /2/plan shows it, and its jobs as they are submitted, numbered from 1."""
    cluster = clusters.observed(case.cluster, silent=case.silent)
    known = replica_evidence.of_unreachable(case.cluster, case.heard)
    found = rounds.plan(cluster, at_work=case.at_work, evidence=known, as_if_resumed=as_if_resumed)
    asked = balancing_step.to_balance(cluster, found, busy=case.busy)
    if asked is not None:
        if cluster.maintenance.settings.balance_dynamic_load:
            asked = dataclasses.replace(asked, measured=measured.per_instance(cluster, case.cpus))
        held = balancing_step.evacuation_before_balancing(cluster, found)
        answer = rebalancing.answer(asked) if held is None else rebalancing.Answer(refusals=(held,))
        found = balancing_step.balanced(found, asked, answer)
    numbers = range(1, len(found.jobs) + 1)
    jobs = submission.numbered(cluster, found.jobs, numbers, source=submission.ROUNDS, now=0.0)
    return views.plan(cluster, found, is_at_work=False), jobs


def command(root: Path, words: Sequence[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of `roundsman` with this folder as its root, which is `ROOT`."""
    with mock.patch.object(main, "app", _commands()):
        status, out, err = _run(lambda: main.main(["--dir", str(root), *words]))
    return status, out.replace(str(root), "ROOT"), err.replace(str(root), "ROOT")


@functools.cache
def _commands() -> object:
    """All commands, of which Typer builds the tree for each call: that takes longer than most of them."""
    return typer.main.get_command(main.app)


def configure(root: Path, cluster: clusters.Cluster) -> None:
    """Write the configuration file of a root."""
    file = tree.Tree(root).config
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(document.seal(cluster))


def allocate(file: Path, cluster: clusters.Cluster, request: Mapping[str, Any]) -> dict[str, Any]:
    """What `roundsman-iallocator` answers to a request of Ganeti's protocol; this file is written for it."""
    whole = json.loads(allocator_requests.write(configured.model_of(cluster), allocator.AllocateSecondary("")))
    file.write_text(json.dumps({**whole, "request": request}), encoding="utf-8")
    answer: dict[str, Any] = json.loads(_run(lambda: allocator_program.main([str(file)]))[1])
    return answer


def single(cluster: clusters.Cluster, instance: clusters.Instance) -> Iterator[str]:
    """Where an instance, and its secondary replica, would go."""
    for what, choose in (("move", single_moves.target), ("new secondary", single_moves.new_secondary)):
        try:
            yield f"{what} of {instance.name}: {cluster.node_name(choose(cluster, instance))}"
        except errors.RoundsmanError as error:
            yield f"{what} of {instance.name} refused: {error}"


def repair(
    resource: str,
    sides: Mapping[str, Mapping[str, Any]],
    *,
    tried: Sequence[Mapping[str, str]],
    discard: str,
) -> dict[str, Any]:
    """What the disks of an instance need, by what its nodes `node1` (primary) and `node2` answered; or why not."""
    nodes = {Where.PRIMARY: "node1", Where.SECONDARY: "node2"}
    try:
        given = disk_repairs.node_to_discard(discard, nodes)
        judged = disk_repairs.judge(
            [resource], primary=sides["primary"], secondary=sides["secondary"], tried=tried, discard=given
        )
        return disk_repairs.as_result(judged, nodes, tried=tried)
    except errors.RoundsmanError as error:
        return {"lines": [f"refused: {error}"], "steps": []}


def _run(program: Callable[[], None]) -> tuple[int, str, str]:
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            program()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return status, out.getvalue(), err.getvalue()
