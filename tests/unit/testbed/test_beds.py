from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.testbed import beds, capabilities, controller, seeds

if TYPE_CHECKING:
    from pathlib import Path

NODES = {
    "node1": {"address": "192.0.2.11", "memory": 2048, "disk": 8192, "cpus": 2, "bmc": "127.78.0.1"},
    "node2": {"address": "192.0.2.12", "memory": 2048, "disk": 8192, "cpus": 2, "bmc": "127.78.0.2"},
}


@pytest.fixture
def bed(tmp_path: Path) -> beds.Bed:
    one = beds.Bed(tmp_path / "bed")
    one.folder.mkdir()
    one.keep_record({"kind": "containers", "nodes": NODES, "bmc": {"port": 6230, "password": "s3cret"}})
    return one


def test_beds_in_two_folders_share_no_name(tmp_path: Path) -> None:
    assert beds.Bed(tmp_path / "a").name != beds.Bed(tmp_path / "b").name


def test_a_node_that_is_not_there_is_named_with_those_that_are(bed: beds.Bed) -> None:
    with pytest.raises(errors.NotFound, match=r"no node 'node9' in .*: node1, node2"):
        bed.command("node9", "true")


def test_ssh_trusts_the_hosts_of_the_bed_and_no_others(bed: beds.Bed) -> None:
    command = bed.command("node2", "true")
    assert command[-2:] == ["root@192.0.2.12", "true"]
    assert f"UserKnownHostsFile={bed.known_hosts}" in command
    assert "StrictHostKeyChecking=yes" in command


def test_two_processes_do_not_bring_the_same_bed_up(bed: beds.Bed) -> None:
    with bed.locked(), pytest.raises(errors.Refused, match="another process"), bed.locked():
        pass


def test_the_controller_knows_each_node_its_bmc_and_its_key(bed: beds.Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beds.Bed, "sockets", property(lambda self: self.folder / "sockets"))
    cluster = controller.write(bed)
    assert store.read(bed.where.config) == cluster
    assert {one.name: one.primary_ip for one in cluster.nodes.values() if one.vm_capable} == {
        "node1": "192.0.2.11",
        "node2": "192.0.2.12",
    }
    login = {"port": 6230, "username": "roundsman", "password": "s3cret"}
    assert json.loads(bed.where.bmc_credentials.read_text())["node2"] == {"address": "127.78.0.2", **login}
    key = signing.node_key(bed.where.hmac_key.read_bytes(), cluster.node("node1").uuid)
    files = seeds.of_node(cluster.node("node1"), cluster_key=bed.where.hmac_key.read_bytes())
    assert files["var/lib/roundsman/node.key"] == (key, 0o600)


def test_what_a_machine_lacks_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(capabilities, "SYSTEM", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(beds.Missing, match=r"root.*podman, runc.*are missing: apt-get install podman .*runc"):
        capabilities.look_for(capabilities.IMAGE)
