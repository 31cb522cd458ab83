from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership, tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, instance_runs, registry

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
FIELDS = {"name": "web", "disk_template": "drbd", "disks": [100], "memory": 512}
UNFINISHED = changes.apply(CLUSTER, tagging.Tagged("instance", "i1", clusters.UNFINISHED, present=True), now=1.0)


def made(kind: str, **params: Any) -> Any:
    """An opcode as a job has it: its parameters were JSON."""
    return registry.make(kind, json.loads(json.dumps(params)))


def reserve(*nodes: str, **fields: Any) -> Any:
    return made("instance_reserve", instance="new", nodes=nodes, fields={**FIELDS, **fields})


class Facts:
    """What the daemon knows: the nodes that did not answer."""

    def __init__(self, *silent: str) -> None:
        self._silent = silent

    def is_silent(self, node: str) -> bool:
        return node in self._silent


def stated(one: Any, cluster: clusters.Cluster = CLUSTER, *, silent: tuple[str, ...] = ()) -> list[changes.Change]:
    found: list[changes.Change] = one.changes(cluster, Facts(*silent), since=0.0)
    return found


def with_node(uuid: str, **fields: Any) -> clusters.Cluster:
    return clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes[uuid], **fields))


def test_a_reservation_holds_its_nodes_and_may_be_done_again_after_a_crash() -> None:
    one = reserve("n2", "n3")
    assert one.wants(CLUSTER) == {
        "instance/new": contract.EXCLUSIVE,
        "node/n2": contract.SHARED,
        "node/n3": contract.SHARED,
    }
    after = changes.apply_all(CLUSTER, stated(one), now=2.0)
    assert after.instance("web").nodes == ("n2", "n3")
    assert changes.apply_all(after, stated(one, after), now=3.0) is after
    assert one.result(CLUSTER, []) == ["node2", "node3"]
    assert one.told(CLUSTER, []) == ["web goes to node2 and node3"]


@pytest.mark.parametrize(
    ("one", "cluster", "told"),
    [
        (reserve("n2", "n3", memory=4000), CLUSTER, "node2 has 3584 MiB of memory free, and web needs 4000"),
        (reserve("n2", "n3", disks=[2000]), CLUSTER, "node2 has 970 MiB of disk free"),
        (reserve("n2", "n3"), with_node("n3", offline=True), "node3 is offline: it is not contacted"),
        (reserve("n2", "n3"), with_node("n2", drained=True), "node2 is drained"),
        (reserve("n2", "n3"), with_node("n2", vm_capable=False), "node2 takes no instances"),
    ],
)
def test_what_has_no_room_any_more_is_not_reserved(one: Any, cluster: clusters.Cluster, told: str) -> None:
    with pytest.raises(errors.Refused) as refused:
        stated(one, cluster)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("name", ["n2", "n3"])
def test_nothing_is_made_on_a_node_that_does_not_answer(name: str) -> None:
    with pytest.raises(errors.Refused, match="did not answer when it was last asked"):
        stated(reserve("n2", "n3"), silent=(name,))
    with pytest.raises(errors.Refused, match="did not answer when it was last asked"):
        made("instance_create", instance="i1").check_facts(UNFINISHED, Facts(name))
    made("instance_create", instance="i1").check_facts(UNFINISHED, Facts("n10"))


def test_disks_are_made_on_all_nodes_of_what_is_unfinished() -> None:
    one = made("instance_create", instance="i1", os_playbook="/etc/os.yml")
    assert one.moot(CLUSTER) == "the disks of inst1 are there already"
    assert one.moot(UNFINISHED) == ""
    told = one.variables(UNFINISHED)
    assert [member["name"] for member in told["members"]] == ["node2", "node3"]
    assert (told["os"], told["os_playbook"]) == (True, "/etc/os.yml")
    assert one.hosts(UNFINISHED) == ["n2", "n3"]
    assert one.about() == ()
    told = made("instance_create", instance="i1").variables(UNFINISHED)
    assert not told["os"]
    assert told["os_playbook"].endswith("playbooks/os/none.yml")


def test_what_is_unfinished_does_not_start() -> None:
    with pytest.raises(errors.Refused, match="inst1 is unfinished"):
        instance_runs.Startup("i1").variables(UNFINISHED)


def test_an_instance_is_removed_from_the_nodes_that_are_contacted_of_which_its_primary_is_one() -> None:
    one = made("instance_remove", instance="i1")
    assert one.wants(CLUSTER)["instance/i1"] is contract.EXCLUSIVE
    told = one.variables(with_node("n3", offline=True))
    assert [member["name"] for member in told["members"]] == ["node2"]
    assert (told["unasked"], told["primary_asked"]) == (["node3"], True)
    lost = with_node("n2", offline=True)
    with pytest.raises(errors.Refused, match="node2 is offline"):
        one.variables(lost)
    told = made("instance_remove", instance="i1", ignore_failures=True).variables(lost)
    assert (told["unasked"], told["primary_asked"]) == (["node2"], False)


def test_an_instance_grows_only_where_there_is_room() -> None:
    one = made("instance_modify", instance="i1", fields={"memory": 4096, "vcpus": 2})
    found = changes.apply_all(CLUSTER, stated(one), now=2.0).instance("i1")
    assert (found.memory, found.vcpus) == (4096, 2)
    assert sorted(one.result(CLUSTER, stated(one))) == [["memory", 4096], ["vcpus", 2]]
    larger = made("instance_modify", instance="i1", fields={"memory": 4097})
    with pytest.raises(errors.Refused, match="node2 has 3584 MiB of memory free, and inst1 would need 3585 more"):
        stated(larger)
    down = changes.apply(CLUSTER, changes.InstanceState("i1", "down"), now=1.0)
    assert changes.apply_all(down, stated(larger, down), now=2.0).instance("i1").memory == 4097


def test_an_adoption_adds_what_is_not_there_and_leaves_what_is() -> None:
    uuid = "11111111-1111-1111-1111-111111111111"
    other = dataclasses.replace(CLUSTER.instances["i1"], uuid=uuid, name="other", primary_node="n9", secondary_nodes=())
    known = dataclasses.replace(CLUSTER.instances["i1"], memory=9)
    fields = {"name": "node9", "group": "other", "primary_ip": "192.0.2.9"}
    nodes = [["n9", fields], ["n2", {"name": "node2"}]]
    one = made("cluster_adopt", nodes=nodes, instances=[dataclasses.asdict(each) for each in (other, known)])
    found = changes.apply_all(CLUSTER, stated(one), now=2.0)
    assert (found.node("node9").primary_ip, found.instance("other").primary_node) == ("192.0.2.9", "n9")
    assert found.instance("inst1") == CLUSTER.instance("inst1")
    assert one.told(CLUSTER, stated(one)) == ["1 node and 1 instance more on record"]
    assert isinstance(stated(one)[-1], membership.InstanceStands)
    assert stated(one, found) == []
