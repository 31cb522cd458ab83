"""Bad input to every resource that changes something, each refused: what the OpenAPI document rules out, and more."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.golden.faces_parts import adapter, trials
from tests.golden.faces_parts.states import FILTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.golden.faces_parts.exchange import Exchange

WRITES = ("delete", "post", "put")
PLACES = {"nodes": "node2", "instances": "instance1", "groups": "group1", "jobs": "2", "incidents": "nothing"}
PLACES |= {"filters": FILTERS["pause"], "query": "node"}
BODIES: dict[str, Any] = {
    "PUT /2/nodes/{name}/role": "drained",
    "PUT /2/nodes/{name}/power": {"command": "status"},
    "PUT /2/power": {"command": "status", "nodes": ["node2"]},
    "PUT /2/health": {"nodes": ["node2"]},
    "POST /2/instances": {"name": "web1", "disk_template": "drbd", "disks": [{"size": 1024}]},
    "POST /2/instances/{name}/replace-disks": {"mode": "replace_new_secondary"},
    "POST /2/instances/{name}/reinstall": {"os": "debian"},
    "PUT /2/instances/{name}/modify": {"beparams": {"memory": 512}},
    "PUT /2/groups/{name}/modify": {"alloc_policy": "preferred"},
    "PUT /2/groups/{name}/rename": {"new_name": "rack9"},
    "POST /2/nodes": {"name": "node9"},
    "POST /2/nodes/{name}/modify": {"ctotal": 4},
    "POST /2/groups": {"name": "rack9"},
    "PUT /2/modify": {"balance": True},
    "PUT /2/pause": {"reason": "tea"},
    "PUT /2/query/{what}": {"fields": ["name"]},
    "PUT /2/queue/drained": {"drained": True},
    "PUT /2/queue/archive": {"older_than": 0},
    "PUT /2/jobs/{job}/priority": {"priority": 10},
    "POST /2/plans": {"document": "{}"},
    "POST /2/hold": {"owner": "play", "livelock": "play", "wants": {"node/x": "shared"}},
    "POST /2/record": {"owner": "play", "livelock": "play", "changes": [{"kind": "nothing"}]},
    "PUT /2/tags": ["a"],
}
NO_OBJECTS = (b"{", b"[]", b'"text"')
MORE_BODIES = (b"7", b"null", b"\xff", b'{"reason": NaN}', b'{"reason": "a", "reason": 7}', b"[" * 20_000)
"""Sent to one resource only."""
QUERIES = {"boolean": "perhaps", "integer": "x", "number": "x"}
NAMES = ("oob_program", "exclusive_storage", "spindle_count", "cpu_speed")
LIMITS = ("max_inst_spec", "default_template", "max_cpu_ratio", "max_disk_usage", "ipolicy", *NAMES)
SETTINGS = (
    *("diagnose_command", "diagnose_interval", "agent_port", "round_interval", "storm_fraction", "storm_minimum"),
    *("capacity_reserve", "moves_per_node", "power_off_evacuated", "balance", "balance_threshold"),
    *("balance_disk_moves", "balance_dynamic_load", "accept_cluster_key", "dead_after", "dead_node_policy", "paused"),
)
STORED = ("vg_name", "file_storage_dir", "shared_file_storage_dir", "default_iallocator")
PARAMETERS = {
    "PUT /2/modify": ("cluster_name", "candidate_pool_size", "max_running_jobs", *STORED, *LIMITS, *SETTINGS),
    "PUT /2/groups/{name}/modify": ("name", "alloc_policy", "networks", *LIMITS),
    "POST /2/groups": ("name", "alloc_policy", "networks"),
    "POST /2/nodes/{name}/modify": (
        *("name", "group", "primary_ip", "secondary_ip", "mtotal", "mnode", "dtotal", "ctotal"),
        *("master_capable", "vm_capable", "hostvars", "drained", "offline", "powered", *NAMES),
    ),
    "POST /2/nodes": ("name", "group", "primary_ip", "mtotal", "hostvars", "readd"),
    "PUT /2/instances/{name}/modify": ("beparams", "hvparams"),
}
"""The fields of bodies that are objects of any members."""
FIELDS: tuple[trials.Request, ...] = (
    ("PUT", "/2/modify", {"max_disk_usage": 2.0}),
    ("PUT", "/2/modify", {"max_running_jobs": 201}),
    ("PUT", "/2/modify", {"dead_node_policy": "hope"}),
    ("PUT", "/2/modify", {"ipolicy": {"vcpu-ratio": 0}}),
    ("PUT", "/2/modify", {"ipolicy": {"nothing": 1}}),
    ("PUT", "/2/modify", {"oob_program": "relative/path"}),
    ("PUT", "/2/modify", {"cluster_name": "-"}),
    ("POST", "/2/groups", {"name": "group1"}),
    ("POST", "/2/groups", {}),
    ("POST", "/2/nodes", {}),
    ("POST", "/2/nodes", {"name": "node1"}),
    ("POST", "/2/nodes", {"name": "localhost"}),
    ("POST", "/2/nodes", {"name": "node9", "group": "nothing"}),
    ("POST", "/2/nodes", {"name": "node9", "group": "group1", "primary_ip": "2001:db8::1"}),
    ("POST", "/2/nodes", {"name": "nothing", "readd": True}),
    ("POST", "/2/nodes", {"name": "node6", "readd": True, "group": "group1"}),
    ("POST", "/2/nodes/node2/modify", {"drained": True, "offline": True}),
    ("POST", "/2/nodes/node2/modify", {"hostvars": {"ansible_connection": "local"}}),
    ("POST", "/2/nodes/node2/modify", {"hostvars": {"ansible_user": "{{ x }}"}}),
    ("POST", "/2/nodes/node2/modify", {"ndparams": 5}),
    ("POST", "/2/nodes/node2/evacuate", {"remote_node": "node3"}),
    ("POST", "/2/nodes/node2/migrate", {"target_node": "node3"}),
    ("PUT", "/2/nodes/node2/power", {"command": "on", "power_delay": -1}),
    ("PUT", "/2/nodes/node2/power", {"command": "on", "priority": -20}),
    ("PUT", "/2/power", {"command": "on", "nodes": []}),
    ("PUT", "/2/power", {"command": "on", "nodes": ["node2", "nothing"]}),
    ("PUT", "/2/health", {"nodes": ["nothing"]}),
    ("PUT", "/2/nodes/node2/tags", None),
    ("PUT", "/2/nodes/node2/tags?tag=", None),
    ("PUT", "/2/nodes/node2/tags?tag=a", ["b"]),
    ("PUT", "/2/nodes/node2/tags?tag=a%20b", None),
    ("PUT", "/2/nodes/node2/tags?tag=" + "x" * 200, None),
    ("DELETE", "/2/tags", None),
    ("PUT", "/2/instances/instance1/migrate", {"target_node": "nothing"}),
    ("PUT", "/2/instances/instance1/migrate", {"mode": "non-live"}),
    ("PUT", "/2/instances/instance1/migrate", {"target_node": "node2"}),
    ("PUT", "/2/instances/instance1/startup?no_remember=1", None),
    ("PUT", "/2/instances/instance1/repair-disks", {"discard": "node6"}),
    ("PUT", "/2/instances/instance1/repair-disks", {"discard": "nothing"}),
    ("PUT", "/2/instances/instance1/modify", {}),
    ("PUT", "/2/instances/instance1/modify", {"beparams": {"nothing": 1}}),
    ("PUT", "/2/instances/instance1/modify", {"beparams": {"memory": -1}}),
    ("PUT", "/2/instances/instance1/modify", {"hvparams": {"nothing": "x"}}),
    ("PUT", "/2/instances/instance1/modify", {"hvparams": {"boot": 7}}),
    ("POST", "/2/instances/instance1/replace-disks?mode=replace_auto", None),
    ("POST", "/2/instances/instance1/replace-disks", {"mode": "replace_new_secondary", "disks": [0]}),
    ("POST", "/2/instances/instance1/recreate-disks", {"disks": [0]}),
    ("POST", "/2/instances/instance1/reinstall", {}),
    ("POST", "/2/instances/instance1/reinstall", {"os": "../x"}),
    ("POST", "/2/instances/instance1/reinstall", {"os_playbook": "x.yml"}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "cloud", "disks": [{"size": 1}]}),
    ("POST", "/2/instances", {"name": "", "disk_template": "drbd", "disks": [{"size": 1}]}),
    ("POST", "/2/instances", {"name": "a b", "disk_template": "drbd", "disks": [{"size": 1}]}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "drbd", "disks": [{"size": "x"}]}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "drbd", "disks": [{"size": 1, "more": 1}]}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "drbd", "disks": []}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "drbd", "disks": [{"size": 1}], "snode": "node1"}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "drbd", "disks": [{"size": 1}], "hypervisor": "x"}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "drbd", "disks": [{"size": 1}], "name_check": True}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "drbd", "disks": [{"size": 1}], "__version__": 2}),
    ("POST", "/2/instances", {"name": "web1", "disk_template": "drbd", "disks": [{"size": 1}], "nics": [{"x": 1}]}),
    ("POST", "/2/plans", {"document": "no document"}),
    ("POST", "/2/adopt", {"nodes": [["x", {}]]}),
    ("POST", "/2/adopt", {"instances": [{"name": "x"}]}),
)
"""What fits the OpenAPI document and is refused all the same, tried."""
ALONE: tuple[trials.Request, ...] = (
    ("PUT", "/2/pause", {"reason": "\ud800"}),
    ("PUT", "/2/query/node", {"fields": ["name"], "qfilter": ["=~", "name", "(a+)+"]}),
    ("PUT", "/2/query/node", {"fields": ["name"], "qfilter": ["=", "nothing", 1]}),
    ("PUT", "/2/query/node", {"fields": ["name"], "qfilter": ["xor", 1, 2]}),
    ("PUT", "/2/query/moon", {"fields": ["name"]}),
    ("POST", "/2/filters", {"action": "EXPLODE"}),
    ("POST", "/2/filters", {"action": ["RATE_LIMIT", 0]}),
    ("POST", "/2/filters", {"predicates": [["moon", ["=", "id", 1]]]}),
    ("POST", "/2/filters", {"predicates": [["jobid", ["=", "nothing", 1]]]}),
    ("POST", "/2/filters", {"priority": -1}),
    ("PUT", "/2/filters/nothing", {}),
    ("DELETE", "/2/filters/nothing", None),
    ("PUT", "/2/queue/archive", {"older_than": -1}),
    ("PUT", "/2/jobs/2/priority", {"priority": -20}),
    ("PUT", "/2/jobs/999/archive", None),
    ("PUT", "/2/jobs/999/priority", {"priority": 0}),
    ("DELETE", "/2/jobs/999", None),
    ("PUT", "/2/incidents/bb/cancel", None),
    ("PUT", "/2/incidents/nothing/ack", None),
    ("PUT", "/2/nodes/nothing/reset-report-floor", None),
    ("POST", "/2/hold", {"owner": "a b", "livelock": "x", "wants": {}}),
    ("POST", "/2/hold", {"owner": "a", "livelock": "../x", "wants": {}}),
    ("POST", "/2/hold", {"owner": "a", "livelock": "a", "wants": {}, "time_limit": 0}),
    ("POST", "/2/hold", {"owner": "a", "livelock": "a", "wants": {"node/x": "tight"}}),
    ("POST", "/2/hold", {"owner": "a", "livelock": "a", "wants": {"node/x": "shared"}}),
    ("POST", "/2/record", {"owner": "a", "livelock": "a", "changes": []}),
    ("POST", "/2/record", {"owner": "a", "livelock": "a", "changes": [{"change": "Nothing"}]}),
    ("PUT", "/2/config", {}),
    ("PUT", "/2/config", {"cluster": {}}),
    ("PUT", "/2/config?force=perhaps", {}),
)
"""What has no trial, and is refused."""
FORBIDDEN: tuple[trials.Request, ...] = (
    ("PUT", "/2/modify", {"oob_program": "/bin/oob"}),
    ("PUT", "/2/modify", {"ndparams": {"oob_program": "/bin/oob"}}),
    ("PUT", "/2/modify", {"file_storage_dir": "/srv"}),
    ("PUT", "/2/modify", {"accept_cluster_key": True}),
    ("PUT", "/2/modify", {"balance": True}),
    ("PUT", "/2/instances/instance1/modify", {"hvparams": {"domain_xml": "/x.xml"}}),
    ("PUT", "/2/instances/instance1/modify", {"hvparams": {"serial_log": "/x"}}),
    ("PUT", "/2/instances/instance1/modify", {"hvparams": {"vnc": "0.0.0.0"}}),
    ("POST", "/2/instances/instance1/reinstall", {"os_playbook": "/x.yml"}),
    ("POST", "/2/hold", {"owner": "a", "livelock": "a", "wants": {"node/x": "shared"}}),
    ("POST", "/2/record", {"owner": "a", "livelock": "a", "changes": [{"change": "Nothing"}]}),
    ("POST", "/2/adopt", {"nodes": [["x", {}]]}),
    ("PUT", "/2/config", {}),
)
"""What root alone may ask for, and what there is only on the controller; the others are tried as who may do less."""
IN_TROUBLE: tuple[trials.Request, ...] = (
    *(("PUT", f"/2/jobs/{number}/archive", None) for number in (4, 5, 8, 12)),
    *(("PUT", f"/2/jobs/{number}/priority", {"priority": 0}) for number in (2, 4, 6, 7)),
    ("PUT", "/2/incidents/bbbb/cancel", None),
)
"""What jobs and incidents refuse in the state they are in."""


async def record(exchange: Exchange) -> None:
    """Record what is refused whatever the state of the cluster is."""
    document = json.loads((await exchange.daemon.ask("GET", "/openapi.json")).body)
    for path, operations in sorted(document["paths"].items()):
        for method in WRITES:
            if method in operations:
                await _operation(exchange, method.upper(), path, _Operation(document, operations[method]))
    for request in FIELDS:
        await trials.tried(exchange, "refused.fields", *request)
    for request in ALONE:
        await _refused(exchange, "refused.alone", *request)
    for method, path, body in FORBIDDEN:
        await trials.tried(exchange, "refused.forbidden", method, path, body, door="remote")
        await trials.tried(exchange, "refused.forbidden", method, path, body, uid=adapter.ADMINISTRATOR)


async def record_trouble(exchange: Exchange) -> None:
    """Record what is refused because of the state that jobs and incidents are in."""
    for request in IN_TROUBLE:
        await _refused(exchange, "refused", *request)


class _Operation:
    """An operation of the OpenAPI document: its body's schema and fields, and its parameters."""

    def __init__(self, document: dict[str, Any], operation: dict[str, Any]) -> None:
        self._document = document
        self.parameters = operation.get("parameters", [])
        content = operation.get("requestBody", {}).get("content", {})
        self.has_body = bool(content)
        self._schema = content.get("application/json", {}).get("schema", {})

    @property
    def has_trial(self) -> bool:
        return any(parameter["name"] == "dry-run" for parameter in self.parameters)

    @property
    def fields(self) -> dict[str, list[str]]:
        """The kinds of values that each field of the body takes; '' stands for any."""
        found = next((choice for choice in self._choices(self._schema) if "properties" in choice), {})
        return {
            name: [str(choice.get("type", "")) for choice in self._choices(schema)]
            for name, schema in sorted(found.get("properties", {}).items())
        }

    def _choices(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        if "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        choices = schema.get("anyOf", [])
        return [part for choice in choices for part in self._choices(choice)] if choices else [schema]


async def _operation(exchange: Exchange, method: str, template: str, operation: _Operation) -> None:
    noun = f"refused.{template.split('/')[2]}" if template.count("/") > 2 else "refused.cluster"
    body = BODIES.get(f"{method} {template}", {} if operation.has_body else None)
    for path, sent, content in _cases(f"{method} {template}", template, body, operation):
        if operation.has_trial:
            await trials.tried(exchange, noun, method, path, sent, content=content)
        else:
            await _refused(exchange, noun, method, path, sent, content=content)
    if not operation.has_trial and not template.startswith("/2/query"):
        await _refused(exchange, noun, method, f"{_filled(template)}?dry-run=1", body)


def _cases(name: str, template: str, body: Any, operation: _Operation) -> Iterator[tuple[str, Any, bytes]]:
    path = _filled(template)
    for unknown in ("nothing", "999") if template.startswith("/2/jobs") else ("nothing",):
        if "{" in template and not template.startswith(("/2/filters", "/2/incidents")):
            yield re.sub(r"\{\w+\}", unknown, template, count=1).replace("{verb}", "verify"), body, b""
    for parameter in operation.parameters:
        wrong = QUERIES.get(parameter["schema"].get("type"))
        if parameter["in"] == "query" and wrong and parameter["name"] != "dry-run":
            yield f"{path}?{parameter['name']}={wrong}", body, b""
    if not operation.has_body:
        return
    for content in (*NO_OBJECTS, *(MORE_BODIES if name == "PUT /2/pause" else ())):
        yield path, None, content
    yield from ((path, sent, b"") for sent in _bodies(name, body, operation))


def _bodies(name: str, body: Any, operation: _Operation) -> Iterator[Any]:
    for field, kinds in operation.fields.items():
        if "" not in kinds:
            yield {**body, field: "text" if "object" in kinds else {"a": 1}}
    for field in body if isinstance(body, dict) and operation.fields else ():
        yield {other: body[other] for other in body if other != field}
    for field in PARAMETERS.get(name, ()):
        yield {field: [["wrong"]]}
    if isinstance(body, dict):
        yield {**body, "nonsense": 1}


def _filled(template: str) -> str:
    """A path with names that there are."""
    return re.sub(r"\{\w+\}", PLACES.get(template.split("/")[2], "x"), template, count=1).replace("{verb}", "verify")


async def _refused(exchange: Exchange, noun: str, method: str, path: str, body: Any = None, **options: Any) -> None:
    found = await exchange.record(noun, method, path, body, **options)
    is_reading = method == "PUT" and path.startswith("/2/query")
    assert is_reading or found.status >= 400, f"{method} {path} {body} {options} was done: {found}"
