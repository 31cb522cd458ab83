from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Callable, Mapping

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, roles
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import joining, parameter_rules, parameters
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


NOT_PARAMETERS = {"uuid", "tags", "ndparams", "serial_no", "ctime", "mtime"}
"""Fields of objects that have resources of their own, or that nobody sets."""
STATE = {
    *("master_candidate", "drained", "offline", "powered", "powered_on_at"),
    *("off_confirmed", "off_stated_by", "off_read", "off_since", "alive_at"),
}
"""Fields of a node that opcodes and readings set."""


def after(stated: list[changes.Change], cluster: clusters.Cluster = CLUSTER) -> clusters.Cluster:
    return changes.apply_all(cluster, stated, now=99.0)


def test_parameters_of_the_cluster_and_its_maintenance_are_set_together() -> None:
    fields = {"candidate_pool_size": 5, "oob_program": "ipmi", "round_interval": 30, "diagnose_command": "check-node"}
    found = after(parameters.cluster_modify(CLUSTER, fields))
    assert (found.cluster.candidate_pool_size, dict(found.cluster.ndparams)) == (5, {"oob_program": "ipmi"})
    assert found.maintenance.settings.round_interval == 30.0
    assert found.maintenance.settings.diagnose_command == "check-node"
    assert found.cluster.serial_no == CLUSTER.cluster.serial_no + 1


@pytest.mark.parametrize(
    ("entry", "rules", "others"),
    [
        (clusters.Settings, parameter_rules.SETTINGS, set()),
        (clusters.Parameters, parameter_rules.CLUSTER, {*NOT_PARAMETERS, "master_node", "primary_ip_version"}),
        (clusters.Group, parameter_rules.GROUP, NOT_PARAMETERS),
        (clusters.Node, parameter_rules.NODE, {*NOT_PARAMETERS, *STATE}),
    ],
)
def test_each_field_has_a_rule_or_is_no_parameter(entry: type, rules: Mapping[str, object], others: set[str]) -> None:
    """A field without a rule can be set by nobody, and no other test misses it."""
    fields = {field.name for field in dataclasses.fields(entry)}
    assert fields - rules.keys() == others
    assert rules.keys() - fields == (set() if entry is clusters.Settings else parameter_rules.NDPARAMS.keys())


def test_what_is_so_already_changes_nothing() -> None:
    assert after(parameters.cluster_modify(CLUSTER, {"candidate_pool_size": 2, "round_interval": 300})) is CLUSTER
    assert after(parameters.node_modify(CLUSTER, "node3", {"oob_program": "/bin/oob"})) is CLUSTER


@pytest.mark.parametrize(
    ("value", "stands"),
    [
        ("/usr/bin/oob", "/usr/bin/oob"),
        ("ipmi", "ipmi"),
        ("redfish", "redfish"),
        ("!", "!"),
        ("", ""),
        ("default", None),
    ],
)
def test_the_helper_of_a_node_is_a_path_a_driver_nothing_or_inherited(value: str, stands: str | None) -> None:
    found = after(parameters.node_modify(CLUSTER, "node3", {"oob_program": value}))
    assert found.node("node3").ndparams.get("oob_program") == stands


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"colour": 1}, "there is no parameter 'colour' here: use one of accept_cluster_key, "),
        ({"oob_program": "oob"}, "oob_program: 'oob' is not one of: an absolute path, ipmi, redfish, "),
        ({"oob_program": 7}, "oob_program: 7 is not one of"),
        ({"candidate_pool_size": 0}, "candidate_pool_size: 0 is not a whole number of 1 or more"),
        ({"candidate_pool_size": True}, "candidate_pool_size: True is not"),
        ({"candidate_pool_size": 1.5}, "candidate_pool_size: 1.5 is not"),
        ({"storm_fraction": 1.5}, "storm_fraction: 1.5 is not a number from 0 to 1"),
        ({"storm_fraction": float("nan")}, "storm_fraction: nan is not"),
        ({"diagnose_command": "../x"}, "diagnose_command: '../x' is not the bare name of a whitelisted command"),
        ({"power_off_evacuated": "yes"}, "power_off_evacuated: 'yes' is neither true nor false"),
        ({"max_running_jobs": 201}, "max_running_jobs: 201 is not a whole number from 0 to 200"),
        ({"paused": "two\nlines"}, "paused: "),
    ],
)
def test_what_the_cluster_does_not_accept_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        parameters.cluster_modify(CLUSTER, fields)
    assert str(refused.value).startswith(named)


def test_a_group_is_added_renamed_and_removed() -> None:
    found = after(parameters.group_add(CLUSTER, "g3", {"name": "rack two", "alloc_policy": "last_resort"}))
    assert found.group("rack two").alloc_policy == "last_resort"
    found = after(parameters.group_modify(found, "rack two", {"name": "rack three"}), found)
    found = after(parameters.group_remove(found, "rack three"), found)
    assert set(found.nodegroups) == {"g1", "g2"}


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (lambda: parameters.group_add(CLUSTER, "g3", {"name": "other"}), "name: there is a node group 'other' already"),
        (lambda: parameters.group_add(CLUSTER, "g3", {"name": "g1"}), "name: there is a node group 'g1' already"),
        (lambda: parameters.group_add(CLUSTER, "g3", {}), "name: None is not a name"),
        (
            lambda: parameters.group_modify(CLUSTER, "other", {"alloc_policy": "never"}),
            "alloc_policy: 'never' is not one of",
        ),
        (lambda: parameters.group_modify(CLUSTER, "none", {}), "there is no node group 'none'"),
        (lambda: parameters.group_remove(CLUSTER, "rack one"), "node group rack one has nodes: node1, node2, node3"),
        (lambda: joining.add(CLUSTER, "n9", {"name": "node1"}), "name: there is a node 'node1' already"),
        (lambda: joining.add(CLUSTER, "n9", {"name": "a/b"}), "name: 'a/b' is not a name"),
        (lambda: joining.add(CLUSTER, "n9", {"name": "node9"}), "group: there are several, say which: "),
        (lambda: parameters.node_modify(CLUSTER, "node3", {"primary_ip": "1.2.3"}), "primary_ip: '1.2.3' is no IP"),
        (lambda: parameters.node_modify(CLUSTER, "node3", {"hostvars": {"a": 1}}), "hostvars.a: "),
        (lambda: parameters.node_modify(CLUSTER, "node3", {"hostvars": 1}), "hostvars: "),
        (lambda: joining.add(CLUSTER, "n9", {"name": "localhost"}), "name: 'localhost' means something else"),
        (lambda: parameters.node_modify(CLUSTER, "node3", {"primary_ip": "fe80::1%{{x}}"}), "primary_ip: "),
        (lambda: parameters.node_modify(CLUSTER, "node3", {"oob_program": "/a\nb"}), "oob_program: "),
        (lambda: parameters.node_modify(CLUSTER, "node2", {"vm_capable": False}), "node2 holds inst1: it stays"),
        (lambda: parameters.node_modify(CLUSTER, "node3", {"vm_capable": False}), "node3 holds inst1: it stays"),
        (lambda: parameters.node_modify(CLUSTER, "node1", {"master_capable": False}), "node1 is the master: it stays"),
        (lambda: parameters.node_modify(CLUSTER, "node2", {"group": "other"}), "node2 holds inst1: only an empty node"),
        (
            lambda: parameters.node_modify(CLUSTER, "node2", {"powered": True}),
            "Node node2 does not support OOB commands",
        ),
        (
            lambda: parameters.node_modify(CLUSTER, "node3", {"powered": True, "oob_program": "!"}),
            "Node node3 does not support OOB commands",
        ),
        (lambda: parameters.node_modify(CLUSTER, "node3", {"powered": False}), "node3 is not offline"),
        (lambda: parameters.node_modify(CLUSTER, "node3", {"powered": "off"}), "powered: 'off' is neither true nor"),
        (
            lambda: joining.add(CLUSTER, "n9", {"name": "node9", "group": "other", "powered": False}),
            "there is no parameter 'powered' here",
        ),
        (lambda: joining.remove(CLUSTER, "node1"), "node1 is the master: move the master role"),
        (lambda: joining.remove(CLUSTER, "node3"), "node3 holds inst1: evacuate it first"),
    ],
)
def test_what_a_group_or_node_cannot_be_is_refused(act: Callable[[], Any], named: str) -> None:
    with pytest.raises(errors.Refused) as refused:
        act()
    assert str(refused.value).startswith(named)


def test_the_power_state_of_record_is_set_by_hand_where_there_is_oob() -> None:
    offline = after(roles.change(CLUSTER, CLUSTER.node("n3"), offline=True))
    dark = after(parameters.node_modify(offline, "node3", {"powered": False}), offline)
    assert not dark.node("node3").powered
    assert after(parameters.node_modify(dark, "node3", {"powered": True}), dark).node("node3").powered
    given_at_once = {"powered": True, "oob_program": "ipmi"}
    assert after(parameters.node_modify(CLUSTER, "node2", given_at_once)).node("node2").powered


def test_a_node_that_lost_its_oob_after_it_was_recorded_as_off_can_be_recorded_as_on() -> None:
    dark = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("node2"), powered=False))
    assert after(parameters.node_modify(dark, "node2", {"powered": True}), dark).node("node2").powered
    with pytest.raises(errors.Refused, match="does not support OOB commands"):
        parameters.node_modify(dark, "node2", {"powered": False})


def test_the_last_group_stays() -> None:
    alone = after(parameters.group_remove(CLUSTER, "other"))
    empty = clusters.Cluster(alone.cluster, nodegroups=alone.nodegroups)
    with pytest.raises(errors.Refused, match="node group rack one is the last one"):
        parameters.group_remove(empty, "rack one")


def test_a_candidate_that_may_not_be_master_any_more_hands_its_place_on() -> None:
    found = after(parameters.node_modify(CLUSTER, "node2", {"master_capable": False}))
    assert [one.name for one in found.nodes.values() if one.master_candidate] == ["node1", "node3"]


def test_a_new_node_is_a_candidate_while_the_pool_is_short() -> None:
    fields = {"name": "node4", "group": "other", "primary_ip": "192.0.2.4", "hostvars": {"ansible_user": "ops"}}
    for pool, is_candidate in ((2, False), (3, True)):
        cluster = small_cluster.make(pool=pool)
        found = after(joining.add(cluster, "n4", fields), cluster).node("node4")
        assert (found.group, found.primary_ip, found.master_candidate) == ("g2", "192.0.2.4", is_candidate)
        assert (found.serial_no, found.ctime, found.mtime) == (1, 99.0, 99.0)


def test_an_empty_node_leaves_and_another_takes_its_place_in_the_pool() -> None:
    found = after(joining.remove(CLUSTER, "node10"))
    assert "n10" not in found.nodes
    moved = after([changes.InstanceNodes("i1", "n1", ("n3",))])
    found = after(joining.remove(moved, "node2"), moved)
    assert [one.name for one in found.nodes.values() if one.master_candidate] == ["node1", "node3"]


NAMES = st.sampled_from(["node1", "node2", "node3", "node10", "new"])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "name": NAMES,
        "group": st.sampled_from(["rack one", "other", "nowhere"]),
        "master_capable": st.booleans(),
        "vm_capable": st.booleans(),
    },
)
STEPS: st.SearchStrategy[tuple[str, str, dict[str, Any]]] = st.one_of(
    st.tuples(st.just("modify"), NAMES, FIELDS),
    st.tuples(st.just("add"), NAMES, FIELDS),
    st.tuples(st.just("remove"), NAMES, st.just({})),
    st.tuples(st.just("drain"), NAMES, st.just({})),
    st.tuples(st.just("offline"), NAMES, st.just({})),
)


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(STEPS, max_size=12))
def test_whatever_is_done_the_cluster_stays_one(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    cluster, numbers = CLUSTER, itertools.count()
    acts: dict[str, Callable[[str, dict[str, Any]], list[changes.Change]]] = {
        "modify": lambda name, fields: parameters.node_modify(cluster, name, fields),
        "add": lambda name, fields: joining.add(cluster, f"x{next(numbers)}", {"name": name, **fields}),
        "remove": lambda name, _: joining.remove(cluster, name),
        "drain": lambda name, _: roles.change(cluster, cluster.node(name), drained=True),
        "offline": lambda name, _: roles.change(cluster, cluster.node(name), offline=True),
    }
    for act, name, fields in steps:
        try:
            cluster = after(acts[act](name, fields), cluster)
        except errors.Refused:
            continue
        nodes = list(cluster.nodes.values())
        assert all(one.drained + one.offline + one.master_candidate <= 1 for one in nodes)
        assert all(one.group in cluster.nodegroups for one in nodes)
        assert len({one.name for one in nodes}) == len(nodes)
        assert not any(one.master_candidate and not one.master_capable for one in nodes)
        master = cluster.nodes[cluster.cluster.master_node]
        assert master.master_capable
        assert (master.drained, master.offline) == (False, False)
        assert all(cluster.nodes[uuid].vm_capable for one in cluster.instances.values() for uuid in one.nodes)


def test_policies_limits_networks_and_parameters_of_nodes_are_set_and_inherited_again() -> None:
    limits = {"max_inst_spec": [4096, 10240, 4], "default_template": "plain", "max_cpu_ratio": 3, "max_disk_usage": 0.8}
    fields = {"ipolicy": {"vcpu-ratio": 2}, "networks": ["prod", "backup", "prod"], "spindle_count": 8, **limits}
    found = after(parameters.group_modify(CLUSTER, "rack one", fields))
    group = found.group("rack one")
    assert (dict(group.ipolicy), group.networks, group.ndparams) == (
        {"vcpu-ratio": 2.0},
        ("prod", "backup"),
        {"spindle_count": 8},
    )
    assert group.max_inst_spec == (4096, 10240, 4)
    assert (group.default_template, group.max_cpu_ratio, group.max_disk_usage) == ("plain", 3.0, 0.8)
    again = {"ipolicy": {"vcpu-ratio": "default"}, "networks": [], "spindle_count": "default"}
    gone = parameters.group_modify(found, "rack one", {**again, **dict.fromkeys(limits, "default")})
    assert dataclasses.replace(after(gone, found).group("rack one"), serial_no=1, mtime=0.0) == CLUSTER.group(
        "rack one"
    )


def test_a_parameter_of_a_node_stands_over_that_of_its_group_and_its_cluster() -> None:
    found = after(parameters.cluster_modify(CLUSTER, {"cpu_speed": 2, "exclusive_storage": True, "spindle_count": 3}))
    found = after(parameters.group_modify(found, "rack one", {"cpu_speed": 1.5}), found)
    found = after(parameters.node_modify(found, "node2", {"exclusive_storage": False}), found)
    names = ("cpu_speed", "exclusive_storage", "spindle_count")
    assert [clusters.inherited(found, found.node("node2"), name) for name in names] == [1.5, False, 3]
    assert [clusters.inherited(found, found.node("node3"), name) for name in names] == [1.5, True, 3]
    assert clusters.inherited(CLUSTER, CLUSTER.node("node2"), "cpu_speed") is None


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_inst_spec": [1, 2]}, r"max_inst_spec: \[1, 2\] is not memory,disk,vcpus, as in 32768,1048576,8"),
        ({"max_inst_spec": [1, 2, 0]}, "max_inst_spec: "),
        ({"max_inst_spec": "1,2,3"}, "max_inst_spec: "),
        ({"default_template": "tape"}, "default_template: 'tape' is not one of diskless, file, "),
        ({"max_cpu_ratio": 0}, "max_cpu_ratio: 0 is not a number of more than 0"),
        ({"max_disk_usage": 1.1}, "max_disk_usage: 1.1 is not a number of more than 0 and at most 1"),
        ({"exclusive_storage": 1}, "exclusive_storage: 1 is neither true nor false"),
        ({"spindle_count": -1}, "spindle_count: -1 is not a whole number of 0 or more"),
        ({"cpu_speed": 0}, "cpu_speed: 0 is not a number of more than 0"),
        ({"ipolicy": {"std": {"cpu-count": 9}}}, "ipolicy.std: cpu-count=9 is not within 1 and 8"),
    ],
)
def test_what_no_planner_could_calculate_with_is_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidInput, match=named):
        parameters.cluster_modify(CLUSTER, fields)
    with pytest.raises(errors.InvalidInput, match=named):
        parameters.group_modify(CLUSTER, "rack one", fields)
    with pytest.raises(errors.InvalidInput, match=named):
        parameters.group_add(CLUSTER, "g3", {"name": "rack 3", **fields})


def test_networks_are_a_list_of_names() -> None:
    for value, named in (("prod", "networks: 'prod' is no list of names"), (["/"], "networks: '/' is not a name")):
        with pytest.raises(errors.InvalidInput, match=named):
            parameters.group_modify(CLUSTER, "rack one", {"networks": value})


def test_a_rule_about_silent_nodes_is_refused_where_no_agent_is_asked() -> None:
    for fields in ({"dead_after": 5}, {"dead_node_policy": "fence"}):
        with pytest.raises(errors.Refused, match="agent_port is 0, so no agent is asked"):
            parameters.cluster_modify(CLUSTER, fields)
        assert parameters.cluster_modify(CLUSTER, {**fields, "agent_port": 1815})
    asked = after(parameters.cluster_modify(CLUSTER, {"dead_after": 5, "agent_port": 1815}))
    with pytest.raises(errors.Refused, match="dead_after=5 does nothing for node1"):
        parameters.cluster_modify(asked, {"agent_port": 0})
