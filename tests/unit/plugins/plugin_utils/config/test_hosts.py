from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import hosts

from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path

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
    assert hosts.group_names(CLUSTER, offline) == ["roundsman_nodes", "group_rack_one", "role_offline", "offline"]
    drained = dataclasses.replace(CLUSTER.nodes["n3"], drained=True, powered=False)
    assert hosts.group_names(CLUSTER, drained)[2:] == ["role_drained", "drained", "powered_off"]


def test_migrations_and_copies_use_the_secondary_address_of_a_node() -> None:
    node = dataclasses.replace(CLUSTER.nodes["n1"], secondary_ip="10.0.0.1")
    for one, expected in ((CLUSTER.nodes["n1"], "192.0.2.1"), (CLUSTER.nodes["n2"], "node2"), (node, "10.0.0.1")):
        told = hosts.variables(CLUSTER, one)
        assert (told["roundsman_migration_address"], told["roundsman_drbd_address"]) == (expected, expected)
    assert hosts.variables(CLUSTER, node)["ansible_host"] == "192.0.2.1"


def test_a_host_tells_what_it_is_to_the_cluster() -> None:
    told = hosts.variables(CLUSTER, CLUSTER.nodes["n2"])
    assert (told["roundsman_group"], told["roundsman_role"], told["roundsman_tags"]) == (
        "rack one",
        "candidate",
        ["rack:1"],
    )


def test_a_run_knows_only_its_own_hosts_and_discovers_no_interpreter() -> None:
    found = json.loads(hosts.run_inventory(CLUSTER, ["n2"], root="/r"))["all"]
    assert set(found["hosts"]) == {"localhost", "node2"}
    assert found["hosts"]["localhost"]["ansible_python_interpreter"] == {"__ansible_unsafe": sys.executable}
    assert found["vars"] == {"roundsman_root": {"__ansible_unsafe": "/r"}}
    assert found["children"]["roundsman_nodes"]["hosts"] == {"node2": None}


def test_an_agent_is_told_what_the_cluster_polls_and_at_which_rate() -> None:
    told = hosts.variables(CLUSTER, CLUSTER.nodes["n1"])["roundsman_agent"]
    assert told == {"port": 1815, "diagnose_command": "", "diagnose_interval": 60.0, "controllers": ["192.0.2.1"]}
    settings = dataclasses.replace(CLUSTER.maintenance.settings, agent_port=1999, diagnose_command="check")
    other = dataclasses.replace(CLUSTER, maintenance=dataclasses.replace(CLUSTER.maintenance, settings=settings))
    assert hosts.variables(other, other.nodes["n1"])["roundsman_agent"] == {
        "port": 1999,
        "diagnose_command": "check",
        "diagnose_interval": 60.0,
        "controllers": ["192.0.2.1"],
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "-F/tmp/x"), ("primary_ip", "-oProxyCommand=id"), ("secondary_ip", "-oProxyCommand=id")],
)
def test_a_node_whose_name_or_address_would_be_an_option_of_ssh_is_no_host_and_stops_no_other(
    tmp_path: Path, field: str, value: str
) -> None:
    fields: dict[str, Any] = {field: value}
    node = dataclasses.replace(CLUSTER.nodes["n2"], **fields)
    cluster = dataclasses.replace(CLUSTER, nodes={**CLUSTER.nodes, "n2": node})
    told = f"ssh would take its {field} '{value}' for an option"
    assert told in hosts.problem(node, root=tmp_path)
    with pytest.raises(errors.Refused, match=told):
        hosts.variables(cluster, node)
    with pytest.raises(errors.Refused, match=told):
        hosts.connection(node, root=tmp_path)
    with pytest.raises(errors.Refused, match=told):
        hosts.run_inventory(cluster, ["n1", "n2"], root=str(tmp_path))
    assert hosts.run_inventory(cluster, ["n1", "n3"], root=str(tmp_path))


@pytest.mark.parametrize("name", ["../../../evil/x", "/evil/x", "localhost", "all", ""])
def test_a_node_whose_name_means_something_else_to_ansible_is_no_host_and_stops_no_other(
    tmp_path: Path, name: str
) -> None:
    node = dataclasses.replace(CLUSTER.nodes["n2"], name=name)
    cluster = dataclasses.replace(CLUSTER, nodes={**CLUSTER.nodes, "n2": node})
    assert "correct it in an export, and import that" in hosts.problem(node, root=tmp_path)
    with pytest.raises(errors.Refused, match="node n2: name: "):
        hosts.run_inventory(cluster, ["n1", "n2"], root=str(tmp_path))
    assert hosts.run_inventory(cluster, ["n1", "n3"], root=str(tmp_path))
