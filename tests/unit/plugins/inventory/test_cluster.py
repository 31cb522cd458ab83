from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, roles
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import other_users
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon.lab import world


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    one = twins.lab(tmp_path, nodes=4, instances=0, diagnose_command="lab-diagnose")
    where = tree.Tree(one.controller)
    cluster = store.read(where.config)
    stated = [
        *roles.change(cluster, cluster.node("node3"), offline=True),
        *roles.change(cluster, cluster.node("node4"), drained=True),
        changes.NodePowered(cluster.node("node2").uuid, powered=False),
    ]
    store.write(where.config, changes.apply_all(cluster, stated, now=1.0))
    return one


def listed(
    lab: world.Lab,
    *,
    prefix: tuple[str, ...] = (),
    changed: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("ansible-inventory"))
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ansible_runs.COLLECTIONS),
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
        "ANSIBLE_HOME": str(lab.folder / "ansible"),
        **(changed or {}),
    }
    command = [*prefix, program, "-i", str(lab.folder / "inventory/roundsman.yml"), "--list"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


# Root without the right to read what belongs to others is in the place of an administrator.
UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
needs_setpriv = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes root, and setpriv to be less than root"
)


def give_to_daemon(lab: world.Lab) -> tree.Tree:
    """Owners and modes as the role makes them."""
    where = tree.Tree(lab.controller)
    where.ssh_key.parent.mkdir(mode=0o700)
    where.ssh_key.touch(mode=0o600)
    for path in (where.lib, where.config, where.ssh_key.parent, where.ssh_key):
        os.chown(path, other_users.DAEMON, other_users.DAEMON)
    return where


def plain(value: Any) -> Any:
    """A value without Ansible's mark of what is no template."""
    return value.get("__ansible_unsafe", value) if isinstance(value, dict) else value


def hosts(told: dict[str, Any], group: str) -> list[str]:
    return sorted(told.get(group, {}).get("hosts", []))


def test_nodes_are_in_the_groups_of_their_roles_with_their_variables(lab: world.Lab) -> None:
    done = listed(lab)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert hosts(told, "roundsman_nodes") == ["node1", "node2", "node3", "node4"]
    assert hosts(told, "group_group1") == ["node1", "node2", "node3", "node4"]
    assert hosts(told, "role_master") == ["node1"]
    assert hosts(told, "role_offline") == ["node3"]
    assert hosts(told, "role_drained") == ["node4"]
    assert hosts(told, "reachable") == ["node1", "node4"]
    assert hosts(told, "powered_off") == ["node2"]
    assert (hosts(told, "offline"), hosts(told, "drained")) == (["node3"], ["node4"])
    variables = {key: plain(one) for key, one in told["_meta"]["hostvars"]["node2"].items()}
    assert variables["roundsman_lab_root"] == str(lab.node("node2").root)
    assert variables["roundsman_root"] == str(lab.controller)
    assert variables["diagnose_command"] == "lab-diagnose"
    assert variables["roundsman_oob_program"] == "ipmi"
    assert plain(told["_meta"]["hostvars"]["localhost"]["ansible_connection"]) == "local"


@needs_setpriv
@pytest.mark.parametrize("unreadable", ["config", "host_vars"])
def test_a_user_who_cannot_read_the_files_is_refused_in_one_line_that_names_who_may(
    lab: world.Lab, unreadable: str
) -> None:
    where = give_to_daemon(lab)
    path = getattr(where, unreadable)
    if unreadable == "host_vars":
        os.chown(where.config, 0, 0)
    os.chown(path, other_users.DAEMON, other_users.DAEMON)
    path.chmod(0o750 if path.is_dir() else 0o640)
    done = listed(lab, prefix=UNPRIVILEGED, changed={"ANSIBLE_INVENTORY_UNPARSED_FAILED": "false"})
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        f"[ERROR]: {path} cannot be read by the user root: plays by hand are run by root or by the user with uid "
        f"{other_users.DAEMON}, as which roundsmand runs; administrators use the command roundsman, which asks the "
        "daemon (see roundsman --help)\n"
    )


@other_users.only_root
def test_plays_of_root_use_the_key_of_the_daemon_unless_another_one_is_set(lab: world.Lab) -> None:
    def key(**changed: str) -> Any:
        variables = json.loads(listed(lab, changed=changed).stdout)["_meta"]["hostvars"]
        return plain(variables["node2"].get("ansible_ssh_private_key_file"))

    assert key() is None
    where = give_to_daemon(lab)
    assert key() == str(where.ssh_key)
    assert key(ANSIBLE_PRIVATE_KEY_FILE="/root/.ssh/own") is None
    (by_root,) = where.host_vars.glob("node2.*")
    content = by_root.read_text()
    by_root.write_text('{"ansible_ssh_private_key_file": "/root/.ssh/other"}')
    assert key() == "/root/.ssh/other"
    by_root.write_text(content)
    where.ssh_key.rename(where.lib / "moved")
    where.ssh_key.symlink_to(where.lib / "moved")
    assert key() is None


def restate(lab: world.Lab, known: str, **fields: Any) -> None:
    """State something of a node as no command would."""
    config = tree.Tree(lab.controller).config
    cluster = store.read(config)
    node = dataclasses.replace(cluster.node(known), **fields)
    store.write(config, dataclasses.replace(cluster, nodes={**cluster.nodes, node.uuid: node}))


def test_a_damaged_configuration_ends_the_play(lab: world.Lab) -> None:
    tree.Tree(lab.controller).config.write_text("{}")
    done = listed(lab, changed={"ANSIBLE_INVENTORY_UNPARSED_FAILED": "false"})
    assert (done.returncode, done.stdout) == (4, "")
    assert "is damaged" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"primary_ip": "-oProxyCommand=id"}, "ssh would take its primary_ip '-oProxyCommand=id' for an option"),
        ({"name": "../../../../evil/x"}, "name: '../../../../evil/x' is not a name"),
        ({"name": "localhost"}, "name: 'localhost' means something else to Ansible"),
    ],
)
def test_a_node_that_means_something_else_to_ssh_or_ansible_is_left_out_in_one_line(
    lab: world.Lab, fields: dict[str, str], reason: str
) -> None:
    restate(lab, "node4", **fields)
    done = listed(lab)
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr.count("\n"), reason in done.stderr) == (0, 1, True), done.stderr
    assert hosts(told, "roundsman_nodes") == ["node1", "node2", "node3"]
    assert hosts(told, "reachable") == ["node1"]


@other_users.only_root
def test_a_node_whose_host_variables_are_refused_is_left_out_and_all_others_stay(lab: world.Lab) -> None:
    (by_root,) = tree.Tree(lab.controller).host_vars.glob("node1.*")
    os.chown(by_root, other_users.DAEMON, -1)
    done = listed(lab)
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert f"node 'node1' is left out: {by_root} is owned by uid {other_users.DAEMON}" in done.stderr
    assert hosts(told, "roundsman_nodes") == ["node2", "node3", "node4"]
    assert "node1" not in told["_meta"]["hostvars"]
    reasons = plain(told["_meta"]["hostvars"]["localhost"]["roundsman_left_out"])
    assert list(reasons) == ["node1"]


@other_users.only_root
def test_plugins_that_somebody_else_left_in_the_working_folder_never_run(lab: world.Lab) -> None:
    with other_users.open_folder() as folder:
        marker, planted = folder / "marker", folder / "shell_plugins" / "sh.py"
        planted.parent.mkdir()
        planted.write_text(f"open({str(marker)!r}, 'w').close()\n")
        program = str(Path(sys.executable).with_name("ansible"))
        command = [
            program,
            "-i",
            str(lab.folder / "inventory/roundsman.yml"),
            "localhost",
            "-m",
            "ansible.builtin.ping",
        ]
        environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ansible_runs.COLLECTIONS)}
        environment["ANSIBLE_HOME"] = str(lab.folder / "ansible")
        for stranger in (folder, planted.parent, planted):
            os.chown(stranger, 65534, 65534)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert not marker.exists()


def test_groups_and_variables_are_made_of_what_is_known_of_a_node(lab: world.Lab) -> None:
    inventory = lab.folder / "inventory/roundsman.yml"
    inventory.write_text(
        inventory.read_text()
        + """
keyed_groups:
  - {key: roundsman_role, prefix: is}
groups:
  even: inventory_hostname is not defined or roundsman_node_uuid is defined
compose:
  address_again: roundsman_primary_address
"""
    )
    told = json.loads(listed(lab).stdout)
    assert hosts(told, "is_master") == ["node1"]
    assert hosts(told, "even") == ["node1", "node2", "node3", "node4"]
    assert plain(told["_meta"]["hostvars"]["node2"]["address_again"]) == "127.0.0.1"
