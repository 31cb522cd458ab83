"""Rolling groups against Ganeti's own hroller: never more of them."""

from __future__ import annotations

import dataclasses
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import rolling
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format

from tests import generated_clusters

from . import peers

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

HROLLER = "/usr/lib/ganeti/3.0/usr/bin/hroller"
CLUSTERS = {
    "20 nodes": {"nodes": 20, "instances": 200},
    "40 nodes in groups": {"nodes": 40, "instances": 200, "groups": 2},
    "60 nodes": {"nodes": 60, "instances": 360},
    "plain": {"nodes": 40, "instances": 60, "plain": 0.3, "offline": 2},
    "mixed": {"nodes": 20, "instances": 120, "plain": 0.3, "shared": 0.2, "offline": 1, "stopped": 0.2},
}
WAYS = {
    "": rolling.Options(),
    "--offline-maintenance": rolling.Options(offline_maintenance=True),
    "--ignore-non-redundant": rolling.Options(non_redundant=rolling.NonRedundant.IGNORE),
    "--skip-non-redundant": rolling.Options(non_redundant=rolling.NonRedundant.SKIP),
    "--group=group-1": rolling.Options(group="group-1"),
}


@pytest.mark.parametrize("option", WAYS)
@pytest.mark.parametrize("kind", CLUSTERS)
def test_there_are_never_more_steps_than_hroller_has(tmp_path: Path, kind: str, option: str) -> None:
    for seed in range(4):
        cluster = generated_clusters.make(**CLUSTERS[kind], seed=seed)  # type: ignore[arg-type] # counts and shares
        if seed == 3:
            cluster = _promised(cluster)
        theirs = _hroller(tmp_path / "cluster", cluster, option)
        plan = rolling.plan(cluster, options=WAYS[option])
        ours = [list(step.nodes) for step in plan.steps]
        assert not plan.refused
        assert {node for step in ours for node in step} == {node for step in theirs for node in step}
        assert len(ours) <= len(theirs)
        assert len(ours) < len(theirs) or ours == theirs


def _promised(cluster: model.Model) -> model.Model:
    """Every fifth instance is not made yet."""
    made = [dataclasses.replace(one, forthcoming=not number % 5) for number, one in enumerate(cluster.instances)]
    return dataclasses.replace(cluster, instances=tuple(made))


def _hroller(file: Path, cluster: model.Model, option: str) -> list[list[str]]:
    peer = peers.program(HROLLER, package="ganeti-htools-3.0")
    file.write_text(text_format.write(cluster), encoding="utf-8")
    command = [peer, "--no-headers", "-t", str(file), *([option] if option else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if "Cannot create node graph" in done.stderr:
        return []
    assert done.returncode == 0, done.stderr
    return [line.split(",") for line in done.stdout.split()]
