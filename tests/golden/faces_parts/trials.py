"""What people ask for, tried with `dry-run` in every state: the answer, and what became of its job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.golden.faces_parts import text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.golden.faces_parts.exchange import Exchange

Request = tuple[str, str, Any]
NOUN = "trials"
FAILED = 300
INSTANCES = {
    "healthy": ("instance1", "instance3"),
    "troubled": ("instance1", "instance3", "instance6", "instance7", "instance8"),
    "emergency": ("instance1", "instance5"),
}
NODES = {"healthy": ("node2",), "troubled": ("node2", "node4", "node6"), "emergency": ("node5",)}
ROLES = ("drained", "offline", "regular", "master-candidate", "undrained", "online")
NEW = {"disk_template": "drbd", "disks": [{"size": 1024}], "beparams": {"memory": 512, "vcpus": 2}}
SECONDARY = {"mode": "replace_new_secondary"}
CLUSTER: tuple[Request, ...] = (
    ("PUT", "/2/redistribute-config", None),
    ("PUT", "/2/verify", None),
    ("PUT", "/2/modify", {"round_interval": 60, "max_disk_usage": 0.8, "ndparams": {"cpu_speed": 1.5}}),
    ("PUT", "/2/modify", {"ipolicy": {"vcpu-ratio": 2.0}, "balance": True}),
    ("PUT", "/2/modify?reason=tidy", {"cluster_name": "renamed"}),
    ("PUT", "/2/tags?tag=a/b&tag=c", ["c", "a/b"]),
    ("DELETE", "/2/tags?tag=prod", None),
    ("POST", "/2/groups", {"group_name": "rack9", "alloc_policy": "unallocable", "ndparams": {"spindle_count": 2}}),
    ("PUT", "/2/groups/group2/modify", {"alloc_policy": "preferred", "networks": ["front"]}),
    ("PUT", "/2/groups/group2/rename", {"new_name": "rack9"}),
    ("PUT", "/2/groups/group1/rename", {"new_name": "group2"}),
    ("DELETE", "/2/groups/group1", None),
    ("DELETE", "/2/groups/group2/tags?tag=floor:2", None),
    ("PUT", "/2/groups/group1/tags?tag=new", None),
    ("POST", "/2/nodes", {"name": "node9", "group": "group1", "primary_ip": "192.0.2.9", "mtotal": 4096}),
    ("POST", "/2/nodes", {"name": "node9"}),
    ("POST", "/2/nodes", {"name": "node6", "readd": True}),
    ("POST", "/2/nodes", {"name": "node1", "readd": True}),
    ("PUT", "/2/health", {"nodes": ["node1", "node2"]}),
    ("PUT", "/2/power", {"command": "status", "nodes": ["node1", "node2"]}),
    ("PUT", "/2/power", {"command": "off", "nodes": ["node1", "node2"]}),
    ("PUT", "/2/power", {"command": "on", "nodes": ["node2", "node3"], "power_delay": 1}),
    ("PUT", "/2/power", {"command": "off", "nodes": ["node4", "node5"], "offline": True, "force": True}),
    ("POST", "/2/adopt", {"nodes": [], "instances": []}),
    ("DELETE", "/2/jobs/4", None),
    ("DELETE", "/2/jobs/2", None),
)
MAKING: tuple[Request, ...] = (
    ("POST", "/2/instances", {"name": "web1", **NEW}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "group_name": "group2", "start": False}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "pnode": "node3", "snode": "node1", "tags": ["t"]}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "pnode": "node2", "snode": "node4"}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "disk_template": "plain", "pnode": "node5"}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "beparams": {"memory": 10_000_000}}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "disks": [{"size": 900_000_000}]}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "nics": [{"network": "front"}]}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "nics": [{"mac": "52:54:01:00:00:01"}]}),
    ("POST", "/2/instances", {"name": "web1", **NEW, "iallocator": "nothing"}),
    ("POST", "/2/instances", {"name": "instance1", **NEW}),
    ("POST", "/2/instances", {"name": "instance7", **NEW}),
)


def requests(state: str) -> Iterator[Request]:
    """Everything that is tried in a state."""
    yield from CLUSTER
    for node in NODES[state]:
        yield from _of_node(node)
    for role in ("drained", "offline"):
        yield "PUT", "/2/nodes/node1/role", role
    yield "DELETE", "/2/nodes/node1", None
    yield "PUT", "/2/nodes/node3/power", {"command": "status"}
    yield "PUT", "/2/nodes/node3/health", None
    for instance in INSTANCES[state]:
        yield from _of_instance(instance)
    yield from MAKING


def _of_node(name: str) -> Iterator[Request]:
    path = f"/2/nodes/{name}"
    for role in ROLES:
        yield "PUT", f"{path}/role", role
    for mode in ("primary-only", "secondary-only", "all"):
        yield "POST", f"{path}/evacuate", {"mode": mode}
    yield "POST", f"{path}/migrate", None
    yield "PUT", f"{path}/confirm-off", None
    yield "PUT", f"{path}/confirm-off?undo=1", None
    yield "PUT", f"{path}/power", {"command": "off", "offline": True}
    yield "PUT", f"{path}/health", {"priority": -10}
    yield "PUT", f"{path}/tags?tag=x", None
    yield "DELETE", f"{path}/tags?tag=spare", None
    yield "POST", f"{path}/modify", {"drained": True, "ctotal": 8}
    yield "POST", f"{path}/modify", {"powered": False}
    yield "POST", f"{path}/modify", {"offline": True, "powered": False}
    yield "POST", f"{path}/modify", {"vm_capable": False}
    yield "POST", f"{path}/modify", {"master_capable": False}
    yield "POST", f"{path}/modify", {"group": "group1"}
    yield "DELETE", path, None


def _of_instance(name: str) -> Iterator[Request]:
    path = f"/2/instances/{name}"
    for verb in ("migrate", "failover"):
        yield "PUT", f"{path}/{verb}", {}
        yield "PUT", f"{path}/{verb}", {"target_node": "node1"}
    yield "PUT", f"{path}/migrate", {"allow_failover": True, "target_node": "node5"}
    yield "PUT", f"{path}/failover?reason=test", {"ignore_consistency": True, "target_node": "node3"}
    yield "POST", f"{path}/replace-disks", SECONDARY
    for node in ("node1", "node3", "node4", "node6"):
        yield "POST", f"{path}/replace-disks", {**SECONDARY, "remote_node": node}
    for verb in ("startup", "shutdown", "activate-disks", "deactivate-disks", "verify-disks", "repair-disks"):
        yield "PUT", f"{path}/{verb}", None
    yield "PUT", f"{path}/repair-disks", {"discard": "node3"}
    yield "PUT", f"{path}/repair-disks", {"discard": "node6"}
    yield "POST", f"{path}/recreate-disks", None
    yield "POST", f"{path}/reinstall", {"os": "debian"}
    yield "PUT", f"{path}/modify", {"beparams": {"memory": 768, "auto_balance": False}}
    yield "PUT", f"{path}/modify", {"beparams": {"memory": 9_000_000}}
    yield "PUT", f"{path}/tags?tag=x", None
    yield "DELETE", f"{path}/tags?tag=x", None
    yield "GET", f"{path}/info", None
    yield "DELETE", path, None
    yield "DELETE", f"{path}?ignore_failures=1", None


async def record(exchange: Exchange, wanted: Sequence[Request]) -> None:
    """Try each request."""
    for method, path, body in wanted:
        await tried(exchange, NOUN, method, path, body)


async def tried(exchange: Exchange, noun: str, method: str, path: str, body: Any = None, **options: Any) -> None:
    """Try a request; of what makes a job note how that ends, or that it does not, and then it is canceled.

    Numbers of jobs are left out, and so is what a job says of itself here beside its opcodes: see the noun `jobs`.
    """
    mark = "&" if "?" in path else "?"
    path = f"{path}{mark}dry-run=1"
    found = await exchange.ask(method, path, body, **options)
    value = json.loads(found.body)
    number = value.get("id") if isinstance(value, dict) else value
    if found.status >= FAILED or isinstance(number, bool) or not isinstance(number, int):
        exchange.add(noun, method, path, body, found, **options)
        return
    job = await exchange.daemon.settled(number)
    shown = [f"{found.status} {found.kind}: {job['status']}"]
    if isinstance(value, dict):
        shown += [f"{opcode['kind']} {json.dumps(opcode['params'], sort_keys=True)}" for opcode in job["opcodes"]]
    else:
        shown[0] += f" {' '.join(job['summary'])}"
    for opcode, result in zip(job["opcodes"], job["opresult"], strict=True):
        shown += [f"  {line}" for line in opcode["text"].splitlines()]
        if result and opcode["status"] == "success":
            named = text.parse(exchange.daemon.names(json.dumps(result)))
            shown += [f"  {line}" for line in text.dump(named).splitlines()]
    exchange.add(noun, method, path, body, "\n".join(shown), **options)
    if job["status"] in {"queued", "waiting"}:
        await exchange.daemon.change("DELETE", f"/2/jobs/{number}")
