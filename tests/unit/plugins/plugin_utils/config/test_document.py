from __future__ import annotations

import dataclasses
import json
from typing import Any, Callable

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
Edit = Callable[[dict[str, Any]], object]


def edited(edit: Edit) -> bytes:
    raw = json.loads(document.dump(CLUSTER))
    edit(raw)
    return json.dumps(raw).encode()


def test_a_full_cluster_survives_its_document() -> None:
    assert document.load(document.dump(CLUSTER)) == CLUSTER
    assert document.dump(document.load(document.dump(CLUSTER))) == document.dump(CLUSTER)


def test_what_a_node_reported_keeps_its_numbers_exactly() -> None:
    assert document.load(document.dump(CLUSTER)).maintenance.incidents[0].original == small_cluster.SAID


def test_the_document_is_one_json_object_that_a_person_can_read() -> None:
    raw = json.loads(document.dump(CLUSTER))
    assert {"cluster", "nodegroups", "nodes", "instances", "maintenance", "serial_no", "ctime", "mtime"} < set(raw)
    assert raw["instances"]["i1"]["primary_node"] == "n2"
    assert document.dump(CLUSTER).count(b"\n") > 100


@pytest.mark.parametrize(
    "edit",
    [
        lambda raw: raw["instances"]["i1"].update(secondary_nodes=["n2"]),
        lambda raw: raw["nodes"]["n2"].update(master_candidate=False),
        lambda raw: raw["instances"]["i1"].update(disk_template="unheard-of"),
        lambda raw: raw["maintenance"]["incidents"][0].update(node="gone"),
        lambda raw: raw.pop("maintenance"),
    ],
)
def test_what_can_be_represented_is_loaded_and_left_to_verify(edit: Edit) -> None:
    document.load(edited(edit))


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda raw: raw.update(version=3), "version is 3"),
        (lambda raw: raw.pop("version"), "version is None"),
        (lambda raw: raw.pop("cluster"), "cluster: "),
        (lambda raw: raw.update(extra=1), "extra: there is no such field"),
        (lambda raw: raw["nodes"]["n2"].update(colour="red"), "nodes/n2/colour: there is no such field"),
        (lambda raw: raw["instances"]["i1"]["disks"][1].update(x=1), "instances/i1/disks/1/x: there is no such"),
        (lambda raw: raw["maintenance"]["settings"].update(x=1), "maintenance/settings/x: there is no such field"),
        (lambda raw: raw["nodes"]["n2"].update(mtotal="lots"), "nodes/n2/mtotal: "),
        (lambda raw: raw["nodes"]["n2"].update(mtotal=1.5), "nodes/n2/mtotal: "),
        (lambda raw: raw["nodes"]["n2"].update(drained="perhaps"), "nodes/n2/drained: "),
        (lambda raw: raw["nodes"]["n2"].update(tags="one"), "nodes/n2/tags: "),
        (lambda raw: raw["nodes"]["n2"].pop("name"), "nodes/n2/name: "),
        (lambda raw: raw["nodes"].update(n2=None), "nodes/n2: "),
        (lambda raw: raw.update(nodes=[]), "nodes: "),
        (lambda raw: raw["nodes"]["n2"].update(uuid="n7"), "nodes/n2/uuid: is n7"),
        (lambda raw: raw["nodes"]["n2"].update(name="node1"), "name: 'node1' is there twice"),
        (lambda raw: raw["nodegroups"]["g2"].update(name="rack one"), "nodegroups/g2/name: 'rack one'"),
        (lambda raw: raw["nodes"]["n2"].update(group="g9"), "nodes/n2/group: there is no node group g9"),
        (lambda raw: raw["instances"]["i1"].update(primary_node="n9"), "instances/i1: there is no node n9"),
        (lambda raw: raw["instances"]["i1"].update(secondary_nodes=["n9"]), "instances/i1: there is no node n9"),
        (lambda raw: raw["cluster"].update(master_node="n9"), "cluster/master_node: there is no node n9"),
        (lambda raw: raw["maintenance"]["incidents"][0].update(action="pray"), "maintenance/incidents/0/action: "),
        (lambda raw: raw["maintenance"]["incidents"][0].update(original="{"), "maintenance/incidents/0/original: "),
        (lambda raw: raw["maintenance"]["incidents"].append(raw["maintenance"]["incidents"][0]), "incidents/1/uuid: "),
    ],
)
def test_damage_is_refused_with_the_name_of_object_and_field(edit: Edit, named: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        document.load(edited(edit))
    assert named in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"\xff\xfe", b"{", document.dump(CLUSTER)[:-40], b"\0" * 100])
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidInput):
        document.load(data)


@pytest.mark.parametrize("fields", [{"name": "\ud800"}, {"mtotal": 1 << 70}])
def test_what_json_cannot_hold_is_refused_when_it_is_written(fields: dict[str, Any]) -> None:
    node = dataclasses.replace(CLUSTER.nodes["n2"], **fields)
    with pytest.raises(errors.InvalidInput, match="cannot be represented"):
        document.dump(clusters.with_node(CLUSTER, node))
