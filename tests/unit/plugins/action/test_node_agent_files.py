from __future__ import annotations

import getpass
import grp
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.plugin_utils import agent_archive

CHECKOUT = Path(__file__).parents[4]
CLUSTER_KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NODE = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"
KEY = signing.node_key(CLUSTER_KEY, NODE)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "hmac.key").write_bytes(CLUSTER_KEY)
    return tmp_path


def run(place: Path, action: str, *options: str, **arguments: str) -> tuple[dict[str, Any], str]:
    """One task on this machine: its result, and all that Ansible printed."""
    owned = {"owner": getpass.getuser(), "group": grp.getgrgid(os.getgid()).gr_name}
    command = [sys.executable, "-m", "ansible", "adhoc", "localhost", "--connection=local"]
    task = ["-m", f"roundsman.cluster.{action}", "-a", json.dumps({**owned, **arguments})]
    interpreter = ["-e", json.dumps({"ansible_python_interpreter": sys.executable})]
    collections = str(CHECKOUT / "playbooks/collections")
    done = subprocess.run(
        [*command, *task, *interpreter, "--tree", str(place / "results"), *options],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": collections, "ANSIBLE_HOME": str(place / "home")},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    result: dict[str, Any] = json.loads((place / "results/localhost").read_bytes())
    return result, done.stdout + done.stderr


def test_a_node_gets_its_key_once_and_nobody_sees_it(place: Path) -> None:
    arguments = {"node": NODE, "cluster_key": str(place / "hmac.key"), "dest": str(place / "node.key")}
    result, printed = run(place, "node_key", "--check", "--diff", **arguments)
    assert result["changed"]
    assert not (place / "node.key").exists()
    result, more = run(place, "node_key", "--diff", "-vvv", **arguments)
    assert result["changed"]
    assert (place / "node.key").read_bytes() == KEY
    assert (place / "node.key").stat().st_mode & 0o777 == 0o400
    for text in (printed, more):
        assert KEY.decode() not in text
        assert CLUSTER_KEY.decode().strip() not in text
    assert not run(place, "node_key", **arguments)[0]["changed"]


@pytest.mark.parametrize(("node", "key", "said"), [("", "hmac.key", "UUID"), (NODE, "gone", "on the controller")])
def test_what_makes_no_key_is_told(place: Path, node: str, key: str, said: str) -> None:
    result, _ = run(place, "node_key", node=node, cluster_key=str(place / key), dest=str(place / "node.key"))
    assert said in result["msg"]
    assert not (place / "node.key").exists()


def test_the_agent_is_put_there_once(place: Path) -> None:
    assert run(place, "node_agent_archive", dest=str(place / "agent.pyz"))[0]["changed"]
    assert (place / "agent.pyz").read_bytes() == agent_archive.build()
    assert not run(place, "node_agent_archive", dest=str(place / "agent.pyz"))[0]["changed"]
