from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import cluster_init, name_resolution, parameters
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon.cli import canned

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.daemon.cli.conftest import Run
    from tests.unit.daemon.cli.stand_in import StandIn

DONE = canned.job(20, "cluster_modify", {"fields": {"paused": "x"}}, status=values.Status.SUCCESS)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (
            ["a=1", "b=0.5", "c=yes", "d=False", "e=text", "f="],
            {"a": 1, "b": 0.5, "c": True, "d": False, "e": "text", "f": ""},
        ),
        (["name=a=b"], {"name": "a=b"}),
        (["hostvars.ansible_user=root", "hostvars.port=22"], {"hostvars": {"ansible_user": "root", "port": "22"}}),
        (["failover_max_loss=6m"], {"failover_max_loss": 360}),
        (["failover_max_loss=default"], {"failover_max_loss": "default"}),
        (["oob_program=!", "x=[1]"], {"oob_program": "!", "x": "[1]"}),
    ],
)
def test_parameters_are_read_as_flags_numbers_and_texts(given: list[str], read: dict[str, Any]) -> None:
    assert parameters.read(given) == read


@pytest.mark.parametrize("given", ["word", "=value"])
def test_what_has_no_name_and_value_is_refused(given: str) -> None:
    with pytest.raises(errors.InvalidInput, match="write NAME=VALUE"):
        parameters.read([given])


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (("cluster", "modify", "round_interval=60"), ("PUT", "/2/modify", {"round_interval": 60})),
        (
            ("group", "add", "rack2", "alloc_policy=preferred"),
            ("POST", "/2/groups", {"name": "rack2", "alloc_policy": "preferred"}),
        ),
        (("group", "modify", "rack2", "oob_program=!"), ("PUT", "/2/groups/rack2/modify", {"oob_program": "!"})),
        (("group", "remove", "rack2"), ("DELETE", "/2/groups/rack2", None)),
        (
            ("node", "add", "node9", "primary_ip=192.0.2.9", "-g", "b", "--secondary-ip", "10.0.0.9"),
            (
                "POST",
                "/2/nodes",
                {"name": "node9", "primary_ip": "192.0.2.9", "group": "b", "secondary_ip": "10.0.0.9"},
            ),
        ),
        (
            ("node", "add", "node3", "primary_ip=192.0.2.3", "--readd"),
            ("POST", "/2/nodes", {"name": "node3", "primary_ip": "192.0.2.3", "readd": True}),
        ),
        (("node", "modify", "node3", "vm_capable=no"), ("POST", "/2/nodes/node3/modify", {"vm_capable": False})),
        (("node", "modify", "node3", "--powered", "no"), ("POST", "/2/nodes/node3/modify", {"powered": False})),
        (
            ("node", "modify", "node3", "a=1", "--powered", "yes"),
            ("POST", "/2/nodes/node3/modify", {"a": 1, "powered": True}),
        ),
        (("node", "remove", "node3", "--yes"), ("DELETE", "/2/nodes/node3", None)),
    ],
)
def test_a_command_asks_the_daemon_and_waits_for_its_job(
    daemon: StandIn, roundsman: Run, command: tuple[str, ...], asked: tuple[str, str, Any]
) -> None:
    daemon.put(asked[0], asked[1], 20)
    daemon.put("GET", "/2/jobs/20/wait", DONE)
    code, _, err = roundsman(*command)
    assert (code, err) == (0, "")
    assert daemon.requests[0] == asked


def test_the_name_of_a_new_node_is_resolved_in_the_version_of_its_cluster(
    daemon: StandIn, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_resolution, "address_of", lambda _name, *, version: "2001:db8::9" if version == 6 else "")
    daemon.put("POST", "/2/nodes", 20)
    daemon.put("GET", "/2/jobs/20/wait", DONE)
    for version, added in ((6, {"primary_ip": "2001:db8::9"}), (4, {})):
        daemon.put("GET", "/2/info", {"primary_ip_version": version})
        assert roundsman("node", "add", "node9", "mtotal=5")[0] == 0
        assert daemon.asked("POST")[-1] == ("/2/nodes", {"name": "node9", "mtotal": 5, **added})


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("nothing to change", "Job 20: modify cluster: paused=x: success (nothing to change)\n"),
        ("paused:  → x", "Job 20: modify cluster: paused=x: success (paused:  → x)\n"),
        (
            "dry run, nothing is changed\na: 1 → 2\nb: 3 → 4",
            "Job 20: modify cluster: paused=x: success\n  dry run, nothing is changed\n  a: 1 → 2\n  b: 3 → 4\n",
        ),
    ],
)
def test_what_is_different_is_told_each_parameter_on_its_line(
    daemon: StandIn, roundsman: Run, text: str, out: str
) -> None:
    fields = {"fields": {"paused": "x"}}
    daemon.put("PUT", "/2/modify", 20)
    daemon.put(
        "GET", "/2/jobs/20/wait", canned.job(20, "cluster_modify", fields, status=values.Status.SUCCESS, text=text)
    )
    assert roundsman("cluster", "modify", "paused=x", "--dry-run") == (0, out, "")
    assert daemon.queries[0] == "dry-run=1"


def test_a_cluster_is_made_once_with_its_key_and_its_nodes(
    tmp_path: Path, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path))
    code, out, err = roundsman("cluster", "init", "one", "--node", "a:192.0.2.1", "--node", "b")
    assert (code, err) == (0, "")
    assert "2 nodes" in out
    where = tree.Tree(tmp_path)
    found = store.read(where.config)
    assert (found.cluster.cluster_name, [one.name for one in found.nodes.values()]) == ("one", ["a", "b"])
    assert found.nodes[found.cluster.master_node].primary_ip == "192.0.2.1"
    assert all(one.master_candidate for one in found.nodes.values())
    assert (len(where.hmac_key.read_bytes()), where.hmac_key.stat().st_mode & 0o777) == (41, 0o400)
    line, *used = where.audit_log.read_text().splitlines()
    assert 'text="cluster init one"' in line
    assert any("new: primary_ip 192.0.2.1: node a" in each for each in used)
    key = where.hmac_key.read_bytes()
    code, _, err = roundsman("cluster", "init", "two", "--node", "c")
    assert (code, where.hmac_key.read_bytes()) == (1, key)
    assert "there is a cluster here already" in err


@pytest.mark.parametrize(
    ("name", "nodes", "told"),
    [
        ("one", ["a", "a"], "there is a node 'a' already"),
        ("one", ["a:nowhere"], "primary_ip: 'nowhere' is no IP address"),
        ("a/b", ["a"], "cluster_name: 'a/b' is not a name"),
    ],
)
def test_a_cluster_that_cannot_be_is_not_made(name: str, nodes: list[str], told: str) -> None:
    with pytest.raises(errors.InvalidInput, match=told):
        cluster_init.made(name, nodes, now=1.0)


def test_nodes_have_addresses_of_the_sixth_version_and_secondary_ones_of_the_fourth() -> None:
    found = cluster_init.made("one", ["a:2001:db8::1,10.0.0.1", "b:2001:db8::2,10.0.0.2"], version=6, now=1.0)
    assert isinstance(found, clusters.Cluster)
    node = found.node("a")
    assert (node.primary_ip, node.secondary_ip, found.cluster.primary_ip_version) == ("2001:db8::1", "10.0.0.1", 6)
    with pytest.raises(errors.InvalidInput, match="secondary_ip: where primary addresses are IPv6"):
        cluster_init.made("one", ["a:2001:db8::1"], version=6, now=1.0)


def test_a_name_without_an_address_is_resolved_in_the_version_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {("a", 4): "192.0.2.1", ("b", 4): "", ("a", 6): "2001:db8::1"}
    monkeypatch.setattr(name_resolution, "address_of", lambda name, *, version: known.get((name, version), ""))
    found = cluster_init.made("one", ["a", "b"], now=1.0)
    assert [one.primary_ip for one in found.nodes.values()] == ["192.0.2.1", ""]
    found = cluster_init.made("one", ["a,10.0.0.1"], version=6, now=1.0)
    assert found.node("a").primary_ip == "2001:db8::1"
    with pytest.raises(errors.InvalidInput, match="primary_ip: where primary addresses are IPv6"):
        cluster_init.made("one", ["b,10.0.0.1"], version=6, now=1.0)


def test_a_cluster_is_made_with_parameters_and_a_secondary_address_of_its_master(
    tmp_path: Path, roundsman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path))
    words = ("one", "vg_name=xenvg", "--node", "a:192.0.2.1", "--secondary-ip", "10.0.0.1")
    code, _, err = roundsman("cluster", "init", *words)
    assert (code, err) == (0, "")
    found = store.read(tree.Tree(tmp_path).config)
    assert (found.cluster.vg_name, found.node("a").secondary_ip) == ("xenvg", "10.0.0.1")


def test_the_power_of_record_is_given_once(daemon: StandIn, roundsman: Run) -> None:
    code, _, err = roundsman("node", "modify", "node3", "powered=no", "--powered", "no")
    assert (code, err) == (1, "roundsman: --powered and powered=… are the same: give one of them\n")


SIZES = "memory-size=1,cpu-count=2"
SAME = {"memory-size": 1, "cpu-count": 2}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["ipolicy.vcpu-ratio=4", f"ipolicy.std={SIZES}"], {"ipolicy": {"vcpu-ratio": 4, "std": SAME}}),
        (["ipolicy.std=default", "ipolicy.minmax=default"], {"ipolicy": {"std": "default", "minmax": "default"}}),
        (
            [f"ipolicy.minmax=min:{SIZES}/max:{SIZES}//min:{SIZES}/max:{SIZES}"],
            {"ipolicy": {"minmax": [{"min": SAME, "max": SAME}] * 2}},
        ),
        (["ipolicy.disk-templates=drbd,plain"], {"ipolicy": {"disk-templates": ["drbd", "plain"]}}),
        (["max_inst_spec=32768,1048576,8"], {"max_inst_spec": [32768, 1048576, 8]}),
        (["max_inst_spec=default"], {"max_inst_spec": "default"}),
        (["networks=prod,backup"], {"networks": ["prod", "backup"]}),
        (["networks="], {"networks": []}),
    ],
)
def test_parameters_of_several_parts_are_read_as_such(given: list[str], read: dict[str, Any]) -> None:
    assert parameters.read(given) == read


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("ipolicy.std=1024", "ipolicy.std: '1024' is not NAME=NUMBER, as in memory-size=1024,cpu-count=2"),
        ("ipolicy.minmax=memory-size=1", "ipolicy.minmax: 'memory-size=1' is not of the form min:SIZES/max:SIZES"),
        ("ipolicy.minmax=min:a", "ipolicy.minmax.min: 'a' is not NAME=NUMBER"),
        ("max_inst_spec=1,2,x", "max_inst_spec: '1,2,x' is no list of whole numbers, such as 32768,1048576,8"),
    ],
)
def test_parts_that_cannot_be_read_are_told_with_what_was_expected(given: str, told: str) -> None:
    with pytest.raises(errors.InvalidInput, match=told):
        parameters.read([given])


def test_the_bounds_of_a_policy_are_shown_as_they_are_given(daemon: StandIn, roundsman: Run) -> None:
    text = "min:memory-size=1,cpu-count=2/max:memory-size=3,cpu-count=4"
    bounds = parameters.read([f"ipolicy.minmax={text}//{text}"])
    daemon.put("GET", "/2/groups/b", bounds)
    assert roundsman("group", "info", "b")[1].replace("\n", "").split() == ["ipolicy.minmax", f"{text}//{text}"]
