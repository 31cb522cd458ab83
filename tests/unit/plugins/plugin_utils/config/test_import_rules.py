from __future__ import annotations

import copy
import dataclasses
import json
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import building
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.adoption import adoption
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import epo, incidents, job_filters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, import_rules, store

from tests.unit import small_cluster
from tests.unit.plugins.plugin_utils.adoption import hosts
from tests.unit.small_cluster import uid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Edit = Callable[[dict[str, Any]], object]


NODE, OTHER, INSTANCE, GROUP, FILTER = map(uid, ("node", "other", "instance", "group", "filter"))
INCIDENT = incidents.note(diagnosis.parse(small_cluster.SAID), node=NODE, uuid=uid("incident"), now=50.0)


def rich() -> clusters.Cluster:
    """A cluster in which every field that an import looks at is set, with names as Ganeti's clusters have them."""
    disk = clusters.Disk(10240, minor=3, name="web.example.com")
    nic = clusters.Nic(mac="52:54:00:12:34:56", link="br0", network="prod net")
    instance = clusters.Instance(
        INSTANCE,
        "web.example.com",
        NODE,
        (OTHER,),
        disks=(disk,),
        nics=(nic,),
        memory=2048,
        hvparams={"domain_xml": "<domain type='kvm'/>", "serial_log": "/var/log/guests/web.log", "vnc": "127.0.0.1"},
        parted=replicas.Parted(5.0, 4.0, NODE, ("0123456789abcdef", "")),
        tags=("htools:iextags:web", clusters.UNFINISHED),
    )
    filters = {
        FILTER: job_filters.make({"action": ["RATE_LIMIT", 2]}, uuid=FILTER, watermark=4, reason=(("gnt", "why", 1),))
    }
    nodes = [
        clusters.Node(
            NODE,
            "node1.example.com",
            GROUP,
            primary_ip="192.0.2.1",
            secondary_ip="198.51.100.1",
            mtotal=4096,
            ndparams={"oob_program": "/usr/sbin/oob", "cpu_speed": 1.5, "spindle_count": 2},
            hostvars={"ansible_user": "ops", "ansible_port": "2222"},
            tags=("rack:1", f"maintd:repairready:{INCIDENT.uuid}"),
        ),
        clusters.Node(OTHER, "node2.example.com", GROUP, primary_ip="192.0.2.2", secondary_ip="198.51.100.2"),
    ]
    left = clusters.LeftBehind(OTHER, dataclasses.replace(instance, parted=None), 7.0, generations=("0" * 16,))
    return clusters.Cluster(
        clusters.Parameters("cluster.example.com", uid("cluster"), NODE, ipolicy={"vcpu-ratio": 4.0}, tags=("prod",)),
        {GROUP: clusters.Group(GROUP, "default", networks=("prod net",), max_inst_spec=(1024, 1024, 1))},
        {node.uuid: node for node in nodes},
        {INSTANCE: instance},
        clusters.Maintenance(
            incidents=(INCIDENT,), round=3, jobs=(7,), epo=epo.Epo((NODE,), (INSTANCE,), "root"), left_behind=(left,)
        ),
        filters,
        serial_no=5,
    )


def put(*path: Any) -> Edit:
    """Set the value at the end of a path in a document."""

    def edit(raw: dict[str, Any]) -> None:
        place: Any = raw
        for step in path[:-2]:
            place = place[step]
        place[path[-2]] = path[-1]

    return edit


cluster, settings = partial(put, "cluster"), partial(put, "maintenance", "settings")
group, node, instance = (
    partial(put, "nodegroups", GROUP),
    partial(put, "nodes", NODE),
    partial(put, "instances", INSTANCE),
)
maintenance = partial(put, "maintenance")


def renamed(old: str, new: str) -> Edit:
    """Give an object another UUID, wherever it stands."""

    def edit(raw: dict[str, Any]) -> None:
        whole = json.loads(json.dumps(raw).replace(old, json.dumps(new)[1:-1]))
        raw.clear()
        raw.update(whole)

    return edit


ACCEPTED_BEFORE: dict[str, tuple[Edit, str]] = {
    **{
        f"node name {name[:12]!r}": (node("name", name), "node .*: name: ")
        for name in (
            *("../../x", "localhost", "all", "a\x1b[31m", "a\nb", "{{1}}", "-oProxyCommand=x", "", "x" * 5000),
            *("a b; touch x", "roundsman:!x", "~.*", "a/b", "roundsman_nodes", "Offline", "group_a", "role_master"),
        )
    },
    **{
        f"instance name {name!r}": (instance("name", name), "instance .*: name: ")
        for name in ("../../x", "a\x1b[31m", "-x", "a/b", "{{1}}", "x' onx='", "", "x" * 101)
    },
    **{
        f"group name {name!r}": (group("name", name), "node group .*: name: ")
        for name in ("x {{1}}\n", "", "-x", "../x")
    },
    **{
        f"{kind} uuid {new!r}": (renamed(old, new), f"{kind} .*: uuid: ")
        for kind, old in (("node", OTHER), ("instance", INSTANCE), ("node group", GROUP))
        for new in ("..__..__x", "../../../x", "a\nb", "")
    },
    "uuid of a filter": (renamed(FILTER, "../x"), "filter .*: uuid: "),
    "uuid of an incident": (renamed(INCIDENT.uuid, "../x"), "incident .*: uuid: "),
    "uuid of the cluster": (cluster("uuid", "../x"), "the cluster: uuid: "),
    "cluster name": (cluster("cluster_name", "\x1b[31m"), "the cluster: cluster_name: "),
    **{
        f"volume group {name!r}": (cluster("vg_name", name), "the cluster: vg_name: ")
        for name in ("--help", ".", "..", "../x")
    },
    "file folder": (cluster("file_storage_dir", "{{1}}"), "the cluster: file_storage_dir: "),
    "shared folder": (cluster("shared_file_storage_dir", "relative"), "the cluster: shared_file_storage_dir: "),
    "allocator": (cluster("default_iallocator", "../../../tmp/x"), "the cluster: default_iallocator: "),
    "running jobs": (cluster("max_running_jobs", 10**9), "the cluster: max_running_jobs: "),
    "negative jobs": (cluster("max_running_jobs", -5), "the cluster: max_running_jobs: "),
    "pool": (cluster("candidate_pool_size", 0), "the cluster: candidate_pool_size: "),
    "ip version": (cluster("primary_ip_version", 5), "the cluster: primary_ip_version: "),
    "tag of the cluster": (cluster("tags", ["a b"]), "the cluster: tags: "),
    "standard size": (cluster("ipolicy", {"std": {"memory-size": 2**40}}), "the cluster: ipolicy.std: "),
    "helper program of the cluster": (cluster("ndparams", {"oob_program": "x"}), "the cluster: ndparams.oob_program: "),
    "serial number": (put("serial_no", 2**62), "the cluster: serial_no: "),
    "time": (put("mtime", -1e300), "the cluster: mtime: "),
    "policy of a group": (group("alloc_policy", "never"), "node group default: alloc_policy: "),
    "network": (group("networks", ["a\nb"]), "node group default: networks: "),
    "tag of a group": (group("tags", ["{{1}}"]), "node group default: tags: "),
    "helper program": (
        node("ndparams", {"oob_program": "relative {{x}}"}),
        "node1.example.com: ndparams.oob_program: ",
    ),
    "helper program, line": (node("ndparams", {"oob_program": "/a\nb"}), "node1.example.com: ndparams.oob_program: "),
    "unknown parameter": (node("ndparams", {"x": "y"}), "node1.example.com: ndparams: "),
    "connection": (
        node("hostvars", {"ansible_connection": "local"}),
        "node1.example.com: hostvars.ansible_connection: ",
    ),
    "options of SSH": (
        node("hostvars", {"ansible_ssh_common_args": "-oProxyCommand=id"}),
        "node1.*: hostvars.ansible_ssh",
    ),
    "host": (node("hostvars", {"ansible_host": "-oProxyCommand=id"}), "node1.example.com: hostvars.ansible_host"),
    "port": (node("hostvars", {"ansible_port": "99999999"}), "node1.example.com: hostvars.ansible_port"),
    "address": (node("primary_ip", "-oProxyCommand=id"), "node1.example.com: primary_ip: "),
    "address, lines": (node("primary_ip", "192.0.2.1\nansible_x"), "node1.example.com: primary_ip: "),
    "address of two": (node("primary_ip", "192.0.2.2"), "node2.example.com: primary_ip: .* another node"),
    "host of two": (
        node("hostvars", {"ansible_host": "192.0.2.2"}),
        "node1.example.com: hostvars.ansible_host: SSH reaches node2.example.com at 192.0.2.2, port 22, too",
    ),
    "address, family": (node("primary_ip", "2001:db8::1"), "node1.example.com: primary_ip: .* IPv4"),
    "replication address": (node("secondary_ip", "x"), "node1.example.com: secondary_ip: "),
    "memory of a node": (node("mtotal", -1), "node1.example.com: mtotal: "),
    "disk of a node": (node("dtotal", 2**60), "node1.example.com: dtotal: "),
    "CPUs of a node": (node("ctotal", -8), "node1.example.com: ctotal: "),
    "off since": (node("off_since", -1), "node1.example.com: off_since: "),
    "tags of a node": (node("tags", ["a\nb\x1b[31m", "{{1}}"]), "node1.example.com: tags: "),
    "hypervisor": (instance("hypervisor", "../x"), "web.example.com: hypervisor: "),
    "template": (instance("disk_template", "../x"), "web.example.com: disk_template: "),
    "state": (instance("admin_state", "sideways"), "web.example.com: admin_state: "),
    "memory": (instance("memory", -5), "web.example.com: memory: "),
    "CPUs": (instance("vcpus", 0), "web.example.com: vcpus: "),
    "spindles": (instance("spindle_use", -1), "web.example.com: spindle_use: "),
    "two replicas on a node": (instance("secondary_nodes", [NODE]), "web.example.com: secondary_nodes: "),
    "disk name": (instance("disks", [{"size": 1, "name": "../../../etc/passwd"}]), "web.example.com: disks/0/name: "),
    "disk size": (instance("disks", [{"size": -1}]), "web.example.com: disks/0/size: "),
    "minor": (instance("disks", [{"size": 1, "minor": 2**30}]), "web.example.com: disks/0/minor: "),
    "spindles of a disk": (instance("disks", [{"size": 1, "spindles": -1}]), "web.example.com: disks/0/spindles: "),
    "many disks": (instance("disks", [{"size": 1}] * 65), "web.example.com: disks: "),
    "MAC address": (instance("nics", [{"mac": "'"}]), "web.example.com: nics/0/mac: "),
    "bridge": (instance("nics", [{"link": "'><evil/>"}]), "web.example.com: nics/0/link: "),
    "network of an interface": (instance("nics", [{"network": "x'/>"}]), "web.example.com: nics/0/network: "),
    "unknown hvparam": (instance("hvparams", {"zzz": "x"}), "web.example.com: hvparams: "),
    "template in a definition": (
        instance("hvparams", {"domain_xml": "{{ x }}"}),
        "web.example.com: hvparams.domain_xml: ",
    ),
    "serial log": (instance("hvparams", {"serial_log": "relative"}), "web.example.com: hvparams.serial_log: "),
    "transport": (
        instance("hvparams", {"migration_transport": "x"}),
        "web.example.com: hvparams.migration_transport: ",
    ),
    "screen": (instance("hvparams", {"vnc": "0.0.0.0,tls"}), "web.example.com: hvparams.vnc: "),
    "tag of an instance": (instance("tags", ["a" * 129]), "web.example.com: tags: "),
    "parted": (instance("parted", "node", "../x"), "web.example.com: parted/node: "),
    "generation": (instance("parted", "generations", ["x"]), "web.example.com: parted/generations: "),
    "diagnose command": (settings("diagnose_command", "../../x; id"), "the settings: diagnose_command: "),
    "text of a pause": (settings("paused", "\x1b]0;x\x07\n forged"), "the settings: paused: "),
    "port of the agents": (settings("agent_port", 99999999), "the settings: agent_port: "),
    "interval": (settings("round_interval", -1), "the settings: round_interval: "),
    "interval of the poll": (settings("diagnose_interval", 1e300), "the settings: diagnose_interval: "),
    "share": (settings("storm_fraction", 7), "the settings: storm_fraction: "),
    "policy for dead nodes": (settings("dead_node_policy", "burn"), "the settings: dead_node_policy: "),
    "moves": (settings("moves_per_node", 0), "the settings: moves_per_node: "),
    "round": (maintenance("round", 2**60), "maintenance: round: "),
    "jobs of the round": (maintenance("jobs", [10**12]), "maintenance: jobs: "),
    "jobs of an incident": (maintenance("incidents", 0, "jobs", [-1]), "incident .*: jobs: "),
    "tag of an incident": (maintenance("incidents", 0, "tag", "a\nb"), "incident .*: tags: "),
    "node of an incident": (maintenance("incidents", 0, "node", "../x"), "incident .*: node: "),
    "left behind": (maintenance("left_behind", 0, "node", "../x"), "left_behind of web.example.com: node: "),
    "name of what is left": (maintenance("left_behind", 0, "instance", "name", "../x"), "left_behind of ../x: name: "),
    "off by": (maintenance("epo", "by", "a\nb"), "maintenance/epo: by: "),
    "nodes that are off": (maintenance("epo", "nodes", ["../x"]), "maintenance/epo: nodes: "),
    "predicate": (put("filters", FILTER, "predicates", [["opcode", ["?", "x", "("]]]), "filter .*: filter: predicates"),
    "watermark": (put("filters", FILTER, "watermark", 10**15), "filter .*: watermark: "),
}


def edited(edit: Edit) -> bytes:
    raw = json.loads(document.dump(rich()))
    edit(raw)
    return json.dumps(raw).encode()


@pytest.mark.parametrize(("edit", "text"), ACCEPTED_BEFORE.values(), ids=ACCEPTED_BEFORE)
def test_an_import_refuses_what_could_not_be_set_and_a_start_does_not(edit: Edit, text: str) -> None:
    document.load(edited(edit))
    with pytest.raises(errors.InvalidInput, match=text) as refused:
        import_rules.load(edited(edit), is_lab=True)
    assert str(refused.value).replace("\n", "").isprintable()
    assert len(str(refused.value)) < 2000


def test_a_refusal_lists_all_findings_up_to_a_bound() -> None:
    raw = json.loads(document.dump(rich()))
    one = raw["instances"][INSTANCE]
    for number in range(50):
        raw["instances"][uid(str(number))] = {**copy.deepcopy(one), "uuid": uid(str(number)), "name": f"-{number}"}
    with pytest.raises(errors.InvalidInput) as refused:
        import_rules.load(json.dumps(raw).encode(), is_lab=True)
    lines = str(refused.value).splitlines()
    assert len(lines) == import_rules.MOST_LISTED + 2
    assert lines[0] == "the document has values that cannot be set; correct them, then import it again:"
    assert lines[-1] == "and 30 more"


def test_what_is_set_everywhere_as_it_may_be_is_imported() -> None:
    assert import_rules.findings(rich()) == []
    assert import_rules.load(document.dump(rich()), is_lab=True) == document.load(document.dump(rich()))


def test_the_cluster_of_a_lab_is_imported(tmp_path: Path) -> None:
    ports = {"http": 1, "bmc": 2}
    lab = building.build(tmp_path / "my lab+1", nodes=7, instances=9, ports=ports, settings=clusters.Settings())
    assert import_rules.findings(store.read(tree.Tree(lab.controller).config)) == []


def test_adopted_hosts_are_imported() -> None:
    found_on = (hosts.host(number, hosts.domain(f"web{number}", number, ("block", "/dev/vg/web"))) for number in (1, 2))
    group = clusters.Group(GROUP, "default")
    empty = clusters.Cluster(clusters.Parameters("c", uid("cluster"), ""), {GROUP: group})
    found, after = adoption.plan(empty, list(found_on), group="", new_uuid=lambda: str(uuid.uuid4()))
    assert found.instances
    assert import_rules.findings(after) == []
