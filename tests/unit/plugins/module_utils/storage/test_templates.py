from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import (
    diskless,
    disks,
    drbd,
    file,
    plain,
    sharedfile,
    templates,
)

NOWHERE, NOTHING = Path("/nowhere"), disks.Disks("a", "", ())


@pytest.mark.parametrize(
    ("template", "kind"),
    [("drbd", drbd.Template), ("plain", plain.Template), ("file", simulated.Template), ("diskless", diskless.Template)],
)
def test_only_files_of_the_fake_hypervisor_have_a_driver_of_their_own(template: str, kind: type) -> None:
    assert type(templates.get(template, NOTHING, root=NOWHERE, hypervisor="fake")) is kind


@pytest.mark.parametrize(
    ("template", "kind"),
    [
        ("diskless", diskless.Template),
        ("drbd", drbd.Template),
        ("file", file.Template),
        ("plain", plain.Template),
        ("sharedfile", sharedfile.Template),
    ],
)
def test_every_disk_template_has_its_file(template: str, kind: type) -> None:
    assert template in templates.NAMES
    assert type(templates.get(template, NOTHING, root=NOWHERE, hypervisor="kvm")) is kind


def test_an_instance_without_disks_is_ready_everywhere() -> None:
    storage = templates.get("diskless", NOTHING, root=NOWHERE, hypervisor="kvm")
    assert [storage.steps(state) for state in disks.State] == [[]] * len(disks.State)
    assert disks.as_result(storage.local_disks())["synced"]


def test_what_has_no_template_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="no disk template 'rbd': use one of diskless, drbd"):
        templates.get("rbd", NOTHING, root=NOWHERE, hypervisor="kvm")


def test_who_keeps_a_replicated_copy_is_known_from_the_files_of_the_resources(tmp_path: Path) -> None:
    assert templates.replicated(tmp_path) == []
    folder = tmp_path / "etc/drbd.d"
    folder.mkdir(parents=True)
    for name in ("roundsman-web1-disk0.res", "roundsman-web1-disk1.res", "roundsman-b-disk0-disk0.res", "r0.res"):
        (folder / name).write_text("")
    (folder / "roundsman-c-disk0.res.new").write_text("")
    assert templates.replicated(tmp_path) == ["b-disk0", "web1"]
