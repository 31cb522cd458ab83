"""Which nodes are short of memory for N+1, against the free and reserved memory that Ganeti's hbal prints."""

from __future__ import annotations

import dataclasses
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import n_plus_1
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format

from tests import generated_clusters

from . import peers

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

HBAL = "/usr/lib/ganeti/3.0/usr/bin/hbal"
LEFT = 18000


@pytest.mark.parametrize("seed", range(4))
def test_who_is_short_is_who_hbal_has_with_less_unallocated_than_reserved(tmp_path: Path, seed: int) -> None:
    cluster = _tight(generated_clusters.make(nodes=20, instances=220, seed=seed, stopped=0.1, offline=1))
    file = tmp_path / "cluster"
    file.write_text(text_format.write(cluster), encoding="utf-8")
    peer = peers.program(HBAL, package="ganeti-htools-3.0")
    command = [peer, "-t", str(file), "--max-length=0", "--print-nodes=name,umem,rmem"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    first = done.stderr.split("Initial cluster status:")[1].split("Final cluster status:")[0]
    rows = [line.split() for line in first.splitlines() if " node-" in line]
    serving = {node.name for node in cluster.nodes if not node.offline}
    theirs = {row[0] for row in rows if row[0] in serving and int(row[1]) <= int(row[2])}
    ours = {one.node for failure in n_plus_1.not_survived(cluster) for one in failure.shortages}
    assert 0 < len(theirs) < len(serving)
    assert ours == theirs


def _tight(cluster: model.Model) -> model.Model:
    nodes = []
    for node in cluster.nodes:
        cut = max(0, node.f_mem - LEFT)
        nodes.append(dataclasses.replace(node, t_mem=node.t_mem - cut, f_mem=node.f_mem - cut))
    return dataclasses.replace(cluster, nodes=tuple(nodes))
