"""Two controllers of one cluster: what a node does for one of them when it follows the other, and which one leads."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.daemon.maintenance import leadership
from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept, Order
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch, daemon_client

from . import labs, states

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


class Controller:
    """A controller with a folder of its own in the lab's; what its daemon logs is `told`."""

    def __init__(self, lab: labs.Running, root: Path) -> None:
        self._lab = lab
        self.where = tree.Tree(root)
        self._log = lab.lab.folder / f"{root.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def copied(cls, lab: labs.Running, name: str) -> Controller:
        """A copy of the first one's state, its epoch too, as a backup or a rash administrator makes it."""
        root = lab.lab.folder / name
        shutil.copytree(lab.where.root, root, ignore=shutil.ignore_patterns("run"))
        made = cls(lab, root)
        settings = json.loads(made.where.daemon_settings.read_bytes())
        made.where.daemon_settings.write_text(json.dumps({**settings, "port": processes.free_port()}))
        return made

    def start(self, *words: str) -> int | None:
        """Start the daemon; None once it serves, else its exit status."""
        ready, tell = os.pipe()
        command = [sys.executable, "-m", processes.PACKAGE, "--root", str(self.where.root), *words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--ready-fd", str(tell)], pass_fds=(tell,), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        os.close(tell)
        with os.fdopen(ready, "rb") as stream:
            return None if stream.readline() == b"ready\n" else self.ended()

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait for the end of the daemon; its exit status."""
        assert self._process is not None
        return self._process.wait(labs.LIMIT)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            self.ended()

    def put(self, path: str) -> Any:
        with daemon_client.connected(self.where.socket, seconds=70) as client:
            return client.put(path).json()

    def get(self, path: str) -> Any:
        with daemon_client.connected(self.where.socket, seconds=70) as client:
            return client.get(path).json()

    def migrated(self, instance: str) -> dict[str, Any]:
        """The job that migrates an instance, once it has ended."""
        job, end = self.put(f"/2/instances/{instance}/migrate"), time.monotonic() + labs.LIMIT
        while (found := self.get(f"/2/jobs/{job}"))["status"] not in states.FINAL:
            assert time.monotonic() < end, found
            time.sleep(0.5)
        return dict(found)

    @property
    def epoch(self) -> int:
        """The number of the epoch in which the daemon leads."""
        return int(self.get("/1/health")["leadership"]["epoch"]["number"])

    @property
    def told(self) -> str:
        return self._log.read_text()


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


def followed(lab: labs.Running) -> list[int]:
    """The numbers of the epochs that the nodes follow."""
    found = [follows(lab, node.name) for node in lab.lab.nodes()]
    return [0 if kept is None else kept.epoch.number for kept in found]


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

    first.stop()
    assert second.start() is None
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
