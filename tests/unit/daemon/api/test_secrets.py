"""Nothing that the daemon answers or logs holds a secret, whichever way it came in."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api import queries
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.daemon.jobs import rules, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import hvparams, secret_values
from ansible_collections.roundsman.cluster.plugins.plugin_utils import log_output
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import host_variables, parameter_rules

from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "S3CRET"
XML = f"<domain><devices><graphics type='vnc' passwd='{SECRET}-xml'/></devices></domain>"
HOSTVARS = {
    "ansible_become_password": f"{SECRET}-become",
    "ansible_ssh_pass": f"{SECRET}-ssh",
    "api_token": f"{SECRET}-token",
    "proxy": f"http://someone:{SECRET}-proxy@192.0.2.1/",
}
HVPARAMS = {"domain_xml": XML, "vnc_password": f"{SECRET}-vnc"}
INCIDENT = "3f2a91c0-1111-4222-8333-444455556666"
# The whole configuration, for local administrators only: a backup without secrets would be none.
WHOLE = {"/2/config"}

NOT_SECRET = """
    pause_ends accel agent_port alloc_policy ansible_become ansible_become_method ansible_become_user ansible_host
    ansible_port ansible_user balance balance_disk_moves balance_dynamic_load balance_threshold boot
    candidate_pool_size capacity_reserve cluster_name cpu cpu_speed ctotal dead_after dead_node_policy
    default_iallocator default_template diagnose_command diagnose_interval dtotal exclusive_storage
    failover_max_loss file_storage_dir group hostvars ipolicy machine master_capable max_cpu_ratio max_disk_usage
    max_inst_spec
    max_running_jobs migratable migration_bandwidth migration_downtime migration_limit migration_port
    migration_seconds migration_transport migration_unsafe mnode moves_per_node mtotal name networks
    oob_program paused power_off_evacuated primary_ip round_interval secondary_ip serial_log
    shared_file_storage_dir shutdown_seconds shutdown_timeout spindle_count storm_fraction storm_minimum vg_name
    vm_capable vnc
"""
"""Parameters whose values every reading user may see; members of `hostvars` are parameters themselves."""


@pytest.fixture(name="logs")
def fixture_logs(tmp_path: Path) -> Iterator[list[Path]]:
    """The files of the log and of the audit log, whose level is the most talkative."""
    files = [tmp_path / "roundsmand.log", tmp_path / "audit.log"]
    loggers = [logging.getLogger(), logging.getLogger(log_output.AUDIT)]
    known = [(one, one.handlers[:], one.level) for one in loggers]
    log_output.install(level="debug", file=files[0], audit=files[1])
    yield files
    for one, before, level in known:
        for handler in set(one.handlers) - set(before):
            one.removeHandler(handler)
            handler.close()
        one.setLevel(level)


async def give(one: Reached) -> None:
    """Give the daemon secrets in every way that takes some: by configuration, requests and jobs of earlier versions."""
    running = one.running
    before = running.configuration.current
    node, instance = before.node("node3"), next(iter(before.instances.values()))
    noted = incidents.note(
        diagnosis.parse('{"status":"live-repair","command":"fix"}'), node=node.uuid, uuid=INCIDENT, now=1.0
    )
    cluster = dataclasses.replace(
        before,
        nodes={**before.nodes, node.uuid: dataclasses.replace(node, hostvars={**node.hostvars, **HOSTVARS})},
        instances={**before.instances, instance.uuid: dataclasses.replace(instance, hvparams=HVPARAMS)},
        maintenance=dataclasses.replace(before.maintenance, incidents=(noted,)),
    )
    # An import refuses such host variables and parameters; a configuration of an earlier version may have them.
    await running.configuration.replace(cluster)
    fields = {"hostvars": HOSTVARS}
    web = {"name": "web1", "disk_template": "drbd", "disks": [{"size": 2048}], "hvparams": HVPARAMS}
    adopted = {**json.loads(document.dump(cluster))["instances"][instance.uuid], "hvparams": HVPARAMS}
    for method, path, body in (
        ("POST", "/2/nodes/node2/modify", fields),
        ("POST", "/2/nodes/node2/modify?dry-run=1", fields),
        ("POST", "/2/nodes", {"name": "node9", **fields}),
        ("POST", "/2/instances", web),
        ("PUT", "/2/instances/instance1/modify", {"hvparams": HVPARAMS}),
        ("POST", "/2/adopt", {"nodes": [["u-new", {"name": "node8", **fields}]], "instances": [adopted]}),
    ):
        await one.ask(method, path, body)
    opcodes = (
        values.Opcode("node_modify", {"node": node.uuid, "fields": fields}),
        values.Opcode("node_add", {"uuid": "u-new", "fields": {"name": "node7", **fields}}),
        values.Opcode("instance_modify", {"instance": instance.uuid, "fields": {"hvparams": HVPARAMS}}),
        values.Opcode("cluster_adopt", {"nodes": [["u-new", {"name": "node8", **fields}]], "instances": [adopted]}),
    )
    jobs = [values.Job(id=0, opcodes=(opcode,), received=1.0) for opcode in opcodes]
    for job in await running.queue.submit(jobs):
        await running.queue.wait(job.id, seconds=60)


def paths(one: Reached) -> list[str]:
    """Every GET that there is, with the objects and jobs that there are; an unknown parameter is an error."""
    running = one.running
    jobs = [str(job) for job in running.queue.jobs]
    found = []
    for path, operations in apps.make_app(running, door=Door.SOCKET).openapi()["paths"].items():
        if "get" not in operations or path in WHOLE:
            continue
        kind = path.split("/")[2] if path.count("/") > 1 else ""
        names = {"nodes": ["node2", "node3"], "instances": ["instance1"], "groups": ["default"], "filters": []}
        given = {
            "{name}": names.get(kind, []),
            "{job}": jobs,
            "{what}": list(queries.TABLES),
            "{uuid}": [INCIDENT],
            "{node}": ["node2", "node3"],
            "{number}": [str(entry["round"]) for entry in running.history.last(1, up_to=99)],
        }
        parameter = next((text for text in path.split("/") if text.startswith("{")), "")
        filled = [path.replace(parameter, value) for value in given[parameter]] if parameter else [path]
        tables = [
            f"{text}?fields={','.join(queries.TABLES[text.split('/')[3]].fields)}" for text in filled if kind == "query"
        ]
        found += [*filled, *tables, *([f"{path}?bulk=1", f"{path}?bulk=1&archived=1"] if not parameter else [])]
    return [f"{path}?seconds=0" if path == "/1/news" else path for path in found]


def test_no_answer_and_no_log_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    async def act(one: Reached) -> None:
        await give(one)
        stored = "".join(file.read_text() for file in one.running.where.queue.rglob("job.json"))
        assert f"{SECRET}-become" in stored, "the parameters of a job are kept on disk: it runs with them"
        assert SECRET in (await one.ask("GET", "/2/config")).text
        for archived in (False, True):
            if archived:
                await one.ask("PUT", "/2/queue/archive", {"older_than": 0})
            asked = paths(one)
            assert len(asked) > 50
            answers = {path: await one.ask("GET", path) for path in asked}
            assert [path for path, answer in answers.items() if SECRET in answer.text] == []
            assert answers["/1/jobs"].status_code == answers["/1/page"].status_code == 200
            explained = answers["/1/explain/node3"].json()["jobs"]
            assert '"params"' not in answers["/1/jobs"].text + answers["/1/page"].text + json.dumps(explained)
            for what, table in queries.TABLES.items():
                body = {"fields": list(table.fields)}
                assert SECRET not in (await one.ask("PUT", f"/2/query/{what}", body)).text

    reach(tmp_path, monkeypatch, act, is_local=True)
    assert [file for file in logs if SECRET in file.read_text()] == []
    assert SECRET not in "".join(capsys.readouterr())


def test_a_secret_is_hidden_by_its_name_and_nothing_else_is() -> None:
    told = {
        "fields": {"hostvars": {**HOSTVARS, "ansible_user": "admin"}, "mtotal": 1024},
        "accept_cluster_key": True,
        "keys": ["a", 5, None, ""],
        "pairs": [["hvparams", HVPARAMS]],
    }
    assert secret_values.masked(told) == {
        "fields": {
            "hostvars": {
                "ansible_become_password": "hidden",
                "ansible_ssh_pass": "hidden",
                "api_token": "hidden",
                "proxy": "http://someone:hidden@192.0.2.1/",
                "ansible_user": "admin",
            },
            "mtotal": 1024,
        },
        "accept_cluster_key": True,
        "keys": ["hidden", "hidden", None, ""],
        "pairs": [["hvparams", {"domain_xml": "hidden", "vnc_password": "hidden"}]],
    }


def test_every_parameter_is_masked_by_its_name_or_known_to_be_no_secret() -> None:
    tables = (
        *hvparams.KNOWN.values(),
        host_variables.RULES,
        *(parameter_rules.CLUSTER, parameter_rules.GROUP, parameter_rules.NODE),
        *(parameter_rules.NDPARAMS, parameter_rules.SETTINGS),
    )
    shown = {name for table in tables for name in table if not secret_values.is_secret(name)}
    listed = set(NOT_SECRET.split())
    assert sorted(shown - listed) == [], (
        "is the value of this parameter a secret? Then give it a name that secret_values.is_secret matches; "
        "else add it to NOT_SECRET of this test"
    )
    assert sorted(listed - shown) == [], "no such parameter, or it is masked: remove it from NOT_SECRET"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([["domain_xml", SECRET], ["vnc_password", SECRET]], [["domain_xml", "hidden"], ["vnc_password", "hidden"]]),
        ({"wifi_psk": SECRET, "auth": SECRET}, {"wifi_psk": "hidden", "auth": "hidden"}),
        ({"snmp_community": SECRET}, {"snmp_community": "hidden"}),
        (f"http://u:p@ss:{SECRET}@h/", "http://u:hidden@h/"),
        (f"http://user:S3/{SECRET}@host", "http://user:hidden@host"),
        (f"run with ansible_become_password={SECRET} now", "run with ansible_become_password=hidden now"),
        (f'shared-secret "{SECRET}";', 'shared-secret "hidden";'),
        (f"shared-secret\t{SECRET};", "shared-secret\thidden;"),
        (f'net {{ shared-secret "{SECRET}', 'net { shared-secret "hidden'),
        (
            f"'drbdsetup connect --shared-secret={SECRET}' did not end",
            "'drbdsetup connect --shared-secret=hidden' did not end",
        ),
        (f'--shared-secret="{SECRET} \\"x" --protocol=C', "--shared-secret=hidden --protocol=C"),
        (f"['--shared-secret', '{SECRET}']", "['--shared-secret', 'hidden']"),
        (rf"{{\"shared-secret\": \"{SECRET}\"}}", r"{\"shared-secret\": \"hidden"),
        (rf"{{\\\"shared-secret\\\": \\\"{SECRET}\\\"}}", r"{\\\"shared-secret\\\": \\\"hidden"),
        (f'<option name="shared-secret" value="{SECRET}"/>', '<option name="shared-secret" value="hidden"/>'),
    ],
)
def test_a_secret_is_hidden_in_pairs_addresses_and_texts(value: Any, told: Any) -> None:
    assert secret_values.masked(value) == told


@pytest.mark.parametrize(
    "value",
    [
        ["monkey1", "node2"],
        ["ssh-keygen", "-t"],
        ["password", None],
        {"author": "ann", "authority": "ca"},
        "http://mirror:8080/image@sha256",
        "http://[2001:db8::1]:80/a@b",
        "http://a:8080,http://b:8080/x@y",
        "ssh://git@host/path",
        "bypass=1 key=value",
        'the secret "x" is missing',
    ],
)
def test_honest_values_stay_as_they_are(value: Any) -> None:
    assert secret_values.masked(value) == value


def test_a_filter_of_the_queue_cannot_find_a_secret_out() -> None:
    job: Any = values.Job(id=1, opcodes=(values.Opcode("node_modify", {"fields": {"hostvars": HOSTVARS}}),))
    assert SECRET not in str(rules.subject(job))
