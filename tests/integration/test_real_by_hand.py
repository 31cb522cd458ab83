"""The plays by hand on real hosts, check mode first: what it promised is what happens, whatever is killed meanwhile."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import libvirt_xml
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests import child_signals
from tests.testbed import building, counter, nodes

from . import counting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.testbed import beds

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(600)]
FAILOVER = ("-e", "failover=true")


class ByHand(counting.Counting):
    """The instance on node1, and no daemon."""

    def start(self) -> None:
        facts = {**dataclasses.asdict(self.made), "devices": [f"/srv/roundsman/disks/{self.made.uuid}/disk0"]}
        xml = libvirt_xml.definition(counting.NAME, facts)
        self.bed.run("node1", "cat >/run/counting.xml && virsh create /run/counting.xml", given=xml.encode())
        self.await_more()

    def play(self, name: str, *arguments: str, code: int = 0) -> str:
        """Run a play to its end; what it printed."""
        done = self.hand.play(f"{name}.yml", *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def promised(self, name: str, *arguments: str, code: int = 0) -> str:
        """Run a play in check mode, and see that it changed neither the configuration nor where the instance runs."""
        before = self.state()
        told = self.play(name, *arguments, "--check", code=code)
        assert self.state() == before
        return told

    def state(self) -> tuple[bytes, list[str], set[str]]:
        """The configuration, where the instance runs, and which nodes have power."""
        on = nodes.running(self.bed)
        return self.bed.where.config.read_bytes(), self.running() if len(on) == len(self.bed.addresses()) else [], on

    def break_off(self, number: signal.Signals) -> None:
        """Begin evacuate.yml, and give it a signal in the middle of the migration; its locks are free afterwards."""
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        play = str(ansible_runs.PLAYBOOKS / "evacuate.yml")
        command = [program, "-i", str(self.bed.folder / "inventory"), play, "-e", "node=node1"]
        with subprocess.Popen(
            child_signals.reset(command), stdout=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                self.await_moving()
                os.killpg(process.pid, number)
                assert process.wait(60) != 0
            finally:
                process.kill()
        with self.bed.where.config_lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def started(self, node: str) -> bytes:
        """When the node's first process began."""
        return self.bed.run(node, "stat --format %y /proc/1").stdout


@pytest.fixture
def by_hand(containers: beds.Bed) -> Iterator[Callable[..., ByHand]]:
    """Makes the instance for one test; after it the containers are empty and the configuration is as it was."""
    empty = store.read(containers.where.config)

    def make(**hvparams: str) -> ByHand:
        one = ByHand(containers, counting.instance(empty, admin_state="up", **hvparams))
        one.start()
        return one

    yield make
    counting.leave_empty(containers, empty)


def changed(told: str) -> int:
    """How many tasks of a play changed something, by its recap."""
    return sum(int(found) for found in re.findall(r" changed=(\d+) ", told))


@pytest.mark.parametrize(("options", "kind", "boots"), [((), "migrate", 1), (FAILOVER, "failover", 2)])
def test_evacuate_does_what_check_mode_said_and_a_second_run_nothing(
    by_hand: Callable[..., ByHand], options: tuple[str, ...], kind: str, boots: int
) -> None:
    one = by_hand()
    plan = rf'"({kind} counting: node1 -> (node[23]))"'
    [(promised, target)] = re.findall(plan, one.promised("evacuate", "-e", "node=node1", *options))
    before = one.hand.cluster()
    assert f'"{promised}"' in one.play("evacuate", "-e", "node=node1", *options)
    assert (one.primary(), one.running()) == (target, [target])
    assert changes(before, one.hand.cluster()) == {counting.NAME}
    one.await_more()
    counter.check(one.counts(), boots=boots)
    assert one.counts()[-1].boots == boots

    before_second = one.state()
    assert changed(one.play("evacuate", "-e", "node=node1", *options)) == 0
    assert one.state() == before_second


def changes(before: clusters.Cluster, after: clusters.Cluster) -> set[str]:
    """The names of all nodes and instances that are not as they were."""
    pairs = ((before.nodes, after.nodes), (before.instances, after.instances))
    return {one.name for old, new in pairs for uuid, one in new.items() if one != old.get(uuid)}


def test_after_ctrl_c_in_the_middle_the_same_command_ends_what_it_began(by_hand: Callable[..., ByHand]) -> None:
    one = by_hand(migration_bandwidth="2")
    one.break_off(signal.SIGINT)
    one.play("evacuate", "-e", "node=node1")
    assert one.running() == [one.primary()]
    assert one.primary() != "node1"
    one.await_more()
    counter.check(one.counts(), boots=1)


def test_what_a_killed_play_moved_is_found_and_never_started_a_second_time(by_hand: Callable[..., ByHand]) -> None:
    one = by_hand(migration_bandwidth="2")
    one.break_off(signal.SIGKILL)
    one.bed.run("node1", f"while virsh domstate {counting.NAME} 2>/dev/null; do sleep 0.1; done")
    assert one.primary() == "node1"
    [where] = one.running()
    assert "counting is not on node1" in one.promised("evacuate", "-e", "node=node1", *FAILOVER)
    # Where the plan would send it now, it must not be started beside the copy that runs.
    cluster = one.hand.cluster()
    full = dataclasses.replace(cluster.node(where), drained=True)
    store.write(one.bed.where.config, dataclasses.replace(cluster, nodes={**cluster.nodes, full.uuid: full}))
    assert "has no instances" in one.play("evacuate", "-e", "node=node1", *FAILOVER)
    assert (one.running(), one.primary()) == ([where], where)
    one.await_more()
    counter.check(one.counts(), boots=1)


def test_power_does_what_check_mode_said_and_spares_who_runs_an_instance(by_hand: Callable[..., ByHand]) -> None:
    one = by_hand()
    off = ("power", "-e", "power=off", "-e", "nodes=node1,node2")
    told = one.promised(*off, code=2)
    assert "node1: unknown, would not be done" in told
    assert ("node2: on, would be off" in told, changed(told)) == (True, 1)
    assert "node1 still runs counting: evacuate it first" in one.play(*off, code=2)
    assert nodes.running(one.bed) == {"node1", "node3"}
    assert [one.hand.cluster().node(name).powered for name in ("node1", "node2", "node3")] == [True, False, True]
    assert changed(one.play("power", "-e", "power=off", "-e", "nodes=node2")) == 0

    cycle, began = ("power", "-e", "power=cycle", "-e", "nodes=node3"), one.started("node3")
    assert "node3: on, would be off and on again" in one.promised(*cycle)
    assert one.started("node3") == began
    one.play(*cycle)
    on = ("power", "-e", "power=on", "-e", "nodes=node2,node3")
    told = one.promised(*on)
    assert ("node2: off, would be on" in told, "node3: on, nothing to do" in told) == (True, True)
    assert ("node2: on, confirmed" in (told := one.play(*on)), "node3: on, already on" in told) == (True, True)
    # Shared connections to what was there before are only given up after half a minute.
    for path in one.bed.sockets.iterdir():
        path.unlink()
    for node in ("node2", "node3"):
        building.await_node(one.bed, node)
    assert one.started("node3") != began
    counter.check(one.counts(), boots=1)

    # What runs is seen though the configuration does not know of it.
    cluster = one.hand.cluster()
    store.write(one.bed.where.config, dataclasses.replace(cluster, instances={}))
    node1 = ("power", "-e", "power=cycle", "-e", "nodes=node1")
    assert "node1 still runs counting, which the configuration does not know of" in one.promised(*node1, code=2)
    assert "node1 still runs counting, which the configuration does not know of" in one.play(*node1, code=2)
    assert one.running() == ["node1"]


def test_diagnose_tells_what_the_nodes_said_and_leaves_their_reports_for_the_daemon(
    by_hand: Callable[..., ByHand],
) -> None:
    one = by_hand()
    one.bed.say("node2", {"status": "evacuate"})
    promised = one.promised("diagnose")
    assert list(one.bed.where.spool.iterdir()) == []
    told = one.play("diagnose")
    reported = sorted(path.name.split("-")[0] for path in one.bed.where.spool.iterdir())
    assert reported == ["controller", "node1", "node2", "node3"]
    for text in (promised, told):
        assert ('"node1: Ok"' in text, '"node2: evacuate"' in text, changed(text)) == (True, True, 0)
    assert one.running() == ["node1"]
