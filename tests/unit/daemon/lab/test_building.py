from __future__ import annotations

import dataclasses
import json
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import building, checker
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import drbd
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_node, programs, templates
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path


def test_what_runs_where_is_what_the_configuration_says(tmp_path: Path) -> None:
    lab = twins.lab(tmp_path, nodes=6, instances=9)
    cluster = store.read(tree.Tree(lab.controller).config)
    assert len(cluster.instances) == 9
    for node in cluster.nodes.values():
        root = lab.node(node.name).root
        primaries = [one.name for one in cluster.primaries(node.uuid)]
        replicas = primaries + [one.name for one in cluster.secondaries(node.uuid)]
        assert fake.Driver(root, opcode="").running() == sorted(primaries)
        assert simulated_world.instances(root) == templates.replicated(root) == sorted(replicas)


def test_every_node_has_the_key_of_its_own_and_nobody_else_may_read_secrets(tmp_path: Path) -> None:
    lab = twins.lab(tmp_path)
    where = tree.Tree(lab.controller)
    cluster, key = store.read(where.config), where.hmac_key.read_bytes()
    for node in cluster.nodes.values():
        path = lab.node(node.name).root / "var/lib/roundsman/node.key"
        assert path.read_bytes() == signing.node_key(key, node.uuid)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for path in (where.hmac_key, where.bmc_credentials, lab.settings_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_bmc_is_on_loopback_with_an_address_of_its_own() -> None:
    found = [building.bmc_address(index) for index in range(1000)]
    assert len(set(found)) == 1000
    assert all(one.startswith("127.77.") and 1 <= int(one.rpartition(".")[2]) <= 250 for one in found)


def test_two_labs_share_no_secret(tmp_path: Path) -> None:
    keys = {
        tree.Tree(twins.lab(tmp_path / name, nodes=1, instances=0).controller).hmac_key.read_text() for name in "ab"
    }
    assert len(keys) == 2


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/mine").write_text("x")
    with pytest.raises(errors.Refused, match="is not empty"):
        twins.lab(tmp_path)
    assert [one.name for one in (tmp_path / "lab").iterdir()] == ["mine"]


def test_one_node_is_enough_without_instances_and_too_few_for_one(tmp_path: Path) -> None:
    assert [one.name for one in twins.lab(tmp_path, nodes=1, instances=0).nodes()] == ["node1"]
    with pytest.raises(errors.Refused, match="at least 2 nodes"):
        twins.lab(tmp_path / "other", nodes=1, instances=1)


def test_the_repair_command_mends_the_diagnosis_and_counts_itself(tmp_path: Path) -> None:
    node = twins.lab(tmp_path / "a 'b").node("node1")
    node.break_with({"status": "live-repair"})
    command = node.root / "etc/roundsman/node-repair-commands/lab-repair"
    subprocess.run([command], input=b'{"whole": 1}', check=True)
    assert json.loads(node.diagnosis.read_text()) == {"status": "Ok"}
    assert (node.root / "lab/repair-input.json").read_bytes() == b'{"whole": 1}'
    assert node.repairs() == 1
    diagnose = node.root / "etc/roundsman/node-diagnose-commands/lab-diagnose"
    assert json.loads(subprocess.run([diagnose], capture_output=True, check=True).stdout) == {"status": "Ok"}
    (node.root / "lab/repair-fails").touch()
    assert subprocess.run([command], input=b"", capture_output=True, check=False).returncode == 1
    assert node.repairs() == 1


def test_settings_and_migration_seconds_arrive_in_the_configuration(tmp_path: Path) -> None:
    lab = building.build(
        tmp_path / "lab",
        nodes=2,
        instances=1,
        ports={"http": 5, "bmc": 6},
        settings=clusters.Settings(diagnose_interval=7.0),
        migration_seconds=1.5,
    )
    cluster = store.read(tree.Tree(lab.controller).config)
    assert cluster.maintenance.settings.diagnose_interval == 7.0
    assert cluster.instance("instance1").hvparams == {"migration_seconds": "1.5"}
    assert lab.settings()["ports"] == {"http": 5, "bmc": 6}


def test_a_lab_of_an_earlier_version_gets_the_files_with_which_its_nodes_are_reached(tmp_path: Path) -> None:
    lab = twins.lab(tmp_path, nodes=2, instances=0)
    where = tree.Tree(lab.controller)
    file = where.host_vars / "node2.json"
    made = file.read_bytes()
    (where.host_vars / "node1.json").write_text("{}")
    file.unlink()
    building.write_missing_host_variables(lab)
    assert file.read_bytes() == made
    assert (where.host_vars / "node1.json").read_text() == "{}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_lab_of_an_earlier_version_gets_disks_that_are_in_sync(tmp_path: Path) -> None:
    lab = twins.lab(tmp_path, pairs=[("node2", "node3"), ("node3", "node2")])
    where = tree.Tree(lab.controller)
    cluster = store.read(where.config)
    bare = [dataclasses.replace(one, disks=(clusters.Disk(size=64),)) for one in cluster.instances.values()]
    store.write(where.config, dataclasses.replace(cluster, instances={one.uuid: one for one in bare}))
    for node in lab.nodes():
        shutil.rmtree(node.root / "lab/drbd", ignore_errors=True)
        shutil.rmtree(node.root / "etc/drbd.d", ignore_errors=True)
    for _ in range(2):
        building.write_missing_disks(lab)
    minors = [disk.minor for one in store.read(where.config).instances.values() for disk in one.disks]
    assert sorted(minor for minor in minors if minor is not None) == [0, 1]
    for name in ("node2", "node3"):
        found = drbd_node.DrbdNode(
            programs.runner_for(lab.node(name).root, hypervisor="fake"), proc=lab.node(name).root / drbd_node.PROC
        ).resources()
        assert {side.volumes[0].peer_disk for side in found.sides} == {drbd.Disk.UP_TO_DATE}
    assert simulated_world.acknowledged(lab.node("node2").root, "instance1") is not None
    assert checker.check(lab) == []
