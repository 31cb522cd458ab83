"""Capacity against Ganeti's own hspace: the same tiers and the same count of the standard size; and hail's places."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import allocator_programs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.planning.allocation import (
    allocation,
    allocator,
    capacity_report,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.planning.models import model, text_format

from tests import generated_clusters

from . import peers

HTOOLS = "/usr/lib/ganeti/3.0/usr"
DRBD, PLAIN, RBD = model.Template.DRBD, model.Template.PLAIN, model.Template.RBD
STANDARD = model.Spec(4096, 2, 51200)
SMALL, LARGE = model.Spec(8192, 4, 102400, 16, 8, 12), model.Spec(65536, 16, 1048576, 16, 8, 12)
CLUSTERS = {
    "6 nodes": {"nodes": 6, "instances": 20},
    "12 nodes": {"nodes": 12, "instances": 60},
    "offline": {"nodes": 9, "instances": 40, "offline": 2, "seed": 3},
    "exclusion tags": {"nodes": 9, "instances": 40, "exclusion": True, "seed": 4},
    "locations": {"nodes": 9, "instances": 40, "locations": True, "exclusion": True, "seed": 5},
    "groups": {"nodes": 9, "instances": 40, "groups": 2, "seed": 6},
    "stopped": {"nodes": 9, "instances": 40, "stopped": 0.3, "seed": 7},
    "mixed": {"nodes": 9, "instances": 40, "shared": 0.2, "plain": 0.2, "seed": 8},
    "split": {"nodes": 9, "instances": 40, "groups": 3, "split": 5, "seed": 9},
}
TEMPLATES = (PLAIN, RBD)
LONG = {"6 nodes", "locations", "stopped", "mixed", "split"}
"""Where hspace looks for up to two minutes at sizes that do not fit."""


def _cluster(kind: str) -> model.Model:
    return _standard(generated_clusters.make(**CLUSTERS[kind]))  # type: ignore[arg-type] # counts, shares and flags


def _standard(cluster: model.Model, **changes: object) -> model.Model:
    policy = dataclasses.replace(cluster.policy, std=STANDARD, **changes)  # type: ignore[arg-type] # a policy's fields
    groups = tuple(dataclasses.replace(group, policy=policy) for group in cluster.groups)
    return dataclasses.replace(cluster, policy=policy, groups=groups)


def _hspace(file: Path, cluster: model.Model, *options: str) -> tuple[list[list[int]], int]:
    """The tiers as [memory, disk, vcpus, count], and the count of the standard size."""
    program = peers.program(f"{HTOOLS}/bin/hspace", package="ganeti-htools-3.0")
    file.write_text(text_format.write(cluster))
    command = ["nice", program, "-t", str(file), "--machine-readable", *options]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    tiers = re.findall(r"(\d+),(\d+),(\d+),\d+=(\d+)", _value(text, "TSPEC"))
    return [[int(number) for number in tier] for tier in tiers], int(_value(text, "ALLOC_INSTANCES"))


def _value(text: str, key: str) -> str:
    (found,) = re.findall(rf"^HTS_{key}=(.*)$", text, re.MULTILINE)
    return str(found)


def _ours(cluster: model.Model, **limits: object) -> tuple[list[list[int]], int]:
    asked = capacity_report.Question(call=capacity_report.Limits(**limits))  # type: ignore[arg-type] # a limit's fields
    document = capacity_report.compute(cluster, asked, ctime=0.0).document()
    return document["tiered"], document["standard"]


def _marked(kind: str) -> object:
    return pytest.param(kind, marks=pytest.mark.slow) if kind in LONG else kind


@pytest.mark.parametrize("kind", [_marked(kind) for kind in CLUSTERS])
def test_pairs_have_the_tiers_and_the_count_of_hspace(tmp_path: Path, kind: str) -> None:
    cluster = _cluster(kind)
    assert _ours(cluster, default_template=DRBD) == _hspace(tmp_path / "c", cluster, "--disk-template=drbd")


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", CLUSTERS)
def test_single_nodes_have_them_too_but_for_the_failure_of_a_node(
    tmp_path: Path, kind: str, template: model.Template
) -> None:
    cluster, option = _cluster(kind), f"--disk-template={template.value}"
    theirs = _hspace(tmp_path / "c", cluster, option, "--no-capacity-checks")
    assert _ours(cluster, default_template=template) == theirs


def test_limits_are_those_of_hspace(tmp_path: Path) -> None:
    cluster = _cluster("groups")
    options = ("--disk-template=drbd", "--max-cpu=1.5", "--min-disk=0.25", "--tiered-alloc=204800,16384,8")
    ours = _ours(
        cluster, default_template=DRBD, max_cpu_ratio=1.5, max_disk_usage=0.75, max_inst_spec=(16384, 204800, 8)
    )
    assert ours == _hspace(tmp_path / "c", cluster, *options)
    assert ours != _ours(cluster, default_template=DRBD)


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_each_maximum_of_a_policy_begins_a_series_of_tiers(tmp_path: Path, template: model.Template) -> None:
    least = model.Spec(128, 1, 1024)
    bounds = ((least, SMALL), (model.Spec(16384, 8, 102400), LARGE))
    cluster = _standard(generated_clusters.make(nodes=8, instances=30, seed=10), bounds=bounds)
    theirs = _hspace(tmp_path / "c", cluster, f"--disk-template={template.value}", "--no-capacity-checks")
    assert _ours(cluster, default_template=template) == theirs


@pytest.mark.slow
def test_exclusive_storage_few_spindles_and_missing_memory_count_as_in_hspace(tmp_path: Path) -> None:
    made = _standard(generated_clusters.make(nodes=8, instances=30, seed=11))
    own = tuple(dataclasses.replace(one, exclusive_storage=True, free_spindles=30, spindles=40) for one in made.nodes)
    few = tuple(dataclasses.replace(one, spindles=1) for one in made.nodes)
    missing = tuple(
        dataclasses.replace(one, f_mem=one.f_mem - 3000 * number, cpu_speed=1 + number / 10)
        for number, one in enumerate(made.nodes)
    )
    alone = tuple(dataclasses.replace(one, spindles=1) for one in made.instances)
    for cluster in (
        dataclasses.replace(made, nodes=own, instances=alone),
        dataclasses.replace(made, nodes=few),
        dataclasses.replace(made, nodes=missing),
    ):
        assert _ours(cluster, default_template=DRBD) == _hspace(tmp_path / "c", cluster, "--disk-template=drbd")


@pytest.mark.slow
def test_twenty_nodes_have_the_tiers_and_the_count_of_hspace(tmp_path: Path) -> None:
    for policy_size in (STANDARD, generated_clusters.POLICY.std):
        cluster = generated_clusters.make(nodes=20, instances=200)
        policy = dataclasses.replace(cluster.policy, std=policy_size)
        cluster = dataclasses.replace(cluster, policy=policy)
        assert _ours(cluster, default_template=DRBD) == _hspace(tmp_path / "c", cluster, "--disk-template=drbd")


@pytest.mark.parametrize("kind", set(CLUSTERS) - {"offline"})
def test_new_instances_go_where_hail_puts_them(kind: str) -> None:
    program = peers.program(f"{HTOOLS}/lib/ganeti/iallocators/hail", package="ganeti-htools-3.0")
    hail, cluster = allocator_programs.Program(Path(program)), _cluster(kind)
    for template, memory, disk in (
        (DRBD, 1024, 10240),
        (DRBD, 30000, 102400),
        (PLAIN, 4096, 500000),
        (RBD, 4096, 1024),
    ):
        one = model.Instance(
            "new1", memory, disk, 2, "running", auto_balance=True, primary="", template=template, tags=("service:1",)
        )
        request = allocator.Allocate(allocator.Wanted(one, disks=(disk,)))
        theirs, ours = hail.decide(cluster, request), allocation.allocate(cluster, request)
        assert [one.nodes for one in ours.placements] == [one.nodes for one in theirs.placements]
