"""The controller's files of a bed: its configuration, keys and inventory, as the daemon and playbooks read them."""

from __future__ import annotations

import io
import json
import secrets
import tarfile
import time
import uuid
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import building, processes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import hosts, store

from . import seeds

if TYPE_CHECKING:
    from . import beds

NAME = "controller"
BMC_USER = "roundsman"


def write(bed: beds.Bed) -> clusters.Cluster:
    """Make the controller's root of the nodes in the bed's record: each is on, empty and in one group.

    The master is a node of its own that takes no instances, so that every node of the bed can be evacuated.
    """
    record = bed.record()
    where = bed.where
    bed.sockets.mkdir(mode=0o700, exist_ok=True)
    for path in (where.etc, where.lib, where.run, where.log, where.spool, bed.inventory.parent):
        path.mkdir(parents=True)
    where.hmac_key.touch(mode=0o600)
    where.hmac_key.write_text(secrets.token_hex(20) + "\n")
    cluster = _cluster(bed, record)
    store.write(where.config, cluster)
    where.bmc_credentials.touch(mode=0o600)
    where.bmc_credentials.write_text(json.dumps(_credentials(record)))
    where.daemon_settings.write_text(json.dumps({"port": processes.free_port(), "bind": "127.0.0.1"}))
    bed.inventory.write_text("plugin: roundsman.cluster.cluster\nroot: ../controller\n")
    _write_master(bed, cluster)
    _write_host_variables(bed, cluster)
    return cluster


def _cluster(bed: beds.Bed, record: dict[str, Any]) -> clusters.Cluster:
    now = time.time()
    group = clusters.Group(uuid=str(uuid.uuid4()), name="default", ctime=now, mtime=now)
    master = clusters.Node(
        uuid=str(uuid.uuid4()),
        name=NAME,
        group=group.uuid,
        primary_ip="127.0.0.1",
        master_candidate=True,
        vm_capable=False,
        ndparams={"oob_program": "!"},
        ctime=now,
        mtime=now,
    )
    nodes = [master, *(_node(name, known, group=group.uuid, now=now) for name, known in record["nodes"].items())]
    parameters = clusters.Parameters(
        cluster_name=bed.name,
        uuid=str(uuid.uuid4()),
        master_node=master.uuid,
        candidate_pool_size=1,
        ndparams={"oob_program": "ipmi"},
        ctime=now,
        mtime=now,
    )
    interval = 5 if record["kind"] == "containers" else 60
    settings = clusters.Settings(diagnose_command=seeds.DIAGNOSE, diagnose_interval=interval)
    return clusters.Cluster(
        cluster=parameters,
        nodegroups={group.uuid: group},
        nodes={one.uuid: one for one in nodes},
        maintenance=clusters.Maintenance(settings=settings, ctime=now, mtime=now),
        ctime=now,
        mtime=now,
    )


def _node(name: str, known: dict[str, Any], *, group: str, now: float) -> clusters.Node:
    return clusters.Node(
        uuid=str(uuid.uuid4()),
        name=name,
        group=group,
        primary_ip=known["address"],
        secondary_ip=known.get("secondary", ""),
        mtotal=known["memory"],
        mnode=known["memory"] // 4,
        dtotal=known["disk"],
        ctotal=known["cpus"],
        hostvars={"ansible_user": "root"},
        ctime=now,
        mtime=now,
    )


def _write_host_variables(bed: beds.Bed, cluster: clusters.Cluster) -> None:
    of_master = {
        **hosts.controller(),
        "ansible_connection": "roundsman.cluster.lab_node",
        "roundsman_lab_root": str(bed.folder / NAME / "node"),
    }
    of_others = {
        "ansible_ssh_private_key_file": str(bed.key),
        "ansible_ssh_common_args": " ".join(bed.ssh_options()),
        "ansible_ssh_pipelining": "true",
        "ansible_ssh_timeout": "60",
        "roundsman_reach_seconds": "120",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    for node in cluster.nodes.values():
        building.write_host_variables(bed.where, node.name, of_master if node.name == NAME else of_others)


def _credentials(record: dict[str, Any]) -> dict[str, Any]:
    bmc = record["bmc"]
    login = {"port": bmc["port"], "username": BMC_USER, "password": bmc["password"]}
    return {name: {"address": known["bmc"], **login} for name, known in record["nodes"].items()}


def _write_master(bed: beds.Bed, cluster: clusters.Cluster) -> None:
    root = bed.controller / "node"
    files = seeds.of_node(cluster.node(NAME), cluster_key=bed.where.hmac_key.read_bytes(), prefix=f"{root}/")
    with tarfile.open(fileobj=io.BytesIO(seeds.archive(files))) as made:
        made.extractall(root, filter="tar")
    (root / "lab").mkdir()
    (root / "wire").symlink_to(".")
