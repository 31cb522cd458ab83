"""Two controllers of one cluster: what a node does for one of them when it follows the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.epochs import Epoch, Kept, Order
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[labs.Running]:
    running = labs.up(tmp_path_factory.mktemp("lab"), nodes=3, instances=2, pairs=[("node1", "node2")] * 2)
    try:
        yield running
    finally:
        labs.down(running)


def leads(lab: labs.Running, number: int, name: str) -> None:
    """Have this controller lead in an epoch, as if it had been elected."""
    master = lab.cluster().cluster.master_node
    controller_epoch.write(lab.where, Order(Epoch(number, name), master, lab.cluster().cluster.serial_no))


def follows(lab: labs.Running, node: str) -> Kept | None:
    return leader_record.load(lab.lab.node(node).root)


def migrated(lab: labs.Running, instance: str) -> dict[str, object]:
    return states.job_ended(lab, lab.put(f"/2/instances/{instance}/migrate").json())


def test_nodes_follow_the_controller_whose_steps_they_do(lab: labs.Running) -> None:
    assert follows(lab, "node1") is None
    leads(lab, 4, "ours")

    assert migrated(lab, "instance1")["status"] == "success"

    for node in ("node1", "node2"):
        followed = follows(lab, node)
        assert followed is not None
        assert (followed.epoch, followed.master) == (Epoch(4, "ours"), lab.cluster().cluster.master_node)


def test_a_controller_that_has_been_replaced_changes_nothing_on_a_node(lab: labs.Running) -> None:
    leads(lab, 4, "ours")
    primary = lab.cluster().node_name(lab.cluster().instance("instance2").primary_node)
    leader_record.keep(lab.lab.node(primary).root, Kept(Epoch(5, "theirs"), "", 1))

    job = migrated(lab, "instance2")

    assert job["status"] == "error"
    assert "this node follows epoch 5 (theirs) and refuses epoch 4 (ours)" in str(job["opresult"])
    assert "instance2" in lab.lab.node(primary).running()
    by_hand = states.command(lab, "instance", "stop", "instance2", "--yes")
    assert by_hand.returncode == 1
    assert "refuses epoch 4 (ours)" in by_hand.stdout + by_hand.stderr
    assert "instance2" in lab.lab.node(primary).running()
    assert lab.wrong() == []


def test_a_play_by_hand_names_the_epoch_too(lab: labs.Running) -> None:
    leads(lab, 6, "again")

    primary = lab.cluster().node_name(lab.cluster().instance("instance1").primary_node)

    done = lab.play("evacuate.yml", "-e", f"node={primary}")

    assert "refuses" not in done.stdout
    followed = follows(lab, primary)
    assert followed is not None
    assert followed.epoch == Epoch(6, "again")
