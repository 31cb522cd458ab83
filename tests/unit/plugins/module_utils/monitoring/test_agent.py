from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from . import nodes

EVACUATE = '{"status": "evacuate", "details": {"disk": "sdb"}}'


def test_the_report_is_signed_by_the_node_and_has_what_the_command_says(node: nodes.Node) -> None:
    node.command(f"echo '{EVACUATE}'")
    with nodes.running(node, diagnose_command="check") as agent:
        found = agent.until(lambda one: one.data is not None)
        assert json.loads(found.data or "") == json.loads(EVACUATE)
        body = agent.ask("/1/report/node/diagnose")[1]
    other = signing.node_key(b"another", nodes.UUID)
    with pytest.raises(errors.ReportRejected, match="not the node's"):
        collected.read(body, subject=collected.DIAGNOSE, node=nodes.UUID, key=other, now=int(time.time()))


def test_ganetis_paths_are_answered(node: nodes.Node) -> None:
    with nodes.running(node) as agent:
        agent.until(lambda _: True)
        assert agent.ask("/") == (200, b"[1]")
        assert agent.ask("/1/") == (200, b"null")
        assert agent.ask("/1/list/collectors") == (200, b'[["diagnose", "node", 1]]')
        status, body = agent.ask("/1/report/all")
        assert status == 200
        assert [set(one) for one in json.loads(body)] == [{"msg", "salt", "hmac"}]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/nothing", b"Resource not found"),
        ("/1/report/node/nothing", b"Unable to produce a report for the requested resource"),
        ("/1/report/node/../collectors.json", b"Unable to produce a report for the requested resource"),
        ("/1/report/node/%2e%2e", b"Unable to produce a report for the requested resource"),
        ("/../../etc/roundsman/node.json", b"Resource not found"),
    ],
)
def test_what_is_not_there_is_not_found(node: nodes.Node, path: str, text: bytes) -> None:
    with nodes.running(node) as agent:
        assert agent.ask(path) == (404, text)


def test_a_head_request_has_no_body_and_nothing_can_be_changed(node: nodes.Node) -> None:
    with nodes.running(node) as agent:
        agent.until(lambda _: True)
        assert agent.ask("/1/report/node/diagnose", method="HEAD") == (200, b"")
        assert agent.ask("/1/report/node/diagnose", method="POST")[0] == 405


def test_many_requests_do_not_run_the_command_many_times(node: nodes.Node) -> None:
    node.command(f'echo run >>{node.root}/runs; echo \'{{"status": "Ok"}}\'')
    intervals = {**nodes.OFF, "diagnose": 3600}
    with nodes.running(node, diagnose_command="check", collectors=intervals) as agent:
        agent.until(lambda one: one.data is not None)
        for _ in range(20):
            assert agent.ask("/1/report/node/diagnose")[0] == 200
        assert (node.root / "runs").read_text() == "run\n"


def test_a_collector_that_hangs_holds_up_only_itself(node: nodes.Node) -> None:
    os.mkfifo(node.root / "proc/diskstats")  # nobody ever writes into it
    intervals = {**nodes.OFF, "diskstats": 1, "diagnose": 1}
    with nodes.running(node, collectors=intervals) as agent:
        first = agent.until(lambda _: True)
        agent.until(lambda one: one.timestamp > first.timestamp)
        assert agent.ask(collected.path(collected.DISKSTATS))[0] == 404


def test_new_settings_count_without_a_restart(node: nodes.Node) -> None:
    node.command(f"echo '{EVACUATE}'", name="other")
    with nodes.running(node) as agent:
        agent.until(lambda one: one.problem is not None and one.problem.reason == "not_configured")
        node.settings(port=agent.port, diagnose_command="other")
        agent.until(lambda one: one.data is not None and "evacuate" in one.data)


def test_settings_that_cannot_be_read_keep_the_last_good_ones_and_are_no_health(node: nodes.Node) -> None:
    node.command('echo \'{"status": "Ok"}\'')
    with nodes.running(node, diagnose_command="check") as agent:
        agent.until(lambda one: one.data is not None)
        node.write("etc/roundsman/agent.json", '{"diagnose_command": 7}')
        found = agent.until(lambda one: one.problem is not None)
        assert found.problem is not None
        assert found.problem.reason == "settings"
        assert "diagnose_command" in found.problem.text
        node.command(f"echo '{EVACUATE}'")
        agent.until(lambda one: one.data is not None and "evacuate" in one.data)


def test_it_moves_to_another_port_and_stays_where_it_is_if_it_cannot(node: nodes.Node) -> None:
    node.command('echo \'{"status": "Ok"}\'')
    with nodes.running(node, diagnose_command="check") as agent, socket.socket() as taken:
        agent.until(lambda _: True)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        node.settings(port=taken.getsockname()[1], diagnose_command="check")
        found = agent.until(lambda one: one.problem is not None)
        assert found.problem is not None
        assert "cannot listen at 127.0.0.1" in found.problem.text
        agent.port = processes.free_port()
        node.settings(port=agent.port, diagnose_command="check")
        agent.until(lambda one: one.problem is None)


def test_an_address_is_kept_while_another_one_comes(node: nodes.Node) -> None:
    with nodes.running(node) as agent:
        agent.until(lambda _: True)
        node.settings(bind=["127.0.0.1", "127.0.0.2"], port=agent.port)
        agent.host = "127.0.0.2"
        agent.until(lambda _: True)
        agent.host = "127.0.0.1"
        assert agent.ask("/") == (200, b"[1]")


def test_it_answers_over_ipv6(node: nodes.Node) -> None:
    with nodes.running(node, host="::1") as agent:
        found = agent.until(lambda _: True).problem
        assert found is not None
        assert found.reason == "not_configured"


def test_sigterm_ends_it_quietly_and_nobody_answers_any_more(node: nodes.Node) -> None:
    with nodes.running(node) as agent:
        agent.until(lambda _: True)
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(nodes.LIMIT) == 0
        with pytest.raises(ConnectionRefusedError):
            agent.ask("/")
    assert (node.root / "log").read_text() == ""


def test_whoever_answers_ends_with_the_one_that_signs(node: nodes.Node) -> None:
    with nodes.running(node) as agent:
        agent.until(lambda _: True)
        agent.process.kill()
        agent.process.wait(nodes.LIMIT)
        deadline = time.monotonic() + nodes.LIMIT
        with pytest.raises(ConnectionRefusedError):  # noqa: PT012 - asked until nobody is there
            while time.monotonic() < deadline:
                with contextlib.suppress(ConnectionResetError):
                    agent.ask("/")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [("etc/roundsman/agent.json", "{", "agent.json"), ("etc/roundsman/node.json", "{}", "node must be")],
)
def test_it_does_not_begin_with_what_it_cannot_read(node: nodes.Node, file: str, text: str, said: str) -> None:
    node.settings()
    node.write(file, text)
    done = subprocess.run(
        [sys.executable, "-m", nodes.MODULE],
        env={"PYTHONPATH": str(nodes.CHECKOUT / "playbooks/collections"), "ROUNDSMAN_ROOT": str(node.root)},
        capture_output=True,
        check=False,
        timeout=nodes.LIMIT,
    )
    assert done.returncode == 1
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
