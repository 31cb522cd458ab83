from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.roundsman.cluster.daemon.lab import world


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, nodes=1, instances=0)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that says when it is there, and waits to be ended."""
    code = "import signal, sys; print('ready', flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_is_known_by_its_number_and_its_start(lab: world.Lab, child: subprocess.Popen[bytes]) -> None:
    processes.remember(lab, "daemon", child.pid)
    assert processes.is_running(lab, "daemon")
    path = lab.folder / "daemon.pid"
    path.write_text(json.dumps({**json.loads(path.read_text()), "started": "1"}))
    assert not processes.is_running(lab, "daemon"), "another process has that number now"
    processes.stop(lab, "daemon")
    assert child.poll() is None, "it is not ended either"


def test_stopping_returns_when_the_process_is_gone(lab: world.Lab, child: subprocess.Popen[bytes]) -> None:
    processes.remember(lab, "daemon", child.pid)
    processes.stop(lab, "daemon")
    assert not processes.is_running(lab, "daemon")
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
    processes.stop(lab, "daemon")


def test_nothing_that_was_never_started_runs(lab: world.Lab) -> None:
    assert not processes.is_running(lab, "bmcs")
    processes.stop(lab, "bmcs")


def test_a_daemon_that_cannot_start_says_why(lab: world.Lab) -> None:
    tree.Tree(lab.controller).config.write_text("{}")
    with pytest.raises(errors.Failed, match=r"daemon did not start: .*config\.data.*log: "):
        processes.start_daemon(lab)
    assert not processes.is_running(lab, "daemon")


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_free_port_can_be_bound(kind: socket.SocketKind) -> None:
    port = processes.free_port(kind)
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", port))
        assert probe.getsockname()[1] == port
        assert processes.free_port(kind) != port


def test_no_client_is_given_a_port_of_a_lab() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert processes.free_port() < first


def test_what_runs_of_a_test_bed_is_ended_though_it_is_no_lab(lab: world.Lab, child: subprocess.Popen[bytes]) -> None:
    lab.settings_file.unlink()
    processes.remember(lab, "bmcs", child.pid)
    processes.down(lab)
    assert not processes.is_running(lab, "bmcs")
