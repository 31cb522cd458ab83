"""Capacity against Ganeti's own hspace: the same tiers and the same count of the standard size; and hail's places."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import placing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocation, allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import capacity_report
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model, text_format

from tests import generated_clusters

from . import peers

HTOOLS = "/usr/lib/ganeti/3.0/usr"
DRBD, PLAIN, RBD = model.Template.DRBD, model.Template.PLAIN, model.Template.RBD
STANDARD = model.Spec(4096, 2, 51200)
SMALL, LARGE = model.Spec(8192, 4, 102400, 16, 8, 12), model.Spec(32768, 16, 409600, 16, 8, 12)
CLUSTERS = {
    "4 nodes": {"nodes": 4, "instances": 12},
    "12 nodes": {"nodes": 12, "instances": 60},
    "offline": {"nodes": 6, "instances": 20, "offline": 2, "seed": 3},
    "exclusion tags": {"nodes": 6, "instances": 20, "exclusion": True, "seed": 4},
    "locations": {"nodes": 5, "instances": 20, "locations": True, "exclusion": True, "seed": 5},
    "groups": {"nodes": 6, "instances": 20, "groups": 2, "seed": 6},
    "stopped": {"nodes": 5, "instances": 20, "stopped": 0.3, "seed": 7},
    "mixed": {"nodes": 5, "instances": 20, "shared": 0.2, "plain": 0.2, "seed": 8},
    "split": {"nodes": 6, "instances": 20, "groups": 3, "split": 4, "seed": 9},
}
TEMPLATES = (PLAIN, pytest.param(RBD, marks=pytest.mark.slow))
FEW_SIZES = model.Policy(
    std=model.Spec(8192, 4, 102400), bounds=((model.Spec(128, 1, 1024), model.Spec(32768, 8, 409600, 16, 8, 12)),)
)
SINGLE = {
    "pairs": {"nodes": 4, "instances": 8},
    "mixed": {"nodes": 4, "instances": 12, "shared": 0.3, "plain": 0.3, "seed": 8},
    "stopped": {"nodes": 4, "instances": 12, "shared": 0.2, "plain": 0.2, "stopped": 0.3, "seed": 7},
    "stopped pairs": {"nodes": 4, "instances": 12, "stopped": 0.3, "seed": 7},
    "exclusion tags": {"nodes": 4, "instances": 12, "exclusion": True, "shared": 0.2, "plain": 0.2, "seed": 4},
    "locations": {"nodes": 4, "instances": 12, "locations": True, "shared": 0.2, "plain": 0.2, "seed": 5},
    "groups": {"nodes": 6, "instances": 15, "groups": 2, "shared": 0.2, "plain": 0.2, "seed": 6},
    "seed 12": {"nodes": 4, "instances": 12, "stopped": 0.3, "shared": 0.2, "plain": 0.2, "seed": 12},
}


SEVERAL_SIZES = {"12 nodes", "offline", "groups", "split"}
"""Where hspace does not look at hundreds of sizes that do not fit, from the largest of the usual policy on."""


def _cluster(kind: str) -> model.Model:
    made = generated_clusters.make(**CLUSTERS[kind])  # type: ignore[arg-type] # counts, shares and flags
    return _standard(made) if kind in SEVERAL_SIZES else _under(made, FEW_SIZES)


def _standard(cluster: model.Model, **changes: object) -> model.Model:
    return _under(cluster, dataclasses.replace(cluster.policy, std=STANDARD, **changes))  # type: ignore[arg-type] # a policy's fields


def _under(cluster: model.Model, policy: model.Policy) -> model.Model:
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


@pytest.mark.parametrize("kind", CLUSTERS)
def test_pairs_have_the_tiers_and_the_count_of_hspace(tmp_path: Path, kind: str) -> None:
    cluster = _cluster(kind)
    assert _ours(cluster, default_template=DRBD) == _hspace(tmp_path / "c", cluster, "--disk-template=drbd")


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", SINGLE)
def test_what_has_one_node_only_leaves_room_for_the_failure_of_any_as_with_hspace(
    tmp_path: Path, kind: str, template: model.Template
) -> None:
    cluster = _under(generated_clusters.make(**SINGLE[kind]), FEW_SIZES)  # type: ignore[arg-type] # as CLUSTERS
    theirs = _hspace(tmp_path / "c", cluster, f"--disk-template={template.value}")
    assert _ours(cluster, default_template=template) == theirs
    assert theirs[1] > 0


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_could_not_be_elsewhere_already_leaves_no_room_as_with_hspace(
    tmp_path: Path, template: model.Template
) -> None:
    made = _under(generated_clusters.make(nodes=4, instances=8, plain=1.0), FEW_SIZES)
    first, *others = made.instances
    nodes = tuple(
        dataclasses.replace(one, f_mem=one.f_mem + first.memory - 200_000, t_mem=262_144)
        if one.name == first.primary
        else dataclasses.replace(one, f_mem=min(one.f_mem, 131_072))
        for one in made.nodes
    )
    large = dataclasses.replace(made, nodes=nodes, instances=(dataclasses.replace(first, memory=200_000), *others))
    option = f"--disk-template={template.value}"
    assert _ours(large, default_template=template) == _hspace(tmp_path / "c", large, option) == ([], 0)


def test_limits_are_those_of_hspace(tmp_path: Path) -> None:
    cluster = _cluster("groups")
    options = ("--disk-template=drbd", "--max-cpu=1.5", "--min-disk=0.25", "--tiered-alloc=204800,16384,8")
    ours = _ours(
        cluster, default_template=DRBD, max_cpu_ratio=1.5, max_disk_usage=0.75, max_inst_spec=(16384, 204800, 8)
    )
    assert ours == _hspace(tmp_path / "c", cluster, *options)
    assert ours != _ours(cluster, default_template=DRBD)


@pytest.mark.parametrize("template", TEMPLATES)
def test_each_maximum_of_a_policy_begins_a_series_of_tiers(tmp_path: Path, template: model.Template) -> None:
    least = model.Spec(128, 1, 1024)
    bounds = ((least, SMALL), (model.Spec(16384, 8, 102400), LARGE))
    cluster = _standard(generated_clusters.make(nodes=3, instances=6, seed=10), bounds=bounds)
    theirs = _hspace(tmp_path / "c", cluster, f"--disk-template={template.value}")
    assert _ours(cluster, default_template=template) == theirs


def test_exclusive_storage_few_spindles_and_missing_memory_count_as_in_hspace(tmp_path: Path) -> None:
    made = _under(generated_clusters.make(nodes=5, instances=15, seed=11), FEW_SIZES)
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


@pytest.mark.parametrize("kind", sorted(set(CLUSTERS) - {"offline"}))
def test_new_instances_go_where_hail_puts_them(kind: str) -> None:
    program = peers.program(f"{HTOOLS}/lib/ganeti/iallocators/hail", package="ganeti-htools-3.0")
    hail, cluster = placing.Program(Path(program)), _cluster(kind)
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
