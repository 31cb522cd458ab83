"""A controller is upgraded, and taken back, while an opcode is at work: each process runs the version it began with."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Disk
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import replica_facts

from tests import installed_versions

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST, SECOND, THIRD = "0.1.0-00000001", "0.1.0-00000002", "0.2.0-00000003"
NAME = "instance1"
PLAY = """
- hosts: localhost
  gather_facts: false
  vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}"}
  tasks:
    - name: Wait
      ansible.builtin.wait_for: {path: "{{ playbook_dir }}/go"}
    - ansible.builtin.debug:
        msg: "runs {{ ansible_playbook_python }} with {{ lookup('ansible.builtin.env', 'ANSIBLE_COLLECTIONS_PATH') }}"
"""
versions = installed_versions.load_script()


class Controller(labs.Running):
    """A lab whose daemon runs the version that `current` leads to."""

    def __init__(self, running: labs.Running, folder: Path) -> None:
        super().__init__(running.lab, {})
        self.folder = folder

    def start(self) -> None:
        """Start the daemon as its unit does."""
        if processes.is_running(self.lab, "daemon"):
            return
        ready, tell = os.pipe()
        with (self.where.log / "daemon.log").open("ab") as log:
            daemon = subprocess.Popen(
                [self.folder / "current/bin/roundsmand", "--root", self.lab.controller, f"--ready-fd={tell}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[tell],
                start_new_session=True,
            )
        os.close(tell)
        processes.remember(self.lab, "daemon", daemon.pid)
        with os.fdopen(ready, "rb") as stream:
            assert stream.readline() == b"ready\n", self.told()
        self.lab.note_controller("stopped", is_deaf=False)

    def upgrade(self, name: str) -> None:
        """Switch to another version, restart the daemon, and remove what nobody uses: what the role does."""
        versions.switch(self.folder, name)
        self.stop()
        self.start()
        assert f"{self.folder / name}/bin/python" in self.command_line(str(processes.find_pid(self.lab, "daemon")))

    def command_line(self, pid: str) -> list[str]:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")

    def begin_copying(self) -> int:
        """The job of a replacement of disks that copies until `end_copying`."""
        simulated_world.set_resync_speed(self.lab.node("node4").root, 1)
        body = {"mode": "replace_new_secondary", "remote_node": "node4"}
        job: int = self.ask("POST", f"/2/instances/{NAME}/replace-disks", body).json()
        self.until(lambda _: self.is_copying(), "node2 copies to node4")
        return job

    def is_copying(self) -> bool:
        found = replica_facts.read(self.lab.node("node4").root, hypervisor="fake").replicas or ()
        return any(each.resource.startswith(NAME) and each.disk is Disk.INCONSISTENT for each in found)

    def end_copying(self, job: int) -> dict[str, Any]:
        """How the opcode of the job has ended."""
        simulated_world.set_resync_speed(self.lab.node("node4").root, None)
        ended: dict[str, Any] = states.job_ended(self, job)["opcodes"][0]
        return ended


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    """A lab whose daemon is not started yet."""
    folder = tmp_path / "versions"
    folder.mkdir()
    running = labs.up(tmp_path / "lab", nodes=4, pairs=[("node2", "node3"), ("node1", "node2")])
    try:
        labs.report_all(running)
        running.stop()
        yield Controller(running, folder)
    finally:
        labs.down(running)


def make(controller: Controller, *names: str) -> None:
    for name in names:
        installed_versions.make(controller.folder / name)
        versions.complete(controller.folder / name)


@pytest.mark.slow
def test_an_opcode_at_work_keeps_its_version_through_two_upgrades(controller: Controller) -> None:
    make(controller, FIRST, SECOND, THIRD)
    controller.upgrade(FIRST)
    job = controller.begin_copying()
    controller.upgrade(SECOND)
    controller.upgrade(THIRD)
    assert versions.tidy(controller.folder) == []

    ended = controller.end_copying(job)

    assert ended["status"] == "success", ended
    controller.until(states.at_rest, "its jobs end")
    controller.until(lambda _: versions.tidy(controller.folder) == [FIRST], "nobody uses the first version any more")
    assert controller.wrong() == []


@pytest.mark.slow
def test_the_first_upgrade_and_the_way_back_leave_an_opcode_what_it_runs(controller: Controller) -> None:
    installed_versions.make(controller.folder)  # a virtual environment itself, as it was before
    make(controller, FIRST, SECOND)
    (controller.folder / "current").symlink_to(".")
    controller.start()
    (controller.folder / "current").unlink()
    job = controller.begin_copying()
    controller.upgrade(FIRST)
    controller.upgrade(SECOND)
    assert versions.tidy(controller.folder) == []
    controller.upgrade(FIRST)

    ended = controller.end_copying(job)

    assert ended["status"] == "success", ended
    controller.until(states.at_rest, "its jobs end")
    removed = controller.until(lambda _: versions.tidy(controller.folder), "nobody uses the old files any more")
    assert {"bin", "lib"} <= set(removed)
    assert controller.wrong() == []


def test_a_play_by_hand_runs_one_version_to_its_end(tmp_path: Path) -> None:
    for name in (FIRST, SECOND, THIRD):
        installed_versions.make(tmp_path / name, has_collection=name == FIRST)
        versions.complete(tmp_path / name)
    versions.switch(tmp_path, FIRST)
    (tmp_path / "play.yml").write_text(PLAY)
    words = ["current/bin/roundsman-playbook", "-i", "localhost,", "-c", "local", "play.yml"]
    own = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(tmp_path / "ansible")}
    play = subprocess.Popen(words, cwd=tmp_path, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert play.stdout is not None
    seen = list(itertools.takewhile(lambda line: not line.startswith("TASK [Wait]"), play.stdout))
    versions.switch(tmp_path, SECOND)
    versions.switch(tmp_path, THIRD)
    assert versions.tidy(tmp_path) == []
    (tmp_path / "go").touch()

    out, _ = play.communicate(timeout=120)

    assert play.returncode == 0, "".join(seen) + out
    (packages,) = (tmp_path / FIRST).glob("lib/python3*/site-packages")
    assert f"runs {tmp_path / FIRST}/bin/python with {packages}:" in out
    assert versions.tidy(tmp_path) == [FIRST]
