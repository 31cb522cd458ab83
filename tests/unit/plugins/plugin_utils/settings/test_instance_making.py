from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas, membership
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import instance_making

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
WEB = {"name": "web", "disk_template": "drbd", "disks": [100, 200], "memory": 512}


def after(stated: list[changes.Change], cluster: clusters.Cluster = CLUSTER) -> clusters.Cluster:
    return changes.apply_all(cluster, stated, now=99.0)


def reserved(cluster: clusters.Cluster, uuid: str, *nodes: str, **fields: Any) -> clusters.Cluster:
    draft = instance_making.draft(cluster, uuid, {**WEB, "name": uuid, **fields})
    return after(instance_making.reserve(cluster, draft, nodes), cluster)


def test_a_new_instance_is_down_and_unfinished_and_keeps_its_memory() -> None:
    one = reserved(CLUSTER, "i2", "n1", "n2").instance("i2")
    assert (one.admin_state, one.is_unfinished, one.takes_memory) == ("down", True, True)
    assert (one.primary_node, one.secondary_nodes, one.hypervisor) == ("n1", ("n2",), "kvm")
    made = after([membership.InstanceMade("i2")], reserved(CLUSTER, "i2", "n1", "n2", tags=["a"])).instance("i2")
    assert (made.tags, made.takes_memory) == (("a",), False)


def test_each_drbd_device_of_the_cluster_has_a_minor_of_its_own_the_lowest_free() -> None:
    found = reserved(reserved(CLUSTER, "i2", "n1", "n2"), "i3", "n3", "n10", disks=[1])
    assert [disk.minor for uuid in ("i2", "i3") for disk in found.instance(uuid).disks] == [0, 1, 2]
    found = reserved(after([membership.InstanceGone("i2")], found), "i4", "n1", "n2", disks=[1, 1, 1])
    assert [disk.minor for disk in found.instance("i4").disks] == [0, 1, 3]
    left = after([left_replicas.ReplicaLeft("i3", "n10", present=True), membership.InstanceGone("i3")], found)
    later = reserved(left, "i5", "n1", "n2", disks=[1, 1])
    assert [disk.minor for disk in later.instance("i5").disks] == [4, 5], "what i3 left on n10 may be up there"
    removed = after([left_replicas.ReplicaLeft("i3", "n10", present=False)], left)
    assert [disk.minor for disk in reserved(removed, "i5", "n1", "n2", disks=[1]).instance("i5").disks] == [2]
    plain = reserved(CLUSTER, "i5", "n1", disk_template="plain")
    assert [disk.minor for disk in plain.instance("i5").disks] == [None, None]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": "inst1"}, "name: there is an instance 'inst1' already"),
        ({"name": ".x"}, "name: '.x' is no name of an instance"),
        ({"name": "x" * 101}, "name: the name has 101 characters: use at most 100"),
        ({"colour": 1}, "there is no parameter 'colour' here"),
        ({"memory": None}, "memory: None is not a whole number"),
        ({"disk_template": "ext"}, "disk_template: 'ext' is not one of"),
        ({"disk_template": "diskless"}, "disks: an instance has none when it is diskless"),
        ({"disks": []}, "disks: an instance has some when it is drbd"),
        ({"disks": [0]}, "disks: 0 is not a whole number"),
        ({"disks": [1] * 17}, "disks: "),
        ({"nics": "x"}, "nics: 'x' is no list"),
        ({"nics": [{"ip": "x"}]}, "nics/0: "),
        ({"nics": [{"link": "a b"}]}, "nics/0/link: 'a b' is not the name of a bridge"),
        ({"nics": [{"mac": "5254"}]}, "nics/0/mac: '5254' is not a MAC address"),
        ({"hvparams": {"x": "{{ lookup('pipe', 'id') }}"}}, "hvparams.x: it looks like a template"),
        ({"hvparams": {"X y": "1"}}, "hvparams: 'X y' is no name of a parameter"),
        ({"hvparams": {"vnc": 5}}, "hvparams.vnc: 5 is no text"),
        ({"hvparams": {"colour": "red"}}, "hvparams: kvm has no parameter 'colour'"),
        ({"tags": ["a b"]}, "'a b' is no tag"),
        ({"hypervisor": "xen"}, "hypervisor: 'xen' is not one of"),
    ],
)
def test_what_cannot_be_made_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        instance_making.draft(CLUSTER, "i9", {**WEB, **fields})
    assert str(refused.value).startswith(told)


def test_an_address_of_an_interface_is_there_once() -> None:
    found = reserved(CLUSTER, "i2", "n1", "n2", nics=[{"mac": "52:54:00:00:00:01", "link": "br0", "network": "prod"}])
    assert found.instance("i2").nics == (clusters.Nic("prod", "52:54:00:00:00:01", "br0"),)
    with pytest.raises(errors.InvalidInput, match="nics: i2 has the address 52:54:00:00:00:01 already"):
        reserved(found, "i3", "n1", "n2", nics=[{"mac": "52:54:00:00:00:01"}])


@pytest.mark.parametrize("nodes", [(), ("n1",), ("n1", "n1"), ("n1", "n2", "n3")])
def test_a_pair_has_two_nodes(nodes: tuple[str, ...]) -> None:
    with pytest.raises(errors.InvalidInput, match="nodes: an instance with the disk template drbd has 2"):
        reserved(CLUSTER, "i2", *nodes)


def test_parameters_change_one_by_one_and_those_of_the_hypervisor_can_be_given_back() -> None:
    found = after(instance_making.modify(CLUSTER, "inst1", {"memory": 1024, "hvparams": {"vnc": "::1", "cpu": "max"}}))
    assert (found.instance("inst1").memory, found.instance("inst1").hvparams) == (1024, {"vnc": "::1", "cpu": "max"})
    found = after(instance_making.modify(found, "inst1", {"hvparams": {"vnc": None}}), found)
    assert found.instance("inst1").hvparams == {"cpu": "max"}
    for fields in ({"disk_template": "plain"}, {"vcpus": 0}, {"hvparams": {"colour": "x"}}):
        with pytest.raises(errors.InvalidInput):
            instance_making.modify(CLUSTER, "inst1", fields)


UUID = "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("template", "values", "told"),
    [
        ("drbd", {"uuid": "{{ x }}"}, "uuid: '{{ x }}' is not a UUID"),
        ("drbd", {"uuid": UUID.upper().replace("1", "A")}, "uuid: 'AAAA"),
        ("drbd", {"name": "-x"}, "name: '-x' is no name of an instance"),
        ("drbd", {"disks": (clusters.Disk(1, name="a b"),)}, "disks/0/name: 'a b' is not the name of a DRBD resource"),
        ("drbd", {"disks": (clusters.Disk(1, name="-x"),)}, "disks/0/name: '-x' is not the name of a DRBD resource"),
        ("drbd", {"disks": (clusters.Disk(1, name="r0", minor=-1),)}, "disks/0/minor: -1 is not a whole number"),
        ("plain", {"disks": (clusters.Disk(1, name="vg/{{x}}"),)}, "disks/0/name: 'vg/{{x}}' is not a logical volume"),
        ("plain", {"disks": (clusters.Disk(1, name="vg/-x"),)}, "disks/0/name: 'vg/-x' is not a logical volume"),
        ("plain", {"disks": (clusters.Disk(1, name="-vg/x"),)}, "disks/0/name: '-vg/x' is not a logical volume"),
        ("file", {"disks": (clusters.Disk(1, name="/d/{{ x }}.img"),)}, "disks/0/name: '/d/{{ x }}.img' is not an abs"),
        ("file", {"disks": (clusters.Disk(1, name="/d/../etc/shadow"),)}, "disks/0/name: '/d/../etc/shadow' is not"),
        ("file", {"disks": (clusters.Disk(1, name="/d/a\nb"),)}, "disks/0/name: "),
        ("file", {"disks": (clusters.Disk(1, name="d.img"),)}, "disks/0/name: 'd.img' is not an absolute path"),
        ("sharedfile", {"disks": (clusters.Disk(1, name="/d/$(id)"),)}, "disks/0/name: '/d/$(id)' is not an absolute"),
        ("drbd", {"nics": (clusters.Nic(link="{{ x }}"),)}, "nics/0/link: '{{ x }}' is not the name of a bridge"),
        ("drbd", {"nics": (clusters.Nic(mac="x"),)}, "nics/0/mac: 'x' is not a MAC address"),
        ("drbd", {"memory": 0}, "memory: 0 is not a whole number"),
        ("drbd", {"hvparams": {"migration_seconds": "1"}}, "hvparams: kvm has no parameter 'migration_seconds'"),
        ("drbd", {"hypervisor": "xen"}, "hypervisor: 'xen' is not one of"),
        ("rbd", {}, "disk_template: 'rbd' is not one of"),
    ],
)
def test_an_adopted_instance_keeps_the_rules_of_a_typed_one(template: str, values: dict[str, Any], told: str) -> None:
    known = dataclasses.replace(CLUSTER.instances["i1"], hypervisor="kvm", uuid=UUID, name="other", hvparams={})
    one = dataclasses.replace(known, **{"disk_template": template, "disks": (clusters.Disk(1),), **values})
    with pytest.raises(errors.InvalidInput, match=re.escape(told)):
        instance_making.adopt(CLUSTER, one)


def test_an_instance_that_was_there_is_put_on_record_once() -> None:
    one = dataclasses.replace(CLUSTER.instances["i1"], uuid=UUID, name="other")
    found = after(instance_making.adopt(CLUSTER, one))
    assert found.instance("other").memory == 512
    for again in (one, dataclasses.replace(one, name="third"), dataclasses.replace(one, uuid=UUID.replace("1", "2"))):
        with pytest.raises(errors.InvalidInput, match="already"):
            instance_making.adopt(found, again)


def test_an_instance_that_is_gone_leaves_nothing() -> None:
    found = after([membership.InstanceGone("i1")])
    assert found.instances == {}
    assert after([membership.InstanceGone("i1")], found) is found
    with pytest.raises(errors.NotFound, match="there is no node with the UUID 'n9'"):
        after([membership.InstanceStands(dataclasses.replace(CLUSTER.instances["i1"], primary_node="n9"))])


def test_the_hypervisor_of_a_new_instance_is_that_of_the_others() -> None:
    fake = dataclasses.replace(CLUSTER.instances["i1"], hypervisor="fake")
    assert instance_making.usual_hypervisor(clusters.with_instance(CLUSTER, fake)) == "fake"
    assert instance_making.usual_hypervisor(dataclasses.replace(CLUSTER, instances={})) == "kvm"
