"""Two controllers of one cluster: what a node does for one of them when it follows the other, and which one leads."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis
from ansible_collections.roundsman.cluster.daemon.maintenance import leadership
from ansible_collections.roundsman.cluster.daemon.serving import not_leading
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept, Order
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch, run_group

from . import labs, states
from .controllers import Controller, followed, follows, roundsman

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    leader_record.keep(lab.lab.node(primary).root, Kept(Epoch(5, "theirs"), "0c1d2e3f-0000-4000-8000-0000000000ee", 1))

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


@pytest.fixture
def voting(tmp_path: Path) -> Iterator[labs.Running]:
    running = labs.up(tmp_path / "lab", nodes=3, instances=2, pairs=[("node1", "node2")] * 2, agents=True)
    try:
        yield running
    finally:
        labs.down(running)


@pytest.fixture
def two(voting: labs.Running) -> Iterator[tuple[Controller, Controller]]:
    """The first one leads; the second has a copy of its state."""
    voting.stop()
    first = Controller(voting, voting.where.root)
    assert first.start() is None
    second = Controller.copied(voting, "second")
    try:
        yield first, second
    finally:
        second.stop()
        first.stop()


def test_of_two_controllers_with_the_same_state_the_one_that_leads_goes_on(
    voting: labs.Running, two: tuple[Controller, Controller]
) -> None:
    first, second = two
    # The lab's own daemon began the one before.
    assert first.epoch == 2
    voting.until(lambda _: followed(voting) == [2, 2, 2], "all nodes follow the first")

    assert second.start() == 11
    refused = second.told.splitlines()[-1]
    assert re.search(r"heard of the controller that leads in epoch 2 \(.*stopped, if this one is to lead", refused)
    assert first.epoch == 2
    assert refused.endswith(not_leading.reason(second.where) or "no note")
    assert not_leading.reason(first.where) == ""

    first.stop()
    assert second.start() is None
    assert not_leading.reason(second.where) == ""
    assert second.epoch > 2
    assert first.start() == 11
    assert "heard of the controller that leads in epoch 3" in first.told.splitlines()[-1]
    assert voting.wrong() == []


def test_a_controller_that_was_suspended_meanwhile_does_nothing_more_and_ends(
    voting: labs.Running, two: tuple[Controller, Controller]
) -> None:
    first, second = two
    # The round of questions with which it began is over, and the next one is not due for a minute.
    time.sleep(leadership.LEAST)
    first.send(signal.SIGSTOP)

    assert second.start("--no-voting", "--yes-do-it") is None
    assert second.epoch == 3
    first.send(signal.SIGCONT)
    first.put("/2/instances/instance1/migrate")

    assert first.ended() == 11
    assert re.search(r"this node follows epoch 3 \(.*\) and refuses epoch 2 \(", first.told)
    assert re.search(r"follow epoch 3 \(.*\) of another controller, and this controller led in epoch 2", first.told)
    assert [node.name for node in voting.lab.nodes() if "instance1" in node.running()] == ["node1"]
    assert second.migrated("instance1")["status"] == "success"
    assert [node.name for node in voting.lab.nodes() if "instance1" in node.running()] == ["node2"]


def test_a_controller_that_takes_over_leaves_an_instance_alone_until_both_its_nodes_have_answered(
    voting: labs.Running, two: tuple[Controller, Controller]
) -> None:
    """An order of the first may still be on its way to a node that does not know of the second."""
    first, second = two
    first.stop()
    voting.lab.node("node2").cut_agent(is_cut=True)
    assert second.start() is None

    refused = second.migrated("instance1")

    assert refused["status"] == "error"
    assert "another controller led before epoch 3" in str(refused["opresult"])
    assert "node2 has not answered" in str(refused["opresult"])
    assert [node.name for node in voting.lab.nodes() if "instance1" in node.running()] == ["node1"]
    voting.lab.node("node2").cut_agent(is_cut=False)
    assert second.migrated("instance1")["status"] == "success"
    assert [node.name for node in voting.lab.nodes() if "instance1" in node.running()] == ["node2"]


def test_a_controller_that_is_cut_off_from_most_nodes_commands_no_bmc(tmp_path: Path) -> None:
    """Nodes 3 to 6 live and replicate; only the controller does not reach them, and one BMC reads off in error."""
    pairs = [("node1", "node2"), ("node3", "node4"), ("node4", "node5"), ("node5", "node6"), ("node6", "node3")]
    watchful = {"diagnose_interval": 1.0, "dead_after": 2, "dead_node_policy": "fence", "storm_fraction": 1.0}
    isolated = labs.up(tmp_path / "lab", nodes=6, instances=5, pairs=pairs, settings=watchful, agents=True)
    cut = ("node3", "node4", "node5", "node6")

    def held_back(_: labs.Running) -> bool:
        silent = [isolated.get(f"/1/explain/{name}")["silent"] for name in cut]
        return all(told and "only 2 of 5 nodes that vote answer this controller" in told["reason"] for told in silent)

    try:
        isolated.until(lambda _: followed(isolated) == [1] * 6, "all nodes follow it")
        isolated.lab.node("node6").set_faults([chassis.LYING])
        for name in cut:
            isolated.lab.node(name).silence(is_silent=True)

        isolated.until(held_back, "it says that the fault may be its own")
        # Each of them has been silent for long enough to be fenced.
        time.sleep(2 * leadership.FRESH)

        assert [node.name for node in isolated.lab.nodes() if not node.is_powered()] == []
        kinds = {opcode["kind"] for job in isolated.get("/1/jobs") for opcode in job["opcodes"]}
        assert "power" not in kinds
        failing = isolated.ask("GET", "/1/health").json()["failures"]
        assert "nodes that vote answer this controller" in str(failing)
        assert isolated.wrong() == []
    finally:
        labs.down(isolated)


def restored(lab: labs.Running, export: Path) -> tuple[Controller, Controller]:
    """The old machine, and a new one at its address."""
    old, root = tree.Tree(lab.lab.folder / "old"), lab.where.root
    root.rename(old.root)
    return Controller(lab, old.root), Controller.restored(lab, root, old=old, configuration=export)


def test_the_master_role_moves_to_a_new_machine_when_the_old_one_is_lost_in_the_middle_of_a_move(
    tmp_path: Path,
) -> None:
    settings = {"diagnose_interval": 1.0, "dead_after": 2, "dead_node_policy": "failover"}
    lab = labs.up(
        tmp_path / "lab",
        nodes=3,
        instances=2,
        pairs=[("node1", "node2")] * 2,
        settings=settings,
        migration_seconds=60.0,
        agents=True,
    )
    second = None
    try:
        lab.until(lambda _: followed(lab) == [1, 1, 1], "all nodes follow the first")
        export = tmp_path / "export.json"
        roundsman(lab.where, "config", "export", str(export))
        job = lab.put("/2/instances/instance1/migrate").json()
        lab.until(lambda _: lab.get(f"/2/jobs/{job}")["status"] == "running", "the migration runs")
        lab.kill_with_jobs()

        first, second = restored(lab, export)
        said = roundsman(second.where, "cluster", "master-failover", "node2", "--yes", status=1)
        assert re.search(r"heard of the controller that leads in epoch 1 .*master-failover NODE --confirm-off", said)
        assert followed(lab) == [1, 1, 1]
        lab.lab.node("node1").lose_power()
        said = roundsman(second.where, "cluster", "master-failover", "node2", "--dry-run")
        assert "Node1 is off: its BMC reads off" in said
        assert (followed(lab), second.where.epoch.exists()) == ([1, 1, 1], False)

        said = roundsman(second.where, "cluster", "master-failover", "node2", "--yes")

        assert re.search(r"Node2 is the master now in epoch 2 \(.*\), instead of node1", said)
        assert second.start() is None
        assert second.epoch == 3
        assert second.get("/2/info")["master"] == "node2"
        assert "cluster master-failover node2" in second.where.audit_log.read_text()
        roundsman(second.where, "resume")
        ended, end = None, time.monotonic() + labs.LIMIT
        while not ended and time.monotonic() < end:
            ended = [one for one in second.get("/1/status") if one["repair-status"] in {"completed", "failed"}]
            time.sleep(0.5)
        places = {name: [node.name for node in lab.lab.nodes() if name in node.running()] for name in INSTANCES}
        assert places == {name: ["node2"] for name in INSTANCES}, (ended, second.told)
        # The old machine comes back as it was.
        lab.lab.node("node1").set_power(True)
        assert first.start() == 11
        assert "had a newer configuration from its master" in first.told.splitlines()[-1]
        assert second.epoch == 3
        assert lab.wrong() == []
    finally:
        if second is not None:
            second.stop()
        labs.down(lab)


INSTANCES = ("instance1", "instance2")


@pytest.fixture
def without_agents(tmp_path: Path) -> Iterator[labs.Running]:
    running = labs.up(tmp_path / "lab", nodes=3, instances=2, pairs=[("node1", "node2")] * 2)
    try:
        yield running
    finally:
        labs.down(running)


def test_without_agents_a_copy_ends_until_a_person_states_that_it_is_alone_and_ends_the_first_one(
    without_agents: labs.Running,
) -> None:
    lab = without_agents
    lab.stop()
    first = Controller(lab, lab.where.root)
    second = Controller.copied(lab, "second")
    try:
        assert first.start() is None
        assert first.epoch == 1
        assert first.migrated("instance1")["status"] == "success"
        assert followed(lab) == [1, 1, 0]

        assert second.start() == 11
        assert re.search(r"is a copy of another controller's, which led in epoch 1 \(", second.told.splitlines()[-1])
        # Not all nodes are reached: the barrier waits for the others.
        lab.lab.node("node3").silence(is_silent=True)
        assert second.start("--no-voting", "--yes-do-it") is None
        assert (second.epoch, followed(lab)) == (2, [2, 2, 0])
        assert "1 of 3 nodes did not say which controller they follow" in second.told
        first.put("/2/instances/instance2/migrate")

        assert first.ended() == 11
        assert "and refuses epoch 1 (" in first.told
        assert re.search(r"2 nodes follow epoch 2 \(.*\) of another controller, and 0 follow", first.told)
        assert [node.name for node in lab.lab.nodes() if "instance2" in node.running()] == ["node1"]
        assert second.migrated("instance2")["status"] == "success"
        second.stop()
        assert first.start() is None, "it goes on in its epoch, and every node refuses that"
        first.put("/2/instances/instance1/migrate")
        assert first.ended() == 11
        assert [node.name for node in lab.lab.nodes() if "instance1" in node.running()] == ["node2"]
    finally:
        second.stop()
        first.stop()
        # The opcode that was at work when the first one ended.
        for began in first.where.queue.glob("*/*/began"):
            run_group.end(began.parent)
