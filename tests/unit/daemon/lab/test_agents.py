from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import agents, building, processes, standing_faults, world
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_node
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LIMIT = 60.0
ASKED = b"GET /1/report/node/diagnose HTTP/1.1\r\nHost: node1\r\n\r\n"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[world.Lab]:
    """A lab of one node whose agent runs; nothing else does."""
    made = building.build(
        tmp_path / "lab",
        nodes=1,
        instances=0,
        ports={"http": 1, "bmc": 2, "agent": processes.free_port()},
        settings=clusters.Settings(diagnose_command="lab-diagnose"),
    )
    processes.start_agents(made)
    yield made
    processes.down(made)


def answer(lab: world.Lab) -> bytes:
    """What the agent answers; empty where nobody accepts the connection, or it is hung up."""
    node = building.agent_place(0, lab.agent_port)
    with socket.socket() as client:
        client.settimeout(LIMIT)
        try:
            client.connect((node.seen, node.port))
            client.sendall(ASKED)
            return b"".join(iter(lambda: client.recv(65536), b""))
        except OSError:
            return b""


def until(is_so: Callable[[], bool]) -> None:
    """Wait for another process, which says nothing."""
    end = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_agent_answers_while_its_node_is_reached_works_on_behind_a_cut_and_dies_with_the_power(
    lab: world.Lab,
) -> None:
    node = lab.node("node1")
    (known,) = store.read(lab.controller / "var/lib/roundsman/config.data").nodes.values()
    assert (known.primary_ip, known.secondary_ip) == ("127.78.0.1", "127.79.0.1")
    assert answer(lab).startswith(b"HTTP/1.1 200"), "it has a report when the lab is up"

    at_work = simulated_node.agent(node.root)
    cuts: list[tuple[str, Callable[[], None]]] = [
        ("silent", lambda: node.silence(is_silent=True)),
        ("cut", lambda: node.cut(is_cut=True)),
        ("agent", lambda: node.cut_agent(is_cut=True)),
    ]
    for option, cut in cuts:
        cut()
        until(lambda: not answer(lab))
        assert simulated_node.agent(node.root) == at_work, "what runs behind a cut link runs on"
        assert [fault.option for fault in standing_faults.fix(node)] == [option]
        until(lambda: bool(answer(lab)))

    node.garble("instead")
    assert answer(lab) == agents.GARBAGE
    standing_faults.fix(node)

    node.lose_power()
    until(lambda: not simulated_node.agent(node.root))
    until(lambda: not answer(lab))
    node.set_power(True)
    until(lambda: bool(answer(lab)))
    assert not set(simulated_node.agent(node.root)) & set(at_work), "it is another process after a boot"

    processes.down(lab)
    assert simulated_node.agent(node.root) == []
    assert not answer(lab)


def test_what_keeps_the_agents_may_be_killed_and_starts_again_with_one_agent_a_node(lab: world.Lab) -> None:
    processes.stop(lab, "agents", number=9)
    processes.start_agents(lab)
    assert answer(lab).startswith(b"HTTP/1.1 200")
    assert len(simulated_node.agent(lab.node("node1").root)) == len(("agent", "front"))
