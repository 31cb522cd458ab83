"""An instance's replicated disks on the guests of a bed: made, broken, looked at and repaired as people would."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

if TYPE_CHECKING:
    from tests.testbed import beds

CHECKOUT = Path(__file__).resolve().parents[2]
UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"
NAME = "web1"
DISKS = (clusters.Disk(32, minor=0), clusters.Disk(16, minor=1))
MADE: tuple[dict[str, Any], ...] = (
    {"node": "node1", "state": "present", "peer": "node2"},
    {"node": "node2", "state": "present", "peer": "node1"},
    {"node": "node1", "state": "active", "peer": "node2"},
    {"node": "node1", "state": "info", "wait_synced": 300},
)
GONE = (
    {"node": "node1", "state": "standby"},
    {"node": "node2", "state": "absent", "last": True},
    {"node": "node1", "state": "absent", "last": True},
)


@dataclasses.dataclass(frozen=True)
class Pair:
    """The disks of one instance, with its primary on node1 and its secondary on node2 on record."""

    bed: beds.Bed
    folder: Path

    def configure(self) -> None:
        """Put the instance into the bed's configuration."""
        cluster = store.read(self.bed.where.config)
        one, two = (cluster.node(name).uuid for name in ("node1", "node2"))
        instance = clusters.Instance(UUID, NAME, one, (two,), disks=DISKS, memory=32)
        store.write(self.bed.where.config, clusters.with_instance(cluster, instance))

    def forget(self) -> None:
        """Take the instance out of the bed's configuration."""
        cluster = store.read(self.bed.where.config)
        kept = {uuid: one for uuid, one in cluster.instances.items() if uuid != UUID}
        store.write(self.bed.where.config, dataclasses.replace(cluster, instances=kept))

    def disks(self, *steps: dict[str, Any], check: bool = False) -> list[dict[str, Any]]:
        """What the module `instance_disks` answers on nodes, one call after the other; one that fails is no end."""
        answers = self.folder / "answers.json"
        answers.unlink(missing_ok=True)
        tasks = [
            {
                "roundsman.cluster.instance_disks": self._options(**step),
                "delegate_to": step["node"],
                "register": f"step{number}",
                "ignore_errors": True,
            }
            for number, step in enumerate(steps)
        ]
        content = ", ".join(f"step{number}" for number in range(len(steps)))
        copied = {"content": f"{{{{ [{content}] | to_json }}}}", "dest": str(answers)}
        written = {"ansible.builtin.copy": copied, "check_mode": False}
        play = [{"hosts": "localhost", "gather_facts": False, "tasks": [*tasks, written]}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(play))
        done = self._playbook(self.folder / "play.yml", *(["--check"] if check else []))
        assert answers.exists(), done.stdout + done.stderr
        found: list[dict[str, Any]] = json.loads(answers.read_text())
        return found

    def repair(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the playbook by hand."""
        return self._playbook(CHECKOUT / "playbooks/repair.yml", "-e", f"instance_name={NAME}", *options)

    def on(self, node: str, script: str, *, check: bool = True) -> str:
        """What a script says on a node."""
        return self.bed.run(node, script, check=check).stdout.decode()

    def write(self, node: str, *, at: int) -> None:
        """Write a MiB of new data to each disk, `at` so many MiB from its start."""
        script = f"dd if=/dev/urandom of=/dev/drbd{{}} bs=1M count=1 seek={at} oflag=direct conv=notrunc 2>/dev/null"
        self.on(node, " && ".join(script.format(disk.minor) for disk in DISKS))

    def sums(self, node: str) -> list[str]:
        """The checksums of both disks as the primary reads them."""
        return self._read(node, [f"/dev/drbd{disk.minor}" for disk in DISKS])

    def copies(self, node: str) -> list[str]:
        """The checksums of the volumes under both disks, past DRBD."""
        return self._read(node, [f"/dev/roundsman/{UUID}.disk{number}" for number in range(len(DISKS))])

    def words(self, node: str) -> list[str]:
        """Connection, roles and disks of both resources, as /proc/drbd has them."""
        rows = self.on(node, "grep ' cs:' /proc/drbd").splitlines()
        return [" ".join(row.split()[1:4]) for row in rows]

    def _read(self, node: str, devices: list[str]) -> list[str]:
        # Past the cache too: what DRBD writes under a device is not in the cache of that device.
        read = "dd if={} bs=1M iflag=direct 2>/dev/null | sha256sum"
        return self.on(node, "; ".join(read.format(device) for device in devices)).split()[::2]

    def address(self, node: str) -> str:
        """The address of a node for replication."""
        return str(self.bed.record()["nodes"][node]["secondary"])

    def _options(self, *, node: str, state: str, peer: str = "", address: str = "", **more: Any) -> dict[str, Any]:
        options: dict[str, Any] = {
            "instance": NAME,
            "uuid": UUID,
            "hypervisor": "kvm",
            "disk_template": "drbd",
            "disks": [{"size": disk.size, "minor": disk.minor} for disk in DISKS],
            "here": {"name": node, "address": self.address(node)},
            "secret": "thesecretofthepair",
            "state": state,
            **more,
        }
        if peer:
            options["peer"] = {"name": peer, "address": address or self.address(peer)}
        return options

    def _playbook(self, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "playbooks/collections"),
            "ANSIBLE_NOCOLOR": "1",
        }
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.bed.inventory), str(path)]
        return subprocess.run(
            [*command, *options], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
