"""`roundsman-oob` as the `oob_program` of a real Ganeti."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.daemon.lab import simulated

from . import ganeti

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
ADDRESSES = {"node1": "127.0.14.1", "node2": "127.0.14.2", "node3": "127.0.14.3"}
PROGRAM = Path(sys.executable).with_name("roundsman-oob")


class Bmcs:
    """The BMCs of the nodes, on the cluster's machine."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._said = process.stdout
        self.port = int(self._said.readline())

    def next_setting(self) -> str:
        """The next node that is switched, and how; it is awaited."""
        address, state = self._said.readline().split()
        return f"{next(name for name, known in ADDRESSES.items() if known == address)} {state}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ganeti.Machine]:
    folder = tmp_path_factory.mktemp("machine") / "root"
    folder.mkdir()
    with ganeti.cluster(folder, nodes=3) as one:
        yield one


@pytest.fixture(scope="module")
def bmcs(cluster: ganeti.Machine) -> Iterator[Bmcs]:
    """BMCs that the cluster knows, each of its nodes on; node3 has a warning."""
    python = {"PYTHONPATH": f"{ganeti.CHECKOUT}/playbooks/collections:{ganeti.CHECKOUT}"}
    command = cluster.command(sys.executable, "-m", "tests.slow.bmcs", *ADDRESSES.values())
    with subprocess.Popen(command, env={**os.environ, **python}, stdout=subprocess.PIPE, text=True) as process:
        try:
            one = Bmcs(process)
            configure(cluster, one)
            done = cluster.ganeti("gnt-cluster", "modify", "--node-parameters", f"oob_program={PROGRAM}")
            assert done.returncode == 0, done.stderr
            yield one
        finally:
            process.terminate()


def configure(cluster: ganeti.Machine, bmcs: Bmcs, **passwords: str) -> None:
    login = {"port": bmcs.port, "username": simulated.USERNAME}
    entries = {
        name: {"address": address, "password": passwords.get(name, simulated.PASSWORD), **login}
        for name, address in ADDRESSES.items()
    }
    cluster.write("/etc/roundsman/bmc.json", json.dumps(entries))


def table(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The rows of a table by node; lines without a node belong to the one above, warnings stand before its head."""
    assert done.returncode == 0, done.stdout + done.stderr
    rows: dict[str, str] = {}
    for line in f"\n{done.stdout}".partition("\nNode ")[2].splitlines()[1:]:
        *names, last = line.split()
        name = names[0] if names else next(reversed(rows))
        rows[name] = f"{rows[name]} {last}" if name in rows else last
    return rows


def record(cluster: ganeti.Machine, node: str) -> str:
    """What Ganeti has in its configuration: powered, and offline."""
    asked = ["gnt-node", "list", "--no-headers", "--separator=:", "-o", "powered,offline", node]
    return cluster.ganeti(*asked).stdout.strip()


def test_the_power_of_all_nodes_is_listed(cluster: ganeti.Machine, bmcs: Bmcs) -> None:
    listed = table(cluster.ganeti("gnt-node", "power", "status"))
    assert listed == dict.fromkeys(ADDRESSES, "powered")


def test_a_node_is_switched_off_and_on(cluster: ganeti.Machine, bmcs: Bmcs) -> None:
    assert table(cluster.ganeti("gnt-node", "power", "-f", "off", "node2")) == {"node2": "invoked"}
    assert (bmcs.next_setting(), record(cluster, "node2")) == ("node2 off", "N:Y")
    assert table(cluster.ganeti("gnt-node", "power", "status", "node2")) == {"node2": "unpowered"}
    assert table(cluster.ganeti("gnt-node", "power", "-f", "on", "node2")) == {"node2": "invoked"}
    assert (bmcs.next_setting(), record(cluster, "node2")) == ("node2 on", "Y:Y")
    assert table(cluster.ganeti("gnt-node", "power", "status", "node2")) == {"node2": "powered"}


def test_a_node_is_cycled(cluster: ganeti.Machine, bmcs: Bmcs) -> None:
    assert table(cluster.ganeti("gnt-node", "power", "-f", "cycle", "node2")) == {"node2": "invoked"}
    assert [bmcs.next_setting(), bmcs.next_setting()] == ["node2 off", "node2 on"]


def test_the_health_of_nodes_is_listed_and_what_is_not_well_is_a_warning(cluster: ganeti.Machine, bmcs: Bmcs) -> None:
    done = cluster.ganeti("gnt-node", "health", "node1", "node3")
    assert table(done) == {"node1": "CPU_Temp=OK Fan1=OK PSU1=OK", "node3": "CPU_Temp=OK Fan1=WARNING PSU1=OK"}
    assert "WARNING: Item 'Fan1' on node 'node3' has status 'WARNING'" in done.stdout


def test_a_bmc_that_cannot_be_asked_is_told_with_its_reason_and_changes_no_record(
    cluster: ganeti.Machine, bmcs: Bmcs
) -> None:
    configure(cluster, bmcs, node3="another one")
    done = cluster.ganeti("gnt-node", "power", "-f", "--ignore-status", "off", "node3")
    configure(cluster, bmcs)
    assert (done.returncode, "node3 (nodata)" in done.stdout) == (1, True)
    assert "roundsman-oob: node3: auth: the password is wrong" in done.stdout
    assert record(cluster, "node3") == "Y:N"


def test_the_cluster_finds_the_program(cluster: ganeti.Machine, bmcs: Bmcs) -> None:
    done = cluster.ganeti("gnt-cluster", "verify")
    assert ("Verifying node status" in done.stdout, "out of band helper" in done.stdout) == (True, False)
