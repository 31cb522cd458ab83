from __future__ import annotations

import dataclasses
import json
import sys

from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import hosts

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


def test_a_host_is_reached_by_its_address_and_its_own_variables_win() -> None:
    assert hosts.variables(CLUSTER, CLUSTER.nodes["n1"])["ansible_host"] == "192.0.2.1"
    found = hosts.variables(CLUSTER, CLUSTER.nodes["n2"])
    assert (found["ansible_host"], found["ansible_user"], found["roundsman_oob_program"]) == ("node2", "ops", "")
    own = dataclasses.replace(CLUSTER.nodes["n2"], hostvars={"ansible_host": "elsewhere"})
    assert hosts.variables(CLUSTER, own)["ansible_host"] == "elsewhere"
    assert hosts.variables(CLUSTER, CLUSTER.nodes["n3"])["roundsman_oob_program"] == "/bin/oob"


def test_a_node_is_in_the_groups_of_its_group_its_role_and_whether_it_is_reachable() -> None:
    assert hosts.group_names(CLUSTER, CLUSTER.nodes["n1"]) == [
        "roundsman_nodes",
        "group_rack_one",
        "role_master",
        "reachable",
    ]
    offline = dataclasses.replace(CLUSTER.nodes["n3"], offline=True)
    assert hosts.group_names(CLUSTER, offline) == ["roundsman_nodes", "group_rack_one", "role_offline"]


def test_a_run_knows_only_its_own_hosts_and_discovers_no_interpreter() -> None:
    found = json.loads(hosts.run_inventory(CLUSTER, ["n2"], root="/r"))["all"]
    assert set(found["hosts"]) == {"localhost", "node2"}
    assert found["hosts"]["localhost"]["ansible_python_interpreter"] in {
        "{{ ansible_playbook_python }}",
        sys.executable,
    }
    assert found["vars"] == {"roundsman_root": "/r"}
    assert found["children"]["roundsman_nodes"]["hosts"] == {"node2": None}
