"""An instance that counts on the guests of a bed, kept by a daemon, and what is seen of it from outside."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import processes, world

from tests.testbed import counter, nodes

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.testbed import beds

NAME, SERIAL, DEVICE = "counting", "/var/lib/roundsman/disks/counting.serial", "/dev/drbd0"
RESOURCE = f"{NAME}-disk0"
HVPARAMS = ("accel=tcg", "shutdown_timeout=1", "migration_transport=tcp", f"serial_log={SERIAL}")
LIMIT = 600.0
EQUAL, GOOD = "cs:Connected", "ds:UpToDate/UpToDate"
LEAST, MOST = (
    f"memory-size={size},disk-size={size},disk-count=1,cpu-count=1,nic-count=0,spindle-use=1" for size in (8, 256)
)
OS = """
- hosts: roundsman_primary
  gather_facts: false
  tasks:
    - ansible.builtin.shell: echo {image} | base64 -d | dd of={{{{ instance_devices[0] }}}} conv=fsync
"""


@dataclass(frozen=True)
class Story:
    """The guests, the daemon that keeps them, and what is seen of the instance."""

    bed: beds.Bed
    daemon: labs.Running

    def command(self, *arguments: str) -> str:
        """What `roundsman` says; it succeeds."""
        done = states.command(self.daemon, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr + self.daemon.told()
        return done.stdout

    def play(self, name: str, *arguments: str) -> str:
        """What a playbook says; it succeeds."""
        done = self.daemon.play(name, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def running(self) -> list[str]:
        """The nodes whose libvirt runs the instance."""
        there = nodes.running(self.bed)
        said = {node: self.bed.run(node, "virsh list --name --state-running") for node in sorted(there)}
        return [node for node, done in said.items() if NAME in done.stdout.decode().split()]

    def pair(self, node: str) -> str:
        """Connection, roles and disks of its disk as a node sees them."""
        said = self.bed.run(node, "grep ' cs:' /proc/drbd", check=False).stdout.decode()
        return " ".join(said.split()[1:4])

    def disk(self, node: str) -> counter.Count:
        """What its disk says, read past every cache on the node that runs it."""
        script = f"dd if={DEVICE} bs=4096 count=1 iflag=direct 2>/dev/null"
        return counter.on_disk(self.bed.run(node, script).stdout)

    def counts(self) -> list[counter.Count]:
        """What it told on both nodes, in order: one that ran twice would have told a count twice."""
        said = [self.bed.run(node, f"cat {SERIAL}", check=False).stdout for node in ("node1", "node2")]
        return counter.told_by_all(said)

    def await_more(self, node: str) -> counter.Count:
        """Wait until it has counted on, from what its disk says."""
        known = self.disk(node)
        self.until(lambda: self.disk(node) > known, "it counts on")
        return self.disk(node)

    def until(self, is_so: Callable[[], Any], what: str) -> None:
        """Wait for what only a question to a guest tells; one that is busy is not helped by many questions."""
        end, pause = time.monotonic() + LIMIT, threading.Event()
        while not is_so():
            assert time.monotonic() < end, f"not within {LIMIT:g} s: {what}\n{self.daemon.told()}"
            pause.wait(2)

    def assert_healthy(self, primary: str) -> None:
        """It runs there and nowhere else, and both of its copies are good."""
        secondary = "node2" if primary == "node1" else "node1"
        assert self.running() == [primary]
        self.until(lambda: self.pair(primary) == f"{EQUAL} ro:Primary/Secondary {GOOD}", "its copies are equal")
        assert self.pair(secondary) == f"{EQUAL} ro:Secondary/Primary {GOOD}"
        cluster = self.daemon.cluster()
        assert [cluster.node_name(uuid) for uuid in cluster.instance(NAME).nodes] == [primary, secondary]


@contextlib.contextmanager
def at_work(guests: beds.Bed) -> Iterator[Story]:
    """The daemon at work, and the instance added as a user adds one, its system installed by a playbook."""
    one = Story(guests, labs.Running(world.Lab(guests.folder), {}))
    systems = guests.where.etc / "os"
    systems.mkdir(exist_ok=True)
    image = base64.b64encode(counter.boot_sector()).decode()
    (systems / "counting.yml").write_text(OS.format(image=image))
    one.daemon.start()
    try:
        one.command("cluster", "modify", f"ipolicy.minmax=min:{LEAST}/max:{MOST}", f"ipolicy.std={LEAST}")
        sizes = ("-t", "drbd", "-s", "8M", "-m", "16M", "-n", "node1:node2", "-o", "counting")
        one.command("instance", "add", NAME, *sizes, *(part for each in HVPARAMS for part in ("-H", each)))
        yield one
    finally:
        states.command(one.daemon, "instance", "remove", NAME, "--yes")
        processes.stop(one.daemon.lab, "daemon")
