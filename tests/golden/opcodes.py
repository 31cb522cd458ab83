"""Opcodes as the queue sees them: locks, execution, variables of the play, inventory, changes, moot texts and refusals.

`instances.txt` and `nodes.txt` have every opcode in full on a healthy cluster; `states.txt` has, for each state of the
cluster, the lines in which opcodes differ from that; `parameters.txt` has what is refused before anything is looked at.
A cluster is written here as its configuration document.
"""

from __future__ import annotations

import copy
import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .adapters import opcode_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Document = dict[str, Any]
Params = dict[str, Any]

TEMPLATES = ("diskless", "file", "sharedfile", "plain", "drbd")
HYPERVISORS = ("fake", "kvm")
NEW = "11111111-2222-3333-4444-555555555555"
FIELDS = {"name": "new", "disk_template": "drbd", "hypervisor": "kvm", "memory": 256, "disks": [64]}
UNVARIED = {"tags_set", "tags_del", "test_delay", "replace_disks", "repair_disks", "migrate"}
"""Opcodes of `node_opcodes` that are not looked at in every state."""
LONG = 40
"""Characters of a long line that are shown when it is there twice."""
ADOPTED = {"drbd-adopted": "r0", "plain-adopted": "vg0/root"}


def record() -> Iterator[tuple[str, str]]:
    """Texts of this trace by the names of their files."""
    healthy = opcode_rules.Rules(json.dumps(document()))
    yield "instances.txt", _text(_sections(healthy, instance_opcodes()))
    ended = [
        line for one in runs() for line in (f"== after {one[0]}: {json.dumps(one[2])}", *healthy.after_run(*one), "")
    ]
    inventory = ["== inventory", *healthy.inventory(), ""]
    yield "nodes.txt", _text([*_sections(healthy, node_opcodes()), *inventory, *ended])
    yield "states.txt", _text(_differences(healthy))
    yield "parameters.txt", _text(_refused_parameters(healthy))


def document() -> Document:
    """Five nodes: the first is the master, node5 has no BMC and is in another group; instances run on node2."""
    nodes = {f"n{number}": _node(number) for number in range(1, 6)}
    nodes["n1"] |= {"master_candidate": True, "primary_ip": "192.0.2.1", "ndparams": {}}
    nodes["n2"] |= {"master_candidate": True, "ndparams": {"oob_program": "/usr/lib/oob/helper"}}
    nodes["n4"] |= {"secondary_ip": "198.51.100.4", "hostvars": {"ansible_user": "ops", "ansible_shell_type": "csh"}}
    nodes["n5"] |= {"group": "g2", "ndparams": {"oob_program": "!"}}
    instances = [_instance(template, hypervisor) for template in TEMPLATES for hypervisor in HYPERVISORS]
    adopted = [_instance(name.partition("-")[0], "kvm", name=name, disk=disk) for name, disk in ADOPTED.items()]
    return {
        "version": opcode_rules.VERSION,
        "cluster": {"cluster_name": "c1", "uuid": "c", "master_node": "n1", "ndparams": {"oob_program": "ipmi"}},
        "nodegroups": {uuid: {"uuid": uuid, "name": name} for uuid, name in (("g1", "rack1"), ("g2", "rack 2"))},
        "nodes": nodes,
        "instances": {one["uuid"]: one for one in [*instances, *adopted]},
        "maintenance": {"settings": {"diagnose_command": "check-node"}},
        "serial_no": 5,
    }


def _node(number: int) -> Document:
    sizes = {"mtotal": 16384, "mnode": 1024, "dtotal": 102400, "ctotal": 16}
    return {"uuid": f"n{number}", "name": f"node{number}", "group": "g1", **sizes}


def _instance(template: str, hypervisor: str, *, name: str = "", disk: str = "") -> Document:
    name = name or f"{template}-{hypervisor}"
    is_drbd = template == "drbd"
    disks = [
        {"size": 100, "minor": 3 if is_drbd else None, "name": disk},
        {"size": 60, "minor": 4 if is_drbd else None},
    ]
    return {
        "uuid": f"u-{name}",
        "name": name,
        "primary_node": "n2",
        "secondary_nodes": ["n3"] if is_drbd else [],
        "disk_template": template,
        "hypervisor": hypervisor,
        "disks": disks if template != "diskless" else [],
        "nics": [{"mac": "52:54:00:00:00:01", "link": "br0"}],
        "memory": 512,
        "vcpus": 2,
        "hvparams": {"shutdown_timeout": "60"} if hypervisor == "kvm" else {"migration_seconds": "2"},
    }


def instance_opcodes() -> list[tuple[str, Params]]:
    """Each opcode at an instance, for every disk template and hypervisor, and disks that were adopted."""
    names = [f"{template}-{hypervisor}" for template in TEMPLATES for hypervisor in HYPERVISORS] + list(ADOPTED)
    return [opcode for name in names for opcode in _at_instance(f"u-{name}", "n3" if "drbd" in name else "n4")]


def _at_instance(uuid: str, target: str) -> list[tuple[str, Params]]:
    move = {"instance": uuid, "source": "n2", "target": target}
    replace = {"instance": uuid, "old": "n3", "new": "n4"}
    found: list[tuple[str, Params]] = [
        ("migrate", move),
        ("failover", move),
        ("instance_create", {"instance": uuid}),
        ("instance_remove", {"instance": uuid}),
        ("reinstall", {"instance": uuid, "os_playbook": "/etc/roundsman/os/debian.yml"}),
        *((kind, {"instance": uuid}) for kind in ("startup", "shutdown", "activate_disks", "deactivate_disks")),
        *((kind, {"instance": uuid}) for kind in ("verify_disks", "recreate_disks", "repair_disks")),
    ]
    if target == "n3":
        found += [
            ("replace_disks", replace),
            ("replace_disks", {**replace, "new": "n3"}),
            ("outdate_replica", {"instance": uuid, "node": "n3"}),
            ("remove_replica", {"instance": uuid, "node": "n4"}),
        ]
    return found


def node_opcodes() -> list[tuple[str, Params]]:
    """Each opcode at nodes, at the configuration, and inside the daemon."""
    powers = ("on", "off", "cycle", "status", "fence", "confirm_off")
    one = "u-drbd-kvm"
    return [
        *(
            ("replace_disks", {"instance": one, "old": old, "new": new})
            for old, new in (("n2", "n4"), ("n3", "n2"), ("n3", "n5"))
        ),
        ("repair_disks", {"instance": one, "discard": "n4"}),
        ("migrate", {"instance": one, "source": "n2", "target": "n4"}),
        *(("power", {"command": command, "node": "n4"}) for command in powers),
        *(("power", {"command": command, "node": "n2"}) for command in powers),
        *(("power", {"command": "off", "nodes": nodes}) for nodes in (["n1", "n2", "n4", "n5"], ["n5"], ["n9"])),
        ("power", {"command": "off", "node": "n2", "force": True}),
        ("power", {"command": "off", "node": "n2", "empty": True}),
        ("power", {"command": "status", "node": "n4", "expect": "off"}),
        ("power", {"command": "on", "nodes": ["n3", "n4"], "delay": 2.5, "check": True}),
        ("health", {"node": "n4"}),
        ("health", {"nodes": ["n4", "n2", "n5"]}),
        ("health", {"node": "n5"}),
        ("repair_command", {"node": "n4", "command": "fix-disk", "input": "{}"}),
        ("repair_command", {"node": "n4", "command": "fix-disk", "input": "{}", "input_digest": "ab12"}),
        ("repair_command", {"node": "n4", "command": "../fix", "input": "{}"}),
        ("diagnose", {"node": "n4"}),
        ("second_copies", {"node": "n4"}),
        *(("node_role", {"node": node, **role}) for node in ("n2", "n4") for role in _roles()),
        ("node_confirm_off", {"node": "n4"}),
        ("node_confirm_off", {"node": "n1"}),
        ("node_confirm_off", {"node": "n4", "undo": True}),
        ("node_evacuate", {"node": "n2"}),
        ("node_evacuate", {"node": "n2", "mode": "primary-only"}),
        ("node_evacuate", {"node": "n3", "mode": "secondary-only"}),
        ("node_evacuate", {"node": "n3"}),
        ("node_migrate", {"node": "n2"}),
        ("node_migrate", {"node": "n3"}),
        ("run_plan", {"command": "roundsman balance", "digest": opcode_rules.DIGEST, "moves": _moves()}),
        ("run_plan", {"command": "roundsman balance", "digest": "0", "moves": _moves()}),
        ("run_plan", {"command": "c", "digest": opcode_rules.DIGEST, "moves": _moves(), "failover": True}),
        ("cluster_verify", {}),
        ("cluster_verify", {"differing": {"node3": "node3 ran another command"}}),
        ("cluster_redist_conf", {}),
        ("find_instance", {"instance": one, "nodes": ["n2", "n3", "n9"]}),
        ("instance_query_data", {"instance": one}),
        ("instance_query_data", {"instance": "u-gone"}),
        ("instance_reserve", {"instance": NEW, "nodes": ["n3", "n4"], "fields": FIELDS}),
        ("instance_reserve", {"instance": NEW, "nodes": ["n3", "n4"], "fields": {**FIELDS, "memory": 99999}}),
        ("instance_reserve", {"instance": NEW, "nodes": ["n3", "n4"], "fields": {**FIELDS, "disks": [999999]}}),
        ("instance_reserve", {"instance": NEW, "nodes": ["n3"], "fields": FIELDS}),
        ("instance_reserve", {"instance": one, "nodes": ["n2", "n3"], "fields": FIELDS}),
        ("instance_modify", {"instance": one, "fields": {"memory": 1024, "hvparams": {"migratable": "no"}}}),
        ("instance_modify", {"instance": one, "fields": {"memory": 99999}}),
        ("instance_modify", {"instance": one, "fields": {"colour": "blue"}}),
        ("cluster_adopt", _adoption()),
        ("cluster_adopt", {}),
        *(("tags_set", {"of": of, "object": uuid, "tags": ["a:1", "b"]}) for of, uuid in _tagged()),
        ("tags_set", {"of": "node", "object": "n4", "tags": ["a b"]}),
        ("tags_del", {"of": "node", "object": "n4", "tags": ["a:1", "b"]}),
        ("tags_del", {"of": "node", "object": "n9", "tags": ["a:1"]}),
        ("test_delay", {"duration": 2.5, "locks": {"node/n4": "shared"}}),
        ("cluster_modify", {"fields": {"candidate_pool_size": 1}}),
        ("cluster_modify", {"fields": {"colour": "blue"}}),
        ("group_add", {"uuid": "g3", "fields": {"name": "rack3"}}),
        ("group_add", {"uuid": "g3", "fields": {"name": "rack1"}}),
        ("group_modify", {"group": "g2", "fields": {"name": "rack9", "alloc_policy": "last_resort"}}),
        ("group_modify", {"group": "g9", "fields": {}}),
        ("group_remove", {"group": "g2"}),
        ("group_remove", {"group": "g9"}),
        ("node_add", {"uuid": "n6", "fields": {"name": "node6", "group": "g1", "mtotal": 4096}}),
        ("node_add", {"uuid": "n6", "fields": {"name": "node1"}}),
        ("node_add", {"uuid": "n4", "fields": {"name": "node4"}, "readd": True}),
        ("node_modify", {"node": "n4", "fields": {"mtotal": 8192, "vm_capable": False}}),
        ("node_modify", {"node": "n4", "fields": {"mtotal": -1}}),
        ("node_remove", {"node": "n4"}),
        ("node_remove", {"node": "n1"}),
        ("node_remove", {"node": "n2"}),
    ]


def runs() -> list[tuple[str, Params, Any]]:
    """Opcodes whose runs have left values."""
    move = {"instance": "u-drbd-kvm", "source": "n2", "target": "n3"}
    power = {"name": "node4", "command": "off", "before": "on", "after": "off", "sent": True, "confirmed": True}
    found = {**power, "attempts": 1, "seconds": 2.5}
    return [
        ("failover", move, {"source_stopped": False, "forced": "drbd-kvm was promoted by force"}),
        ("failover", move, {"source_stopped": True, "forced": ""}),
        ("remove_replica", {"instance": "u-drbd-kvm", "node": "n4"}, {"kept": True}),
        ("remove_replica", {"instance": "u-drbd-kvm", "node": "n4"}, None),
        ("health", {"node": "n4"}, [{"name": "node4", "items": [["PSU1", "CRITICAL"], ["Fan 1", "OK"]]}]),
        ("power", {"command": "off", "node": "n4"}, [found]),
        ("power", {"command": "off", "node": "n4", "check": True}, [found]),
    ]


def _roles() -> list[Params]:
    texts = ("drained", "offline")
    found: list[Params] = [{name: value} for name in texts for value in (True, False)]
    return [*found, {"offline": True, "force": True}, {"offline": True, "empty": True}]


def _moves() -> list[Params]:
    return [
        {"instance": "drbd-kvm", "action": "f r:node4"},
        {"instance": "sharedfile-kvm", "action": "f:node4", "after": ["drbd-kvm"]},
    ]


def _tagged() -> list[tuple[str, str]]:
    return [("cluster", ""), ("group", "g1"), ("node", "n4"), ("instance", "u-drbd-kvm"), ("disk", "x")]


def _adoption() -> Params:
    node = {"name": "node6", "group": "g1", "mtotal": 4096, "dtotal": 1000}
    found = {"uuid": NEW, "name": "found", "primary_node": "n6", "disk_template": "plain", "memory": 128}
    return {"nodes": [["n6", node]], "instances": [{**found, "disks": [{"size": 10, "name": "vg0/found"}]}]}


def states() -> dict[str, tuple[Callable[[Document], object], Params]]:
    """States of the cluster by name: the edit of the healthy document, and the facts beside it."""
    return {
        "instances are down": (_downed, {}),
        "node3 and node4 are offline": (_nodes_are(("n3", "n4"), offline=True), {}),
        "node2 is offline": (_nodes_are(("n2",), offline=True), {}),
        "node2 is recorded as powered off": (_nodes_are(("n2",), powered=False), {}),
        "node2 is stated to be off": (_nodes_are(("n2",), off_confirmed=90.0, off_since=90.0), {}),
        "node4 was off and has lived since": (_nodes_are(("n4",), powered=False, off_since=90.0, alive_at=95.0), {}),
        "node3 and node4 are drained": (_nodes_are(("n3", "n4"), drained=True), {}),
        "node3 and node4 are not vm_capable": (_nodes_are(("n3", "n4"), vm_capable=False), {}),
        "node3 and node4 have no room": (_nodes_are(("n3", "n4"), mtotal=1200, dtotal=170), {}),
        "node2 is silent": (_nothing, {"silent": ["n2"]}),
        "node3 and node4 are silent": (_nothing, {"silent": ["n3", "n4"]}),
        "node4 has just reported Ok": (_nothing, {"reported": ["n4"]}),
        "instances have lost their secondary": (_parted, {}),
        "instances have moved to node1": (_moved, {}),
        "instances are removed": (_removed, {}),
        "instances are unfinished": (_tagged_unfinished, {}),
        "node4 has left the cluster": (_without_node4, {}),
        "replicas are left behind on node4": (_left_behind(is_new=False), {}),
        "replicas are being made on node4": (_left_behind(is_new=True), {}),
    }


def _nothing(_found: Document) -> None:
    """The configuration stays as it is."""


def _downed(found: Document) -> None:
    for one in found["instances"].values():
        one["admin_state"] = "down"


def _nodes_are(uuids: tuple[str, ...], **fields: Any) -> Callable[[Document], object]:
    return lambda found: [found["nodes"][uuid].update(fields) for uuid in uuids]


def _parted(found: Document) -> None:
    for one in found["instances"].values():
        if one["disk_template"] == "drbd":
            one["parted"] = {"since": 80.0, "last_in_sync": 70.0, "node": "n2", "generations": ["0" * 16, "1" * 16]}


def _moved(found: Document) -> None:
    for one in found["instances"].values():
        one["primary_node"], one["secondary_nodes"] = "n1", ["n5"] if one["secondary_nodes"] else []


def _removed(found: Document) -> None:
    found["instances"] = {}


def _tagged_unfinished(found: Document) -> None:
    _downed(found)
    for one in found["instances"].values():
        one["tags"] = [opcode_rules.UNFINISHED]


def _without_node4(found: Document) -> None:
    del found["nodes"]["n4"]


def _left_behind(*, is_new: bool) -> Callable[[Document], object]:
    def edit(found: Document) -> None:
        found["maintenance"]["left_behind"] = [
            {
                "node": "n4",
                "instance": {**one, "secondary_nodes": ["n4"]},
                "since": 60.0,
                "is_new": is_new,
                "generations": ["A" * 16, "B" * 16] if is_new else [],
            }
            for one in found["instances"].values()
            if one["disk_template"] == "drbd"
        ]

    return edit


def _varied() -> list[tuple[str, Params]]:
    """The opcodes that are looked at in every state."""
    one = "u-drbd-kvm"
    return [
        *_at_instance(one, "n3"),
        *((kind, params) for kind, params in _at_instance("u-plain-kvm", "n4") if kind in {"startup", "migrate"}),
        ("failover", {"instance": one, "source": "n2", "target": "n3", "ignore_consistency": True}),
        ("replace_disks", {"instance": one, "old": "n3", "new": "n4", "planned": True}),
        ("remove_replica", {"instance": one, "node": "n4", "discard": True}),
        ("repair_disks", {"instance": one, "discard": "n3"}),
        ("instance_remove", {"instance": one, "ignore_failures": True}),
        ("instance_create", {"instance": one, "os_playbook": "/etc/roundsman/os/debian.yml"}),
        *(opcode for opcode in node_opcodes() if opcode[0] not in UNVARIED),
    ]


def _ended(rules: opcode_rules.Rules) -> Iterator[str]:
    for kind, params, value in runs():
        yield from (f"== after {kind}: {json.dumps(value)}", *rules.after_run(kind, params, value), "")


def _sections(rules: opcode_rules.Rules, opcodes: list[tuple[str, Params]]) -> Iterator[str]:
    """The opcodes in full; a long line that the section before has, too, is cut."""
    before: set[str] = set()
    for kind, params in opcodes:
        yield _title(kind, params)
        lines = rules.lines(kind, params)
        yield from (f"{line[:LONG]}... (as in the section before)" if line in before else line for line in lines)
        yield ""
        before = {line for line in lines if len(line) > 2 * LONG}


def _title(kind: str, params: Params) -> str:
    return f"== {kind} {json.dumps(params, sort_keys=True)}"


def _differences(healthy: opcode_rules.Rules) -> Iterator[str]:
    opcodes = _varied()
    before = [healthy.lines(kind, params, leaves=True) for kind, params in opcodes]
    yield "# on the healthy cluster, opcodes that the other files do not have"
    known = {_title(*opcode) for opcode in (*instance_opcodes(), *node_opcodes())}
    yield from _sections(healthy, [opcode for opcode in opcodes if _title(*opcode) not in known])
    for name, (edit, facts) in states().items():
        found = copy.deepcopy(document())
        edit(found)
        yield f"# {name}"
        rules = opcode_rules.Rules(json.dumps(found), **facts)
        for (kind, params), lines in zip(opcodes, before, strict=True):
            different = list(_changed(lines, rules.lines(kind, params, leaves=True)))
            yield from (_title(kind, params), *different, "") if different else ()


def _changed(before: list[str], after: list[str]) -> Iterator[str]:
    """The lines that are new, and of those that are missing what they begin with, unless a refusal explains it."""
    found = [
        line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line[:2] not in {"--", "++", "@@"}
    ]
    new = {_subject(line[1:]) for line in found if line.startswith("+")}
    refused = {line[1:].partition(":")[0] for line in found if line.startswith("+") and ": REFUSED " in line}
    for line in found:
        subject = _subject(line[1:])
        if line.startswith("+"):
            yield line
        elif subject not in new and subject.partition(":")[0] not in refused:
            yield f"-{subject}"


def _subject(line: str) -> str:
    """What a line is about, without its value."""
    name, _, text = line.partition(": ")
    many = {"lock": "", "variable": " = ", "becomes": ": ", "changes": ": "}
    return f"{name}: {text.partition(many[name])[0] if many[name] else text}" if name in many else name


def _refused_parameters(rules: opcode_rules.Rules) -> Iterator[str]:
    known: Mapping[str, Params] = dict(reversed([*instance_opcodes(), *node_opcodes()]))
    cases: list[tuple[str, Params]] = [
        ("no_such_opcode", {}),
        *((kind, {**params, "colour": "blue"}) for kind, params in sorted(known.items())),
        *((kind, {}) for kind, params in sorted(known.items()) if params),
        ("power", {"command": "explode", "node": "n4"}),
        ("power", {"command": "on", "node": "n4", "nodes": ["n3"]}),
        ("power", {"command": "on", "nodes": [f"n{number}" for number in range(30)], "delay": 901}),
        ("power", {"command": "on", "node": "n4", "delay": -1}),
        ("node_evacuate", {"node": "n2", "mode": "some"}),
        ("test_delay", {"duration": -1}),
        ("test_delay", {"duration": 1, "locks": {"moon/x": "shared"}}),
        ("run_plan", {"command": "c", "digest": "d", "moves": "f"}),
        ("migrate", {"instance": 5, "source": "n2", "target": "n3"}),
    ]
    for kind, params in cases:
        refusal = rules.refusal(kind, params)
        yield f"{kind} {json.dumps(params, sort_keys=True)}: {refusal or 'accepted'}"


def _text(lines: Any) -> str:
    collection = str(Path(__file__).resolve().parents[2])
    return "".join(f"{line}\n" for line in lines).replace(collection, "COLLECTION")
