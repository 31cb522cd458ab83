from __future__ import annotations

import json
import os
import pathlib
import pwd
import re
import stat
import subprocess
import sys
import time
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing

from tests.unit import other_users

CHECKOUT = pathlib.Path(__file__).parents[4]
CLUSTER_KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NODE = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"
CUT_LINK = """
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = "name: cut\\nshort_description: a cut link\\ndescription: [a link that is cut]\\noptions: {}"

class Connection(ConnectionBase):
    transport = "cut"
    def _connect(self):
        raise AnsibleConnectionFailure("the link is cut")
    exec_command = put_file = fetch_file = lambda self, *args, **options: self._connect()
    def close(self):
        pass
"""


@pytest.fixture
def place(tmp_path: pathlib.Path) -> pathlib.Path:
    for folder in ("node/etc/roundsman", "node/var/lib/roundsman", "connections", "spool"):
        (tmp_path / folder).mkdir(parents=True)
    settings = tmp_path / "node/etc/roundsman/node.json"
    settings.write_text(json.dumps({"node": NODE, "command_owner": pwd.getpwuid(os.geteuid()).pw_name}))
    settings.chmod(0o644)
    key = tmp_path / "node/var/lib/roundsman/node.key"
    key.write_bytes(signing.node_key(CLUSTER_KEY, NODE))
    key.chmod(0o400)
    (tmp_path / "connections/cut.py").write_text(CUT_LINK)
    return tmp_path


def ask(place: pathlib.Path, *options: str, **arguments: str) -> dict[str, dict[str, Any]]:
    hosts = {name: {"ansible_connection": "local"} for name in ("alive", ".hidden")}
    inventory = {
        "all": {
            "vars": {"ansible_python_interpreter": sys.executable},
            "hosts": dict(hosts, gone={"ansible_connection": "cut"}),
        }
    }
    (place / "hosts.json").write_text(json.dumps(inventory))
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=str(CHECKOUT / "playbooks/collections"),
        ANSIBLE_CONNECTION_PLUGINS=str(place / "connections"),
        ANSIBLE_HOME=str(place / "home"),
        ROUNDSMAN_ROOT=str(place / "node"),
    )
    command = [sys.executable, "-m", "ansible", "adhoc", "all", "-i", str(place / "hosts.json")]
    task = ["-m", "roundsman.cluster.diagnose", "-a", json.dumps(arguments), "--tree", str(place / "results")]
    subprocess.run([*command, *task, *options], capture_output=True, env=environment, check=False, timeout=120)
    return {path.name: json.loads(path.read_text()) for path in (place / "results").iterdir()}


def spooled(place: pathlib.Path) -> list[str]:
    return sorted(path.name for path in (place / "spool").iterdir())


def accepted(envelope: bytes) -> reports.Report:
    return reports.accept(envelope, now=int(time.time()), cluster_key=CLUSTER_KEY, nodes=[NODE], floor=lambda _node: 0)


def test_the_envelope_reaches_the_spool_unopened_and_an_unreachable_node_is_noted(
    place: pathlib.Path,
) -> None:
    results = ask(place, spool=str(place / "spool"))

    report, note = spooled(place)
    assert re.fullmatch("alive-[0-9]{19}[.]json", report)
    assert (place / "spool" / report).read_text() == results["alive"]["envelope"]
    said = accepted((place / "spool" / report).read_bytes())
    assert (said.diagnosis, said.problem and said.problem.reason) == (None, "not_configured")

    assert note == "gone.unreachable"
    noted = json.loads((place / "spool" / note).read_bytes())
    assert noted["node"] == "gone"
    assert "the link is cut" in noted["text"]
    assert isinstance(noted["time"], int)
    assert results["gone"]["unreachable"] is True

    assert "cannot be a file name" in results[".hidden"]["msg"]
    assert results["alive"]["problem"]["reason"] == "not_configured"


def test_in_check_mode_nothing_is_written_and_the_envelope_is_returned(place: pathlib.Path) -> None:
    results = ask(place, "--check", spool=str(place / "spool"))
    assert spooled(place) == []
    assert accepted(results["alive"]["envelope"].encode()).node == NODE


def test_without_a_spool_the_envelope_of_the_named_command_is_returned(place: pathlib.Path) -> None:
    results = ask(place, command="none")
    problem = accepted(results["alive"]["envelope"].encode()).problem
    assert problem is not None
    assert problem.reason == "directory"
    assert spooled(place) == []


def test_a_spool_that_cannot_be_written_fails_the_task(place: pathlib.Path) -> None:
    results = ask(place, spool=str(place / "none"))
    assert "envelope" not in results["alive"]
    assert "cannot write to the spool" in results["alive"]["msg"]


@other_users.only_root
def test_what_root_puts_into_the_daemons_spool_is_the_daemons_whatever_its_umask(place: pathlib.Path) -> None:
    spool = place / "spool"
    os.chown(spool, other_users.DAEMON, other_users.ADMINISTRATORS)
    spool.chmod(0o770)
    (place / "victim").write_text("kept")
    (spool / "gone.unreachable").symlink_to(place / "victim")
    before = os.umask(0o077)
    try:
        ask(place, spool=str(spool))
    finally:
        os.umask(before)
    assert len(spooled(place)) == 2
    for path in spool.iterdir():
        found = path.lstat()
        assert (stat.S_ISREG(found.st_mode), stat.S_IMODE(found.st_mode)) == (True, 0o644)
        assert (found.st_uid, found.st_gid) == (other_users.DAEMON, other_users.ADMINISTRATORS)
    assert (place / "victim").read_text() == "kept"
    assert (place / "victim").stat().st_uid == 0


def test_a_spool_that_is_a_link_fails_the_task(place: pathlib.Path) -> None:
    (place / "elsewhere").mkdir()
    (place / "spool").rmdir()
    (place / "spool").symlink_to(place / "elsewhere")
    results = ask(place, spool=str(place / "spool"))
    assert "cannot write to the spool" in results["alive"]["msg"]
    assert list((place / "elsewhere").iterdir()) == []
