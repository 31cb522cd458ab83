"""`roundsman-iallocator` as the allocator of a real Ganeti."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import ganeti

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
PROGRAM = Path(sys.executable).with_name("roundsman-iallocator")
ALLOCATORS = "/usr/lib/ganeti/iallocators"
SYSTEM = "/srv/ganeti/os/none"
NODES = {"node1", "node2", "node3"}
WITHOUT = ("--no-install", "--no-start", "--no-ip-check", "--no-name-check", "--no-nics", "--os-type=none")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ganeti.Machine]:
    """A cluster whose allocator is ours."""
    folder = tmp_path_factory.mktemp("machine") / "root"
    folder.mkdir()
    with ganeti.cluster(folder, nodes=3) as one:
        one.write(f"{SYSTEM}/ganeti_api_version", "10\n")
        for name in ("create", "export", "import", "rename"):
            one.write(f"{SYSTEM}/{name}", "#!/bin/sh\n")
        script = f"chmod -R a+rx {SYSTEM} && mkdir -p {ALLOCATORS} && ln -s {PROGRAM} {ALLOCATORS}/"
        assert one.run("/bin/sh", "-c", script).returncode == 0
        done = one.ganeti("gnt-cluster", "modify", f"--default-iallocator={PROGRAM.name}")
        assert done.returncode == 0, done.stderr
        yield one


def _primaries(cluster: ganeti.Machine) -> dict[str, str]:
    done = cluster.ganeti("gnt-instance", "list", "--no-headers", "--separator=:", "-o", "name,pnode")
    assert done.returncode == 0, done.stderr
    return dict(line.split(":") for line in done.stdout.split())


def test_new_instances_are_spread_over_the_nodes(cluster: ganeti.Machine) -> None:
    for name in ("one", "two", "three"):
        size = "--backend-parameters=memory=64"
        done = cluster.ganeti("gnt-instance", "add", "--disk-template=diskless", size, *WITHOUT, name)
        assert done.returncode == 0, done.stdout + done.stderr
    assert set(_primaries(cluster).values()) == NODES


def test_an_instance_without_room_is_refused_with_our_reason(cluster: ganeti.Machine) -> None:
    size = "--backend-parameters=memory=32000g"
    done = cluster.ganeti("gnt-instance", "add", "--disk-template=diskless", size, "--ignore-ipolicy", *WITHOUT, "huge")
    assert done.returncode != 0
    assert "Request failed: default: " in " ".join(done.stderr.split())


def test_several_instances_are_placed_at_once(cluster: ganeti.Machine) -> None:
    one = {
        "disk_template": "diskless",
        "disks": [],
        "nics": [],
        "mode": "create",
        "os_type": "none",
        "no_install": True,
        "start": False,
        "ip_check": False,
        "name_check": False,
        "hypervisor": "fake",
        "hvparams": {},
        "tags": [],
        "beparams": {"memory": 64},
    }
    several = [{**one, "instance_name": name} for name in ("four", "five", "six")]
    cluster.write("/root/several.json", json.dumps(several))
    done = cluster.ganeti("gnt-instance", "batch-create", f"--iallocator={PROGRAM.name}", "/root/several.json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = _primaries(cluster)
    assert {found[name] for name in ("four", "five", "six")} == NODES


def test_a_node_is_evacuated_where_we_say(cluster: ganeti.Machine) -> None:
    before = _primaries(cluster)
    done = cluster.ganeti("gnt-node", "evacuate", "-f", "-p", f"--iallocator={PROGRAM.name}", "node2")
    assert done.returncode == 0, done.stdout + done.stderr
    after = _primaries(cluster)
    assert "node2" not in after.values()
    assert {name for name in before if after[name] != before[name]} == {
        name for name, node in before.items() if node == "node2"
    }
