from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import agent_archive

from tests.unit.plugins.module_utils.monitoring import nodes

SYSTEM = shutil.which("python3", path="/usr/bin:/bin") or ""
needs_system = pytest.mark.skipif(not SYSTEM, reason="no python3 of the system")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "agent.pyz"
    path.write_bytes(agent_archive.build())
    return path


@pytest.fixture
def node(tmp_path: Path) -> nodes.Node:
    return nodes.Node(tmp_path / "node")


def test_the_same_modules_give_the_same_bytes() -> None:
    assert agent_archive.build() == agent_archive.build()


def test_it_holds_the_agent_and_nothing_that_it_does_not_need(archive: Path) -> None:
    names = zipfile.ZipFile(archive).namelist()
    needed = {"roundsman/monitoring/front.py", "roundsman/domain/agent/signing.py"}
    assert {"__main__.py", "roundsman/", *needed} <= set(names)
    assert not [one for one in names if "oob" in one or "changes" in one or "simulated" in one or "fake" in one]


@needs_system
def test_it_runs_without_the_collection(node: nodes.Node, archive: Path) -> None:
    with nodes.running(node, command=[SYSTEM, "-I", str(archive)]) as agent:
        problem = agent.until(lambda _: True).problem
    assert problem is not None
    assert problem.reason == "not_configured"


@needs_system
@pytest.mark.parametrize(("settings", "code"), [("{}", 0), ('{"port": "x"}', 1)])
def test_it_tells_whether_settings_can_be_used(tmp_path: Path, archive: Path, settings: str, code: int) -> None:
    path = tmp_path / "agent.json"
    path.write_text(settings)
    path.chmod(0o644)
    done = subprocess.run([SYSTEM, "-I", str(archive), "--check", str(path)], capture_output=True, check=False)
    assert done.returncode == code
    assert (b"port" in done.stderr) == bool(code)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives rights away")
@needs_system
def test_the_process_that_answers_has_no_rights(node: nodes.Node, archive: Path) -> None:
    for folder in (node.root, *node.root.parents):
        if "pytest-" in str(folder):
            # pytest's folders are for root alone.
            folder.chmod(0o755)
    command = [SYSTEM, "-I", str(archive), "--user", "nobody"]
    with nodes.running(node, command=command) as agent:
        agent.until(lambda _: True)
        children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text().split()
        statuses = [Path(f"/proc/{child}/status").read_text() for child in children]
        (answering,) = [one for one in statuses if "python" in one.splitlines()[0]]
        told = dict(line.split(":\t", 1) for line in answering.splitlines() if ":\t" in line)
        assert "0" not in told["Uid"].split()
        assert "0" not in told["Gid"].split()
        assert told["Groups"].split() == []
        assert int(told["CapEff"], 16) == 0
