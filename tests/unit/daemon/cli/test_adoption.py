from __future__ import annotations

import ipaddress
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import name_resolution
from ansible_collections.roundsman.cluster.plugins.module_utils import own_addresses
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.adoption import adopted_hosts
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.plugins.plugin_utils.adoption import hosts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run

NEW = ("--name", "new", "--controller", "ctl:192.0.2.9")
STARTED = {**hosts.domain("web", 1, ("block", "/dev/vg/web")), "autostart": True}
PLAYBOOK = '''#!{python}
"""Stands in for ansible-playbook: leaves what hosts have, and notes what it was asked for."""
import json, pathlib, shutil, sys
text = pathlib.Path(sys.argv[sys.argv.index("-e") + 1][1:]).read_text()
variables = json.loads(text, object_hook=lambda one: one.get("__ansible_unsafe", one))
here = pathlib.Path(__file__).parent
asked = [pathlib.Path(sys.argv[-1]).name, sys.argv[1:-3], variables.get("adopt_autostart")]
with open(here / "asked", "a") as stream:
    print(json.dumps(asked), file=stream)
if "adopt_folder" in variables:
    for path in (here / "seen").iterdir():
        shutil.copy(path, variables["adopt_folder"])
print("progress")
sys.exit(int((here / "status").read_text()))
'''


class Ansible:
    """What ansible-playbook would find, and what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "seen").mkdir(parents=True)
        self.ends_with(0)
        program = folder / "ansible-playbook"
        program.write_text(PLAYBOOK.format(python=sys.executable))
        program.chmod(0o755)
        self.inventory = folder / "hosts.ini"
        self.inventory.write_text("node1\n")

    def ends_with(self, status: int) -> None:
        (self._folder / "status").write_text(str(status))

    def has(self, *found: Any) -> None:
        for place, one in enumerate(found):
            told = {"name": one.name, "place": place, "variables": {"ansible_host": f"192.0.2.{place + 1}"}}
            told |= {"problem": one.problem} if one.problem else {"seen": one.seen}
            (self._folder / "seen" / f"{one.name}.json").write_text(json.dumps(told))

    def asked(self) -> list[list[Any]]:
        return [json.loads(line) for line in (self._folder / "asked").read_text().splitlines()]


@pytest.fixture
def ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ansible:
    one = Ansible(tmp_path / "bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "root"))
    return one


def test_a_plan_is_shown_and_nothing_is_written_without_yes(ansible: Ansible, roundsman: Run, tmp_path: Path) -> None:
    ansible.has(hosts.host(1, STARTED), hosts.host(2))
    words = ("cluster", "adopt", "-i", str(ansible.inventory))
    code, _, err = roundsman(*words)
    assert (code, "there is no cluster at" in err) == (1, True)
    code, out, _ = roundsman(*words, *NEW, "--dry-run")
    assert code == 0
    assert out.splitlines()[0] == (
        "The master, where the daemon runs, is ctl (192.0.2.9): a node that takes no instances."
    )
    assert "node1     192.0.2.1" in out
    assert "plain vg/web" in out
    assert "web starts by itself with node1" in out
    code, out, err = roundsman(*words, *NEW)
    assert (code, err.splitlines()[-1]) == (
        1,
        "roundsman: confirmation required, but standard input is not a terminal: add --yes",
    )
    assert not (tmp_path / "root").exists()


def test_a_cluster_is_made_of_hosts_and_extended_later(ansible: Ansible, roundsman: Run, tmp_path: Path) -> None:
    words = ("cluster", "adopt", "-i", str(ansible.inventory), "--yes")
    ansible.has(hosts.host(1, STARTED))
    code, out, _ = roundsman(*words, *NEW, "--become", "-l", "node*")
    assert (code, "The cluster is made" in out) == (0, True)
    (asked,) = ansible.asked()
    assert asked[0] == "adopt.yml"
    assert asked[1] == ["-i", str(ansible.inventory), "--limit", "node*", "--become"]
    where = tree.Tree(tmp_path / "root")
    found = store.read(where.config)
    assert (found.cluster.cluster_name, found.node("node1").hostvars["ansible_become"]) == ("new", "true")
    assert found.instance("web").disk_template == "plain"
    assert (found.node_name(found.cluster.master_node), found.node("ctl").vm_capable) == ("ctl", False)
    assert where.hmac_key.exists()
    code, out, _ = roundsman(*words)
    assert (code, "Nothing is new: 2 are on record already." in out) == (0, True)
    assert store.read(where.config) == found
    ansible.has(hosts.host(1, STARTED), hosts.host(2, hosts.domain("db", 2)))
    assert roundsman(*words)[0] == 0
    after = store.read(where.config)
    assert sorted(one.name for one in after.instances.values()) == ["db", "web"]
    assert after.instance("web") == found.instance("web")
    assert after.cluster.uuid == found.cluster.uuid
    made, *used, extended = where.audit_log.read_text().splitlines()
    assert 'door=command-line text="cluster adopt: 1 nodes, 1 instances"' in made
    assert any("new: hostvars.ansible_become true: node node1" in each for each in used)
    assert "node2" in extended


def test_domains_do_not_start_by_themselves_any_more_when_that_is_asked_for(ansible: Ansible, roundsman: Run) -> None:
    ansible.has(hosts.host(1, STARTED))
    words = ("cluster", "adopt", "-i", str(ansible.inventory), *NEW, "--disable-autostart")
    code, out, _ = roundsman(*words, "--dry-run")
    assert code == 0
    assert "By hand" not in out
    assert "turn it off" not in out
    assert "1 domain on node1 is not started with its host any more." in out
    assert [one[0] for one in ansible.asked()] == ["adopt.yml"]
    assert "turn it off with --disable-autostart" in roundsman(*words[:-1], "--dry-run")[1]
    assert roundsman(*words, "--yes")[0] == 0
    assert ansible.asked()[-1][0] == "adopt_autostart.yml"
    assert ansible.asked()[-1][2] == {"node1": [STARTED["uuid"]]}


def test_for_programs_there_is_one_document(ansible: Ansible, roundsman: Run) -> None:
    ansible.has(hosts.host(1, STARTED))
    words = ("cluster", "adopt", "-i", str(ansible.inventory), *NEW, "--yes", "-o", "json")
    code, out, _ = roundsman(*words)
    found = json.loads(out)
    assert (code, found["nodes"][0][1]["name"], found["instances"][0]["name"]) == (0, "node1", "web")


def test_a_host_that_cannot_be_read_fails_the_command_after_the_others_were_adopted(
    ansible: Ansible, roundsman: Run, tmp_path: Path
) -> None:
    ansible.has(hosts.host(1), adopted_hosts.Host("node2", problem="cannot be reached: no route"))
    ansible.ends_with(4)
    words = ("cluster", "adopt", "-i", str(ansible.inventory), *NEW)
    for more in ("--dry-run", "--yes"):
        code, out, err = roundsman(*words, more)
        assert (code, "host node2: cannot be reached: no route" in out) == (1, True)
        assert err.splitlines()[-1].startswith("roundsman: node2 could not be read: see above")
    assert store.read(tree.Tree(tmp_path / "root").config).node("node1").name == "node1"
    ansible.ends_with(1)
    code, _, err = roundsman("cluster", "adopt", "-i", str(ansible.inventory), "--dry-run")
    assert (code, err.splitlines()[-1]) == (1, "roundsman: ansible-playbook adopt.yml ended with 1")


def test_without_any_host_nothing_is_written_and_what_ssh_needs_is_said(
    ansible: Ansible, roundsman: Run, tmp_path: Path
) -> None:
    problems = ("Host key verification failed.", "Permission denied (publickey).")
    ansible.has(*(adopted_hosts.Host(f"node{place}", problem=text) for place, text in enumerate(problems, start=1)))
    code, out, err = roundsman("cluster", "adopt", "-i", str(ansible.inventory), *NEW, "--yes")
    assert (code, err.splitlines()[-1]) == (1, "roundsman: no host could be read: see above what each needs")
    assert "ssh-keyscan HOST >> ~/.ssh/known_hosts" in out
    assert "ssh-copy-id USER@HOST" in out
    assert not (tmp_path / "root").exists()


def test_a_controller_that_is_a_host_becomes_the_master_with_a_warning(
    ansible: Ansible, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ansible.has(hosts.host(1), hosts.host(2))
    words = ("cluster", "adopt", "-i", str(ansible.inventory), "--name", "new", "--dry-run")
    told = "one of the hosts: it can never be evacuated or powered off, with what runs there."
    assert f"is node2 (192.0.2.2), {told}" in roundsman(*words, "--controller", "node2")[1]
    monkeypatch.setattr(own_addresses, "listed", lambda _net: {ipaddress.ip_address("192.0.2.1")})
    assert f"is node1 (192.0.2.1), {told}" in roundsman(*words)[1]
    monkeypatch.setattr(own_addresses, "listed", lambda _net: set())
    monkeypatch.setattr(name_resolution, "address_of", lambda _name, **_version: "")
    code, _, err = roundsman(*words)
    assert (code, err.splitlines()[-1].endswith("give one with --controller NAME:ADDRESS")) == (1, True)


def test_an_inventory_without_hosts_is_refused(ansible: Ansible, roundsman: Run) -> None:
    code, _, err = roundsman("cluster", "adopt", "-i", str(ansible.inventory), "--name", "new")
    assert (code, err.splitlines()[-1]) == (1, f"roundsman: {ansible.inventory} has no hosts to adopt")
