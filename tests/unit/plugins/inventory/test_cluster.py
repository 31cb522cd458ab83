from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, roles, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

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


def listed(lab: world.Lab) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("ansible-inventory"))
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ansible_runs.COLLECTIONS),
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
        "ANSIBLE_HOME": str(lab.folder / "ansible"),
    }
    command = [program, "-i", str(lab.folder / "inventory/roundsman.yml"), "--list"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


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


def test_a_damaged_configuration_is_told_of(lab: world.Lab) -> None:
    tree.Tree(lab.controller).config.write_text("{}")
    done = listed(lab)
    assert done.returncode != 0
    assert "is damaged" in " ".join(done.stderr.split())


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
