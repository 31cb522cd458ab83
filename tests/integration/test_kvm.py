"""Instances of KVM on real hosts of libvirt, through the modules: how they start, move and stop, also interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs

from tests.testbed import beds, building, certificates, churn, counter, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.containers]
DISKS = "/srv/roundsman/disks"
TCP = {"accel": "tcg", "migration_unsafe": "yes", "migration_transport": "tcp"}
SLOWLY = {**TCP, "migration_bandwidth": "2"}


class Hosts:
    """The containers of a bed, and the modules that run on them."""

    def __init__(self, bed: beds.Bed, folder: Path) -> None:
        self.bed = bed
        self._inventory = folder / "hosts.json"
        common = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(bed.key),
            "ansible_ssh_common_args": " ".join(bed.ssh_options()),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        found = {name: {"ansible_host": address, **common} for name, address in bed.addresses().items()}
        self._inventory.write_text(json.dumps({"all": {"hosts": found}}))

    def start_module(self, node: str, module: str, *, check: bool = False, **options: Any) -> subprocess.Popen[str]:
        given = json.dumps({"hypervisor": "kvm", **options})
        program = [str(Path(sys.executable).with_name("ansible")), node, "-i", str(self._inventory)]
        named = ["-m", f"roundsman.cluster.{module}", "-a", given, *(["--check"] if check else [])]
        environment = {**os.environ, **ansible_runs.environment(self.bed.where)}
        return subprocess.Popen(
            program + named, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def call(self, node: str, module: str, **options: Any) -> dict[str, Any]:
        """What a module answers there."""
        return told(self.start_module(node, module, **options))

    def start(self, node: str, name: str, disk: bytes, **hvparams: str) -> dict[str, Any]:
        path = self.bed.shared / name
        if not path.exists():
            path.write_bytes(disk)
        return self.call(
            node,
            "instance_state",
            instance=name,
            uuid=str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
            state="started",
            memory=16,
            devices=[f"{DISKS}/{name}"],
            hvparams={**TCP, "serial_log": f"{DISKS}/{name}.serial", **hvparams},
        )

    def migrate(self, node: str, target: str, name: str, **hvparams: str) -> dict[str, Any]:
        return self.call(node, "instance_migrate", **self.way(target, name, **hvparams))

    def way(self, target: str, name: str, **hvparams: str) -> dict[str, Any]:
        given = {**TCP, **hvparams}
        return {"instance": name, "target_address": self.bed.addresses()[target], "hvparams": given}

    def stop(self, node: str, name: str) -> dict[str, Any]:
        return self.call(node, "instance_state", instance=name, state="stopped", time_limit=1)

    def states(self, *asked: str) -> dict[str, dict[str, str]]:
        return {node: self.call(node, "instance_info")["states"] for node in asked}

    def counts(self, name: str) -> list[counter.Count]:
        return counter.told((self.bed.shared / f"{name}.serial").read_bytes())

    def await_count(self, name: str, *, more: int) -> None:
        """Wait until it has counted on so far."""
        path, wanted = self.bed.shared / name, more
        known = counter.on_disk(path.read_bytes()).count
        pause = threading.Event()
        for _ in range(600):
            if counter.on_disk(path.read_bytes()).count >= known + wanted:
                return
            pause.wait(0.1)
        pytest.fail(f"{name} stands still at {known}")

    def await_leaving(self, node: str, name: str) -> None:
        """Wait until libvirt migrates it."""
        self.bed.run(node, f"until virsh domjobinfo {name} | grep -q Outgoing; do sleep 0.1; done")


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    printed, complaint = process.communicate()
    assert "=> {" in printed, printed + complaint
    answer: dict[str, Any] = json.loads(printed[printed.index("=> {") + 3 :])
    return {"failed": process.returncode != 0, **answer}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("kvm")
    bed = beds.Bed(folder / "bed")
    try:
        with bed.locked():
            building.up_containers(bed, tell=lambda _: None)
    except beds.Missing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield Hosts(bed, folder)
    building.down(bed)


def test_an_instance_counts_on_while_it_moves_by_every_way_and_ends_when_it_is_stopped(hosts: Hosts) -> None:
    name, disk = "one", counter.disk()
    promised = hosts.call("node1", "instance_state", instance=name, state="started", check=True)
    assert promised["changed"], promised
    assert hosts.start("node1", name, disk)["changed"]
    assert not hosts.start("node1", name, disk)["changed"]
    hosts.await_count(name, more=3)
    told_there = hosts.migrate("node1", "node2", name)
    assert (told_there["failed"], told_there.get("migrated")) == (False, True)
    assert hosts.states("node1", "node2") == {"node1": {}, "node2": {name: "running"}}
    again = hosts.migrate("node1", "node2", name)
    assert (again["failed"], again["changed"]) == (False, False)
    hosts.await_count(name, more=3)
    assert hosts.migrate("node2", "node3", name, migration_transport="ssh")["changed"]
    hosts.await_count(name, more=3)
    facts = hosts.call("node3", "instance_info", load_seconds=0.5)["facts"][name]
    assert (facts["memory"], facts["vcpus"], facts["load"] > 0) == (16, 1, True)
    assert hosts.stop("node3", name)["changed"]
    assert hosts.states("node1", "node2", "node3") == {"node1": {}, "node2": {}, "node3": {}}
    counts = hosts.counts(name)
    counter.check(counts, boots=1)
    on_disk = counter.on_disk((hosts.bed.shared / name).read_bytes())
    assert on_disk.boots == 1
    assert on_disk.count - counts[-1].count in {0, 1}, "what it wrote last it may not have told"
    for node in ("node1", "node2", "node3"):
        assert hosts.bed.run(node, "virsh --quiet list --all --name").stdout.strip() == b"", "no definition is left"


def test_it_moves_over_tls_and_to_nobody_whom_no_known_authority_vouches_for(hosts: Hosts) -> None:
    name, known = "sealed", certificates.Authority()
    for node, authority in (("node1", known), ("node2", known), ("node3", certificates.Authority())):
        certificates.install(hosts.bed, node, authority)
    hosts.start("node1", name, counter.disk())
    hosts.await_count(name, more=3)
    assert hosts.migrate("node1", "node2", name, migration_transport="tls")["migrated"]
    hosts.await_count(name, more=3)
    refused = hosts.migrate("node2", "node3", name, migration_transport="tls")
    assert refused["failed"]
    assert "Failed to verify peer's certificate" in refused["msg"]
    hosts.await_count(name, more=3)
    assert hosts.states("node1", "node2", "node3") == {"node1": {}, "node2": {name: "running"}, "node3": {}}
    counter.check(hosts.counts(name), boots=1)
    assert hosts.stop("node2", name)["changed"]


def test_a_migration_that_never_converges_is_aborted_and_the_instance_goes_on(hosts: Hosts) -> None:
    hosts.start("node1", "restless", churn.disk())
    answer = hosts.migrate("node1", "node2", "restless", **{**SLOWLY, "migration_limit": "5"})
    assert answer["failed"]
    assert answer["msg"].startswith("restless was not migrated: it did not end within 5 s (")
    assert answer["msg"].endswith("it is running here")
    assert answer["progress"]["memory_remaining"] > 0
    assert hosts.states("node1", "node2") == {"node1": {"restless": "running"}, "node2": {}}
    assert hosts.stop("node1", "restless")["changed"]


@pytest.mark.parametrize(("disk", "where"), [(churn.disk(), "node1"), (counter.disk(), "node2")])
def test_a_step_that_is_killed_leaves_one_running_copy(hosts: Hosts, disk: bytes, where: str) -> None:
    name = f"killed-{where}"
    hosts.start("node1", name, disk)
    if where == "node2":
        hosts.await_count(name, more=2)
    limit = "6" if where == "node1" else "60"
    step = hosts.start_module("node1", "instance_migrate", **hosts.way("node2", name, **SLOWLY, migration_limit=limit))
    hosts.await_leaving("node1", name)
    holder = f"sed 's/process \\([0-9]*\\),.*/\\1/' /run/roundsman/instances/{name}.lock"
    hosts.bed.run("node1", f"kill -KILL $({holder}); pkill -KILL virsh")
    step.communicate()
    recovered = hosts.call("node1", "instance_info", interrupted=name)["recovered"]
    assert recovered.startswith(f"{name}: it is running {'here' if where == 'node1' else 'on the target'}")
    found = hosts.states("node1", "node2")
    assert {node: states.get(name) for node, states in found.items() if name in states} == {where: "running"}
    assert hosts.call("node1", "instance_info", interrupted=name)["migrations"] == {}
    assert hosts.stop(where, name)["changed"]
    if where == "node2":
        counter.check(hosts.counts(name), boots=1)


def test_a_target_without_libvirt_or_power_is_told_and_nothing_moves(hosts: Hosts) -> None:
    name = "stays"
    hosts.start("node1", name, counter.disk())
    hosts.await_count(name, more=2)
    hosts.bed.run("node3", "systemctl stop libvirtd-tcp.socket libvirtd.socket libvirtd")
    answer = hosts.migrate("node1", "node3", name)
    assert answer["msg"].startswith(f"{name} was not migrated: the target does not answer: ")
    assert "Connection refused" in answer["msg"]
    nodes.set_power(hosts.bed, "node3", on=False)
    assert "the target does not answer" in hosts.migrate("node1", "node3", name)["msg"]
    assert hosts.states("node1") == {"node1": {name: "running"}}
    assert hosts.stop("node1", name)["changed"]
    counter.check(hosts.counts(name), boots=1)
    nodes.set_power(hosts.bed, "node3", on=True)
    building.await_node(hosts.bed, "node3")
