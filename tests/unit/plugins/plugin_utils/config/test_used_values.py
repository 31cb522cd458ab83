from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import maintenance_settings
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import used_values
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import permissions

from tests.unit import small_cluster

BEFORE = small_cluster.make()
PAGE = Path(__file__).resolve().parents[5] / "docs/decisions/privileges.md"


def test_only_what_is_new_or_changed_is_listed() -> None:
    assert used_values.preview(BEFORE, BEFORE) == []
    node = dataclasses.replace(BEFORE.nodes["n3"], ndparams={"oob_program": "ipmi"})
    after = dataclasses.replace(BEFORE, nodes={**BEFORE.nodes, "n3": node})
    assert used_values.preview(BEFORE, after) == ["oob_program ipmi: node node3"]


def test_on_a_new_machine_all_of_it_is_listed_programs_last() -> None:
    assert used_values.preview(None, BEFORE) == [
        "primary_ip 192.0.2.1: node node1",
        "hostvars.ansible_user ops: node node2",
        "file_storage_dir /var/lib/roundsman/disks: the cluster",
        "shared_file_storage_dir /srv/roundsman/disks: the cluster",
        "oob_program /bin/oob: node node3",
    ]


def test_the_audit_log_has_programs_first_and_a_bounded_number_of_lines() -> None:
    assert used_values.audited(None, BEFORE)[0] == "new: oob_program /bin/oob: node node3"
    nodes = {str(each): dataclasses.replace(BEFORE.nodes["n1"], primary_ip=f"192.0.2.{each}") for each in range(200)}
    lines = used_values.audited(None, dataclasses.replace(BEFORE, nodes=nodes))
    assert len(lines) == used_values.AUDITED + 1
    assert lines[-1] == "new: 102 more values"


def test_of_many_objects_with_one_value_the_number_is_listed_and_no_text_is_longer_than_a_line() -> None:
    long = "/x" * 4000
    nodes = {uuid: dataclasses.replace(node, ndparams={"oob_program": long}) for uuid, node in BEFORE.nodes.items()}
    (line,) = used_values.preview(BEFORE, dataclasses.replace(BEFORE, nodes=nodes))
    assert line.endswith(" ...: node node1, node node2, node node10 and 1 more")
    assert len(line) < 250


def with_hvparams(**hvparams: str) -> clusters.Cluster:
    instance = dataclasses.replace(BEFORE.instances["i1"], hvparams=hvparams)
    return dataclasses.replace(BEFORE, instances={"i1": instance})


def test_whatever_remote_users_may_not_set_is_listed() -> None:
    node = dataclasses.replace(BEFORE.nodes["n2"], secondary_ip="198.51.100.2")
    group = dataclasses.replace(BEFORE.nodegroups["g1"], ndparams={"oob_program": "/opt/oob"})
    settings = dataclasses.replace(BEFORE.maintenance.settings, accept_cluster_key=True, diagnose_command="smart")
    own = dataclasses.replace(BEFORE.cluster, default_iallocator="hail")
    guest = with_hvparams(serial_log="/var/log/web", vnc="0.0.0.0", domain_xml="<domain/>", migration_transport="tcp")
    after = dataclasses.replace(
        guest,
        cluster=own,
        nodes={**BEFORE.nodes, "n2": node},
        nodegroups={**BEFORE.nodegroups, "g1": group},
        maintenance=dataclasses.replace(BEFORE.maintenance, settings=settings),
    )
    listed = {line.split()[0] for line in used_values.preview(None, after)}
    assert "oob_program /opt/oob: node group rack one" in used_values.preview(None, after)
    assert {"diagnose_command", "default_iallocator"} <= listed
    restricted = {name for name, least in permissions.FIELDS.items() if least > permissions.Requester.REMOTE}
    # The last one is a parameter of a job: no configuration has it.
    assert restricted - listed == {"os_playbook"}


def test_a_transport_that_encrypts_is_not_listed() -> None:
    assert used_values.preview(BEFORE, with_hvparams(migration_transport="tls")) == []
    assert used_values.preview(BEFORE, with_hvparams(migration_transport="tcp")) == [
        "migration_transport tcp: instance inst1"
    ]


@pytest.mark.parametrize(
    "entry",
    [
        clusters.Parameters,
        clusters.Group,
        clusters.Node,
        clusters.Instance,
        clusters.Disk,
        clusters.Nic,
        maintenance_settings.Settings,
    ],
)
def test_the_page_says_of_each_field_that_is_no_number_what_a_play_of_root_does_with_it(entry: type) -> None:
    section = PAGE.read_text().partition("### What a play of root takes")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z_]+)`", section))
    numbers = r"(Optional\[)?(int|float|bool)\]?|Optional\[tuple\[int, int, int\]\]"
    fields = {field.name for field in dataclasses.fields(entry) if not re.fullmatch(numbers, str(field.type))}
    parts_of_a_listed_field = {"network", "mac", "link"}
    assert fields - named - parts_of_a_listed_field == set()
