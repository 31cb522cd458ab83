"""Who may set what: every field of every resource that changes something has a line in the table, and is held to it."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api import instance_making as resource
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import hvparams, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import membership
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import (
    host_variables,
    instance_making,
    parameter_rules,
    permissions,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings.permissions import Requester

from tests.unit.daemon import twins
from tests.unit.daemon.api import reached

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

PAGE = Path(__file__).parents[4] / "docs/decisions/privileges.md"
ADMINISTRATOR = 54321
"""The uid of somebody who reaches the socket and is neither root nor the daemon's user."""
NODE = {*parameter_rules.NODE, "ndparams", "readd", "drained", "offline", "powered", "auto_promote"}
BODIES = {
    ("put", "/2/modify"): {*parameter_rules.CLUSTER, *parameter_rules.SETTINGS, "ndparams"},
    ("post", "/2/groups"): {*parameter_rules.GROUP, "group_name", "ndparams"},
    ("put", "/2/groups/{name}/modify"): {*parameter_rules.GROUP, "ndparams"},
    ("post", "/2/nodes"): NODE,
    ("post", "/2/nodes/{name}/modify"): NODE,
}
"""The fields of bodies that are objects of any members: what their handlers accept."""
MEMBERS = {
    "hvparams": {name for rules in hvparams.KNOWN.values() for name in rules},
    "beparams": {*resource.BACKEND, "minmem"},
    "disks": {"size"},
    "nics": set(instance_making.NIC_FIELDS),
    "hostvars": set(host_variables.RULES),
    "ndparams": set(parameter_rules.NDPARAMS),
}
"""The members of fields that are objects of any members."""
PLAIN = {"ipolicy", "predicates", "action", "reason", "qfilter", "filter"}
"""Fields whose members are sizes, or parts of a query: they are looked at by a language of their own."""
REMOTE = {
    "DELETE /2/filters/{name}",
    "DELETE /2/groups/{name}",
    "DELETE /2/groups/{name}/tags",
    "DELETE /2/instances/{name}",
    "DELETE /2/instances/{name}/tags",
    "DELETE /2/jobs/{job}",
    "DELETE /2/nodes/{name}",
    "DELETE /2/nodes/{name}/tags",
    "DELETE /2/tags",
    "POST /2/filters",
    "POST /2/groups",
    "POST /2/instances",
    "POST /2/instances/{name}/recreate-disks",
    "POST /2/instances/{name}/reinstall",
    "POST /2/instances/{name}/replace-disks",
    "POST /2/nodes",
    "POST /2/nodes/{name}/evacuate",
    "POST /2/nodes/{name}/migrate",
    "POST /2/nodes/{name}/modify",
    "POST /2/plans",
    "PUT /2/filters/{name}",
    "PUT /2/groups/{name}/modify",
    "PUT /2/groups/{name}/rename",
    "PUT /2/groups/{name}/tags",
    "PUT /2/health",
    "PUT /2/incidents/{uuid}/ack",
    "PUT /2/incidents/{uuid}/cancel",
    "PUT /2/instances/{name}/failover",
    "PUT /2/instances/{name}/migrate",
    "PUT /2/instances/{name}/modify",
    "PUT /2/instances/{name}/shutdown",
    "PUT /2/instances/{name}/startup",
    "PUT /2/instances/{name}/tags",
    "PUT /2/instances/{name}/repair-disks",
    "PUT /2/instances/{name}/{verb}-disks",
    "PUT /2/jobs/{job}/archive",
    "PUT /2/jobs/{job}/priority",
    "PUT /2/modify",
    "PUT /2/nodes/{name}/confirm-off",
    "PUT /2/nodes/{name}/health",
    "PUT /2/nodes/{name}/power",
    "PUT /2/nodes/{name}/reset-report-floor",
    "PUT /2/nodes/{name}/role",
    "PUT /2/nodes/{name}/tags",
    "PUT /2/pause",
    "PUT /2/power",
    "PUT /2/queue/archive",
    "PUT /2/queue/drained",
    "PUT /2/redistribute-config",
    "PUT /2/tags",
    "PUT /2/verify",
}
"""The resources that change something and that the remote API has: users with write access may use them."""
LEAST: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("post", "/2/nodes"): [{"name": "node9"}, {"name": "node2", "readd": True}],
    ("post", "/2/groups"): [{"group_name": "second"}],
    ("post", "/2/instances"): [
        {"name": "web1", "disk_template": "drbd", "disks": [{"size": 1024}], "beparams": {"memory": 512}}
    ],
}
"""What else a body needs to be looked at."""
ROOT_ONLY = "only root on the controller may set this: run `roundsman` there"
SAMPLES: dict[str, Any] = {"vnc": "0.0.0.0", "accept_cluster_key": True}


def schema(document: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """A schema with its reference followed, and without the alternative that is null."""
    if "anyOf" in one:
        return schema(document, next(each for each in one["anyOf"] if each.get("type") != "null"))
    if "$ref" in one:
        found: dict[str, Any] = document["components"]["schemas"][one["$ref"].rsplit("/", 1)[1]]
        return found
    return one


def is_open(document: dict[str, Any], one: dict[str, Any]) -> bool:
    """Whether a schema takes objects whose members it does not name."""
    found = schema(document, one)
    inner = schema(document, found.get("items", {})) if found.get("type") == "array" else found
    return inner.get("type") == "object" and "properties" not in inner


def content(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """The schema of the body of a resource; empty if it has none."""
    body = document["paths"][path][method].get("requestBody", {}).get("content", {})
    found: dict[str, Any] = body.get("application/json", {}).get("schema", {})
    return found


def fields(document: dict[str, Any], method: str, path: str) -> Iterator[tuple[str, ...]]:
    """The fields of the query and the body of a resource, those of objects with the names that lead to them."""
    operation = document["paths"][path][method]
    yield from ((one["name"],) for one in operation.get("parameters", []) if one["in"] == "query")
    body = content(document, method, path)
    if not body:
        return
    if is_open(document, body):
        named: dict[str, dict[str, Any]] = {name: {} for name in BODIES[method, path]}
    else:
        named = schema(document, body).get("properties", {})
    for name, inner in named.items():
        yield (name,)
        if name in MEMBERS:
            yield from ((name, member) for member in MEMBERS[name])
        else:
            assert name in PLAIN or not is_open(document, inner), f"{path}: say what {name} may hold, in MEMBERS"


def open_objects(document: dict[str, Any], method: str, path: str) -> set[str]:
    """The names of a body's fields that take objects of any members; "" is the body itself."""
    body = content(document, method, path)
    if not body:
        return set()
    if is_open(document, body):
        return {"", *(BODIES[method, path] & set(MEMBERS))}
    named = schema(document, body).get("properties", {})
    return {name for name, inner in named.items() if name not in PLAIN and is_open(document, inner)}


def written(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The resources that change something, whose fields are looked at one by one."""
    return [
        (method, path)
        for path, operations in document["paths"].items()
        for method in operations
        if method != "get" and path.split("/")[2] not in permissions.LOCAL_ONLY
    ]


def make_document(folder: Path, monkeypatch: pytest.MonkeyPatch, door: Door) -> dict[str, Any]:
    async def make() -> dict[str, Any]:
        running, _ = twins.assemble(twins.lab(folder), monkeypatch)
        found: dict[str, Any] = apps.make_app(running, door=door).openapi()
        await running.queue.stop()
        return found

    return asyncio.run(make())


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return make_document(tmp_path, monkeypatch, Door.SOCKET)


def test_the_resources_that_remote_users_may_write_are_those_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = make_document(tmp_path, monkeypatch, Door.REMOTE)
    found = {
        f"{method.upper()} {path}"
        for path, operations in remote["paths"].items()
        for method in operations
        if not permissions.is_reading(method.upper(), path)
    }
    assert sorted(found - REMOTE) == [], (
        "decide whether remote users with write access may use this resource: if so, add it to REMOTE of this test; "
        "else give it to the socket only (LOCAL_ONLY of plugin_utils/settings/permissions.py)"
    )
    assert sorted(REMOTE - found) == [], "the remote API has no such resource: remove it from REMOTE of this test"


def test_an_object_of_any_members_refuses_unknown_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`permissions.needed` lets names through that are not in its table: no resource may take them."""
    remote = make_document(tmp_path, monkeypatch, Door.REMOTE)

    async def act(one: reached.Reached) -> None:
        asked = 0
        group = next(iter(one.running.configuration.current.nodegroups.values())).name
        objects = {"nodes": "node2", "instances": "instance1", "groups": group}
        for method, path in written(remote):
            url = path.replace("{name}", objects.get(path.split("/")[2], ""))
            for name in sorted(open_objects(remote, method, path)):
                inner: Any = {"unheard_of": "1"}
                body = {name: [inner] if name in {"disks", "nics"} else inner} if name else inner
                for least in LEAST.get((method, path), [{}]):
                    status, told = await one.refused(method, url, {**least, **body})
                    assert (status, "unheard_of" in told) == (400, True), (method, url, name, told)
                    asked += 1
        assert asked > 15

    reached.reach(tmp_path / "again", monkeypatch, act, is_local=False, door=Door.REMOTE)


def test_every_field_of_every_resource_that_changes_something_has_its_line(document: dict[str, Any]) -> None:
    found = {names[-1] for one in written(document) for names in fields(document, *one)}
    assert len(written(document)) > 40
    assert found - set(permissions.FIELDS) == set(), (
        "say who may set these: a line in FIELDS of plugin_utils/settings/permissions.py"
    )
    assert set(permissions.FIELDS) - found == set(), "no resource has these fields any more"
    assert {name for name, least in permissions.FIELDS.items() if least is Requester.ROOT} == {
        *("oob_program", "os_playbook", "domain_xml", "serial_log", "file_storage_dir", "shared_file_storage_dir")
    }
    assert {name for name, least in permissions.FIELDS.items() if least is Requester.ADMINISTRATOR} == {
        *("vnc", "accept_cluster_key", "primary_ip", "secondary_ip", "migration_transport")
    }


def test_the_page_has_a_row_for_each_field_that_not_everybody_may_set() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    for name, least in permissions.FIELDS.items():
        if least is not Requester.REMOTE:
            may = ["no" if rank < least else "yes" for rank in Requester]
            assert any(f"`{name}`" in row and row.endswith(f"| {' | '.join(may)} |") for row in rows), name


def test_addresses_and_a_transport_in_clear_are_an_administrator_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both a remote user could have the memory of a guest sent to a machine of theirs."""
    leaking: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/2/nodes/node2/modify", {"primary_ip": "203.0.113.9"}),
        ("POST", "/2/nodes/node2/modify", {"secondary_ip": "203.0.113.9"}),
        ("POST", "/2/nodes", {"name": "node9", "primary_ip": "203.0.113.9"}),
        ("PUT", "/2/instances/instance1/modify", {"hvparams": {"migration_transport": "tcp"}}),
    ]

    async def act(one: reached.Reached) -> None:
        for method, path, body in leaking:
            status, told = await one.refused(method, path, body)
            assert (status, "only administrators on the controller may set this" in told) == (403, True), (path, told)
        for transport in ("ssh", "tls", "default"):
            body = {"hvparams": {"migration_transport": transport}}
            answer = await one.client.put("/2/instances/instance1/modify", json=body)
            assert "may set this" not in answer.text

    reached.reach(tmp_path, monkeypatch, act, is_local=False, door=Door.REMOTE)


@pytest.mark.parametrize(
    "asker",
    [
        (Door.REMOTE, 0, Requester.REMOTE),
        (Door.SOCKET, ADMINISTRATOR, Requester.ADMINISTRATOR),
        (Door.SOCKET, os.geteuid(), Requester.ROOT),
    ],
)
def test_a_field_is_set_only_by_those_who_may(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    document: dict[str, Any],
    asker: tuple[Door, int, Requester],
) -> None:
    """At each resource, each field is given alone; the header of the remote API changes nothing at the socket."""
    asked = 0
    door, uid, rank = asker

    async def act(one: reached.Reached) -> None:
        nonlocal asked
        for method, path in written(document):
            for names in fields(document, method, path):
                least = permissions.FIELDS[names[-1]]
                if least is Requester.REMOTE and rank is not Requester.REMOTE:
                    continue
                body: Any = SAMPLES.get(names[-1], "/bin/true")
                for name in reversed(names):
                    body = {name: body}
                url = path.replace("{name}", "none").replace("{job}", "999").replace("{verb}", "verify")
                answer = await one.client.request(method, url.replace("{uuid}", "x").replace("{what}", "x"), json=body)
                is_refused = answer.status_code == 403 and "may set this" in answer.json()["detail"]
                assert is_refused is (rank < least), (method, path, names, answer.text)
                asked += 1

    reached.reach(tmp_path / "again", monkeypatch, act, is_local=False, door=door, uid=uid)
    assert asked > 10


def test_what_is_refused_names_the_field_who_may_set_it_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: reached.Reached) -> None:
        status, told = await one.refused("POST", "/2/nodes/node2/modify", {"ndparams": {"oob_program": "/bin/oob"}})
        assert (status, told) == (
            403,
            f"oob_program: {ROOT_ONLY}, or name a helper program that root put into {one.running.where.oob_programs}",
        )
        status, told = await one.refused("PUT", "/2/modify", {"accept_cluster_key": True})
        assert told == "accept_cluster_key: only administrators on the controller may set this: run `roundsman` there"
        hostile = {"hostvars": {"ansible_ssh_common_args": "-o ProxyCommand=x"}}
        status, told = await one.refused("POST", "/2/nodes/node2/modify", hostile)
        assert (status, told[: len("hostvars.ansible_ssh_common_args: ")]) == (
            400,
            "hostvars.ansible_ssh_common_args: ",
        )

    reached.reach(tmp_path, monkeypatch, act, is_local=False, door=Door.REMOTE)


def test_no_depth_of_nesting_hides_a_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that the resource can still read, but the check cannot, is refused; its nested value is overwritten."""
    nested = [
        b'{"oob_program": ' + b"[" * depth + b"]" * depth + b', "oob_program": "/bin/x"}' for depth in range(1000)
    ]

    async def act(one: reached.Reached) -> None:
        given = one.running.configuration.current.node("node2").ndparams
        for body in nested:
            headers = {"content-type": "application/json"}
            answer = await one.client.post("/2/nodes/node2/modify", content=body, headers=headers)
            assert answer.status_code in {400, 403}, (len(body), answer.text)
        assert one.running.configuration.current.node("node2").ndparams == given

    reached.reach(tmp_path, monkeypatch, act, is_local=False, door=Door.REMOTE)


@pytest.mark.parametrize(
    ("mode", "path", "is_taken"),
    [
        (0o755, "oob", True),
        (0o775, "oob", False),
        (0o644, "oob", False),
        (0o755, "../oob-programs/oob", False),
        (0o755, "other", False),
    ],
)
def test_others_than_root_name_a_helper_program_in_a_folder_of_root_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, path: str, *, is_taken: bool
) -> None:
    async def act(one: reached.Reached) -> None:
        folder = one.running.where.oob_programs
        folder.mkdir(mode=0o755)
        (folder / "oob").write_text("#!/bin/sh\n")
        (folder / "oob").chmod(mode)
        answer = await one.ask("POST", "/2/nodes/node2/modify", {"oob_program": f"{folder}/{path}"})
        assert answer.status_code == (200 if is_taken else 403), answer.text
        for plain in ("ipmi", "default", "!"):
            assert (await one.ask("POST", "/2/nodes/node2/modify", {"oob_program": plain})).status_code == 200

    reached.reach(tmp_path, monkeypatch, act, is_local=False, door=Door.REMOTE)


@pytest.mark.parametrize(("uid", "is_root"), [(0, True), (ADMINISTRATOR, False)])
def test_an_import_of_others_than_root_brings_no_program_into_use_that_root_has_not_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, *, is_root: bool
) -> None:
    async def act(one: reached.Reached) -> None:
        folder, elsewhere = one.running.where.oob_programs, one.running.where.root / "program"
        folder.mkdir(mode=0o755)
        for path in (folder / "oob", elsewhere):
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
        document = (await one.client.get("/2/config")).json()

        async def put(program: str) -> httpx.Response:
            changed = copy.deepcopy(document)
            next(iter(changed["nodes"].values()))["ndparams"]["oob_program"] = program
            return await one.client.put("/2/config", json=changed, params={"force": True})

        for program in ("ipmi", str(folder / "oob")):
            assert (await put(program)).status_code == 200
        refused = await put(str(elsewhere))
        assert refused.status_code == (200 if is_root else 403), refused.text
        if not is_root:
            assert refused.json()["detail"] == (
                f"oob_program: {ROOT_ONLY}, or name a helper program that root put into {folder}"
            )
            await one.running.configuration.commit(lambda cluster: [_with_program(cluster, str(elsewhere))])
            assert (await put(str(elsewhere))).status_code == 200, "it was in use before"

    reached.reach(tmp_path, monkeypatch, act, is_local=False, door=Door.SOCKET, uid=uid)


def _with_program(cluster: clusters.Cluster, program: str) -> membership.ParametersStand:
    own = cluster.cluster
    return membership.ParametersStand(dataclasses.replace(own, ndparams={**own.ndparams, "oob_program": program}))


def test_a_folder_that_others_may_write_has_no_helper_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(one: reached.Reached) -> None:
        folder = one.running.where.oob_programs
        folder.mkdir()
        (folder / "oob").write_text("#!/bin/sh\n")
        (folder / "oob").chmod(0o755)
        folder.chmod(0o777)
        assert (await one.refused("PUT", "/2/modify", {"oob_program": f"{folder}/oob"}))[0] == 403

    reached.reach(tmp_path, monkeypatch, act, is_local=False, door=Door.REMOTE)


def test_a_new_host_variable_is_merged_and_an_empty_or_default_one_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node of a lab is reached as before: how to reach it is no host variable of the configuration."""

    async def act(one: reached.Reached) -> None:
        async def modified(**given: Any) -> dict[str, str]:
            job = (await one.ask("POST", "/2/nodes/node2/modify", {"hostvars": given})).json()
            await one.ask("GET", f"/2/jobs/{job}/wait?timeout=60")
            return dict(one.running.configuration.current.node("node2").hostvars)

        assert await modified(ansible_user="ops") == {"ansible_user": "ops"}
        assert await modified(ansible_port="222") == {"ansible_user": "ops", "ansible_port": "222"}
        assert await modified(ansible_user="") == {"ansible_port": "222"}
        assert await modified(ansible_port="default", ansible_become="true") == {"ansible_become": "true"}
        assert await modified(ansible_become=None, other="") == {}
        where = tree.Tree(one.running.where.root)
        assert (where.host_vars / "node2.json").exists()

    reached.reach(tmp_path, monkeypatch, act, is_local=True)
