"""Three frozen states: a healthy cluster, one in trouble, and one in an emergency power off.

Each is a configuration document, and what nodes, people and BMCs did since the daemon started on it.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from tests.golden.faces_parts import adapter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PAIRS = [("node2", "node3"), ("node2", "node1"), ("node3", "node1"), ("node1", "node2"), ("node4", "node5")]
MORE = [*PAIRS, ("node6", "node5"), ("node5", "node4"), ("node5", "node6")]
OK = '{"status":"Ok"}'
EVACUATE = (
    '{"status":"evacuate","details":{"sensor":"DIMM 3","count":123456789012345678901234567890,"rate":1e-7,'
    '"seen":0.1000000000000000000001}}'
)
FILTERS = {
    "pause": "aaaaaaaa-0000-4000-8000-000000000001",
    "reject": "aaaaaaaa-0000-4000-8000-000000000002",
    "limit": "aaaaaaaa-0000-4000-8000-000000000003",
}


@contextlib.asynccontextmanager
async def healthy(folder: Path) -> AsyncIterator[adapter.Daemon]:
    """Six nodes in two groups whose five instances are in sync; four jobs have succeeded."""

    def edit(content: dict[str, Any]) -> None:
        content["cluster"] |= {"cluster_name": "healthy", "tags": ["prod"]}
        _with_limits(content)
        nodes, instances = _by_name(content, "nodes"), _by_name(content, "instances")
        nodes["node1"] |= {"primary_ip": "192.0.2.1", "tags": ["rack:1"]}
        instances["instance1"] |= {"nics": [{"network": "front", "mac": "52:54:01:00:00:01", "link": "br0"}]}
        instances["instance2"]["hvparams"] = {"migratable": "no"}

    async with adapter.running(folder, PAIRS, edit) as daemon:
        daemon.clock.now = adapter.NOW - 600
        await daemon.change("PUT", "/2/nodes/node6/tags?tag=spare&reason=inventory")
        await daemon.change("PUT", "/2/instances/instance3/shutdown")
        await daemon.reach({1: "success", 2: "success"})
        await daemon.change("PUT", "/2/power", {"command": "status", "nodes": ["node4", "node5"]})
        await daemon.change("POST", "/2/instances/instance5/replace-disks", {"mode": "replace_new_secondary"})
        await daemon.reach({1: "success", 2: "success", 3: "success", 4: "success"})
        daemon.clock.now = adapter.NOW - 30
        for number in range(1, 7):
            daemon.report(f"node{number}", OK)
        await daemon.rounds()
        daemon.clock.now = adapter.NOW
        yield daemon


@contextlib.asynccontextmanager
async def troubled(folder: Path) -> AsyncIterator[adapter.Daemon]:
    """Incidents, jobs in each status, a dead node, filters that hold, a lost replica, adopted disks; held and drained.

    Of ten jobs: 1 succeeded and is archived, 2 failed, 3 was lost, 4 runs, 5 waits for its locks, 6 was canceled,
    7 is being canceled, 8 is held by a filter, 9 was rejected by one, and those of the round run or wait for others.
    """
    outcomes = {"migrate": "held", "verify_disks": "error", "repair_disks": "lost", "activate_disks": "held"}
    async with adapter.running(folder, MORE, _trouble, outcomes=outcomes) as daemon:
        daemon.clock.now = adapter.NOW - 900
        await _jobs(daemon)
        daemon.clock.now = adapter.NOW - 40
        daemon.report("node1", OK)
        daemon.report("node2", EVACUATE)
        daemon.report("node3", OK, facts_lost=["instance1"])
        daemon.report("node4", problem="no-diagnosis")
        daemon.report("node5", OK, age=-200.0)
        daemon.report("node5", OK)
        daemon.spool("node3-1.json", '{"neither":"signed"}')
        note = {"node": "node6", "time": daemon.clock.now, "text": "Connection timed out"}
        daemon.spool("node6-1.unreachable", json.dumps(note))
        daemon.clock.now += 5
        await daemon.rounds()
        await daemon.reach_running(11)
        await daemon.change("PUT", "/2/pause", {"reason": "the switch of rack 1 is being replaced"})
        await daemon.silence("node6", misses=4, since=daemon.clock.now - 200)
        await daemon.rounds()
        await daemon.change("PUT", "/2/queue/drained", {"drained": True})
        daemon.clock.now = adapter.NOW
        yield daemon


@contextlib.asynccontextmanager
async def emergency(folder: Path) -> AsyncIterator[adapter.Daemon]:
    """The second node group is powered off in an emergency; the first goes on."""

    def edit(content: dict[str, Any]) -> None:
        content["cluster"] |= {"cluster_name": "emergency"}
        nodes, instances = _by_name(content, "nodes"), _by_name(content, "instances")
        off = [nodes[name] for name in ("node4", "node5", "node6")]
        for node in off:
            node |= {"powered": False, "off_since": adapter.NOW - 5000, "master_candidate": False}
        nodes["node6"] |= {"off_confirmed": adapter.NOW - 4000, "off_since": adapter.NOW - 4000}
        taken = [instances[f"instance{number}"] for number in (5, 6, 7)]
        for instance in taken:
            instance["admin_state"] = "down"
        content["maintenance"]["epo"] = {
            "nodes": [node["uuid"] for node in off],
            "instances": [instance["uuid"] for instance in taken],
            "by": "ann",
            "since": adapter.NOW - 6000,
            "returning": False,
        }

    async with adapter.running(folder, MORE, edit) as daemon:
        daemon.clock.now = adapter.NOW - 30
        for name in ("node1", "node3"):
            daemon.report(name, OK)
        daemon.report("node2", EVACUATE)
        await daemon.rounds()
        daemon.clock.now = adapter.NOW
        yield daemon


STATES = {"healthy": healthy, "troubled": troubled, "emergency": emergency}


async def _jobs(daemon: adapter.Daemon) -> None:
    await daemon.change("PUT", "/2/nodes/node3/tags?tag=spare&reason=inventory")
    await daemon.reach({1: "success"})
    await daemon.change("PUT", "/2/instances/instance5/verify-disks")
    await daemon.reach({1: "success", 2: "error"})
    await daemon.change("PUT", "/2/jobs/1/archive")
    await daemon.change("PUT", "/2/instances/instance5/repair-disks")
    await daemon.reach({2: "error", 3: "error"})
    await daemon.change("PUT", "/2/instances/instance3/migrate", {"priority": 10})
    await daemon.reach({2: "error", 3: "error", 4: "running"})
    await daemon.change("PUT", "/2/instances/instance3/shutdown")
    await daemon.change("PUT", "/2/instances/instance3/startup")
    await daemon.reach({2: "error", 3: "error", 4: "running", 5: "waiting", 6: "waiting"})
    await daemon.change("DELETE", "/2/jobs/6")
    await daemon.change("PUT", "/2/instances/instance5/activate-disks")
    await daemon.reach({2: "error", 3: "error", 4: "running", 5: "waiting", 6: "canceled", 7: "running"})
    await daemon.change("DELETE", "/2/jobs/7")
    rules = {
        "pause": {"priority": 5, "predicates": [["opcode", ["=", "OP_ID", "OP_OOB_COMMAND"]]], "action": "PAUSE"},
        "reject": {
            "predicates": [["opcode", ["=", "OP_ID", "OP_CLUSTER_VERIFY"]], ["jobid", [">", "id", "watermark"]]],
            "action": "REJECT",
            "reason": [["gnt:user", "no verification during the move", 1_800_000_000_000_000_000]],
        },
        "limit": {
            "priority": 9,
            "predicates": [["opcode", ["=", "OP_ID", "OP_INSTANCE_REPLACE_DISKS"]]],
            "action": ["RATE_LIMIT", 1],
        },
    }
    for name, rule in rules.items():
        await daemon.change("PUT", f"/2/filters/{FILTERS[name]}", rule)
    await daemon.change("PUT", "/2/nodes/node4/power?reason=smoke", {"command": "status"})
    await daemon.change("PUT", "/2/verify")
    jobs = {2: "error", 3: "error", 4: "running", 5: "waiting", 6: "canceled", 7: "canceling"}
    await daemon.reach({**jobs, 8: "queued", 9: "canceled"})


def _trouble(content: dict[str, Any]) -> None:
    content["cluster"] |= {"cluster_name": "troubled", "tags": ["prod", "rack:all"]}
    _with_limits(content)
    nodes, instances = _by_name(content, "nodes"), _by_name(content, "instances")
    settings = {"dead_after": 3, "dead_node_policy": "failover", "diagnose_command": "lab-diagnose"}
    content["maintenance"]["settings"] |= settings
    nodes["node3"] |= {"ndparams": {"oob_program": "!"}, "hostvars": {"ansible_user": "ops", "ansible_port": "2222"}}
    nodes["node5"] |= {"drained": True, "master_candidate": False}
    nodes["node4"] |= {"master_candidate": False, "master_capable": False}
    instances["instance1"]["parted"] = {
        "since": adapter.NOW - 7200,
        "last_in_sync": adapter.NOW - 7210,
        "node": nodes["node2"]["uuid"],
        "generations": ["0123456789abcdee"],
    }
    instances["instance4"] |= {"hvparams": {"vnc_password": "secret", "boot": "hd"}, "memory": 2048}
    instances["instance6"]["disks"] = [{"size": 20480, "spindles": None, "name": "r0", "minor": 11}]
    instances["instance6"]["hypervisor"] = "kvm"
    instances["instance7"] |= {"admin_state": "down", "tags": ["roundsman:unfinished"]}
    instances["instance8"] |= {"disk_template": "plain", "secondary_nodes": []}
    instances["instance8"]["disks"] = [{"size": 512, "spindles": None, "name": "", "minor": None}]
    left = {**instances["instance7"], "primary_node": nodes["node4"]["uuid"], "tags": []}
    content["maintenance"]["left_behind"] = [
        {
            "node": nodes["node6"]["uuid"],
            "instance": {**left, "secondary_nodes": [nodes["node6"]["uuid"]]},
            "since": adapter.NOW - 9000,
            "is_new": False,
            "generations": [],
        }
    ]
    content["maintenance"]["incidents"] = [
        _incident(nodes["node4"]["uuid"], "bbbbbbbb-0000-4000-8000-000000000001", "failed"),
        _incident(nodes["node6"]["uuid"], "cccccccc-0000-4000-8000-000000000002", "completed"),
    ]


def _incident(node: str, uuid: str, status: str) -> dict[str, Any]:
    is_failed = status == "failed"
    return {
        "uuid": uuid,
        "node": node,
        "original": '{"status":"evacuate","details":"fan 2"}',
        "action": "evacuate",
        "repair_status": status,
        "tag": f"maintd:repair{'failed' if is_failed else 'ready'}:{uuid}",
        "ctime": adapter.NOW - 86400,
        "mtime": adapter.NOW - 80000,
        "command": None,
        "jobs": [],
        "reason": "instance7 has no room anywhere" if is_failed else "",
        "serial_no": 3,
        "power_jobs": [],
        "digest": "",
    }


def _with_limits(content: dict[str, Any]) -> None:
    content["cluster"] |= {"max_cpu_ratio": 8.0, "max_disk_usage": 0.9, "max_inst_spec": [65536, 1048576, 16]}
    groups = _by_name(content, "nodegroups")
    groups["group2"] |= {"alloc_policy": "last_resort", "networks": ["back", "front"], "tags": ["floor:2"]}
    groups["group2"]["ndparams"] = {"oob_program": "redfish"}


def _by_name(content: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {found["name"]: found for found in content[kind].values()}
