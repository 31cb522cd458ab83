"""Whether a policy allows a new instance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import newcomers
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

LEAST, MOST = model.Spec(128, 1, 1024), model.Spec(4096, 4, 8192, 2, 8, 12)
POLICY = model.Policy(bounds=((LEAST, MOST),), templates=(model.Template.DRBD, model.Template.DISKLESS))
FITTING = newcomers.Newcomer(newcomers.Size(1024, 2048, 2, 3), model.Template.DRBD)


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        ({"memory": 128, "disk": 1024, "vcpus": 1}, None),
        ({"memory": 4096, "disk": 8192, "vcpus": 4}, None),
        ({"memory": 127}, newcomers.Kind.MEMORY),
        ({"memory": 4097}, newcomers.Kind.MEMORY),
        ({"disk": 1023}, newcomers.Kind.DISK),
        ({"disk": 8193}, newcomers.Kind.DISK),
        ({"vcpus": 0}, newcomers.Kind.VCPUS),
        ({"vcpus": 5}, newcomers.Kind.VCPUS),
        ({"memory": 4097, "disk": 1}, newcomers.Kind.DISK),
        ({"memory": 4097, "disk": 8193}, newcomers.Kind.MEMORY),
    ],
)
def test_a_size_is_within_both_bounds_or_the_first_thing_beyond_is_told(
    size: dict[str, int], kind: newcomers.Kind | None
) -> None:
    asked = replace(FITTING, size=replace(FITTING.size, **size))
    assert newcomers.misfit(asked, POLICY, exclusive=False) is kind


def test_spindles_count_on_exclusive_storage_and_their_use_elsewhere() -> None:
    busy = replace(FITTING, spindle_use=13)
    assert newcomers.misfit(busy, POLICY, exclusive=False) is newcomers.Kind.SPINDLES
    assert newcomers.misfit(busy, POLICY, exclusive=True) is None
    unknown = replace(FITTING, size=replace(FITTING.size, spindles=None))
    assert newcomers.misfit(unknown, POLICY, exclusive=True) is newcomers.Kind.SPINDLES


def test_disks_count_one_by_one_and_a_diskless_instance_has_none() -> None:
    assert newcomers.misfit(replace(FITTING, disks=(1024, 1024)), POLICY, exclusive=False) is None
    assert newcomers.misfit(replace(FITTING, disks=(1000, 1048)), POLICY, exclusive=False) is newcomers.Kind.DISK
    assert newcomers.misfit(replace(FITTING, disks=(1024,) * 3), POLICY, exclusive=False) is newcomers.Kind.DISKS
    assert newcomers.misfit(replace(FITTING, disks=()), POLICY, exclusive=False) is newcomers.Kind.DISKS
    diskless = replace(FITTING, template=model.Template.DISKLESS, disks=())
    assert newcomers.misfit(diskless, POLICY, exclusive=False) is None


def test_one_of_several_bounds_is_enough_and_else_the_first_tells() -> None:
    larger = (model.Spec(8192, 1, 1024), model.Spec(16384, 4, 8192, 2, 8, 12))
    two = replace(POLICY, bounds=(*POLICY.bounds, larger))
    for memory, kind in ((1024, None), (8192, None), (6000, newcomers.Kind.MEMORY)):
        asked = replace(FITTING, size=replace(FITTING.size, memory=memory))
        assert newcomers.misfit(asked, two, exclusive=False) is kind
    assert newcomers.misfit(FITTING, replace(POLICY, bounds=()), exclusive=False) is None


def test_a_template_that_is_not_allowed_is_a_matter_of_disk() -> None:
    plain = replace(FITTING, template=model.Template.PLAIN)
    assert newcomers.misfit(plain, POLICY, exclusive=False) is newcomers.Kind.DISK
