from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any, Callable, Iterator, get_args, get_type_hints

import pydantic
import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, hvparams, secret_values
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, job_filters, tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import host_variables, parameter_rules
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
Edit = Callable[[dict[str, Any]], object]
SCHEMA = pydantic.TypeAdapter(clusters.Cluster)
PREDICATES = (("jobid", ("<=", "id", 7)), ("reason", ["=~", "source", "user"]))
CHANGES = st.one_of(
    st.builds(changes.NodePowered, st.sampled_from(["n1", "n2", "n3"]), powered=st.booleans()),
    st.builds(changes.NodeRole, st.sampled_from(["n2", "n3"]), st.booleans(), st.booleans(), st.booleans()),
    st.builds(changes.InstanceNodes, st.just("i1"), st.just("n1"), st.sampled_from([(), ("n3",), ("n3", "n10")])),
    st.builds(changes.InstanceState, st.just("i1"), st.sampled_from(["up", "down"])),
    st.builds(
        tagging.Tagged,
        st.sampled_from(["cluster", "group", "node"]),
        st.sampled_from(["g1", "n2"]),
        st.text(st.characters(exclude_categories=["Cs"])),
        present=st.just(value=True),
    ),
    st.builds(changes.RoundStands, st.integers(0, 2**53), st.lists(st.integers(1, 2**53)).map(tuple)),
    st.builds(changes.SettingsStand, st.builds(clusters.Settings, paused=st.sampled_from(["", 'wait "here"\n']))),
    st.builds(changes.IncidentForgotten, st.just("aaaa-1")),
    st.builds(
        changes.FilterStands,
        st.builds(
            job_filters.Filter,
            st.sampled_from("fg"),
            st.integers(0, 9),
            st.integers(0, 9),
            st.just(PREDICATES),
            st.sampled_from(job_filters.Action),
            reason=st.just((("user", "because", 1),)),
        ),
    ),
    st.builds(changes.FilterGone, st.just("f")),
)


def edited(edit: Edit) -> bytes:
    raw = json.loads(document.dump(CLUSTER))
    edit(raw)
    return json.dumps(raw).encode()


def test_a_full_cluster_survives_its_document() -> None:
    assert document.load(document.dump(CLUSTER)) == CLUSTER
    assert document.dump(document.load(document.dump(CLUSTER))) == document.dump(CLUSTER)


@settings(deadline=None)
@given(stated=st.lists(CHANGES, max_size=12), now=st.floats(0, 2e9))
def test_whatever_changes_the_document_holds_what_its_schema_says_and_gives_it_back(
    stated: list[changes.Change], now: float
) -> None:
    cluster = CLUSTER
    for change in stated:
        try:
            cluster = changes.apply(cluster, change, now=now)
        except errors.InvalidInput:
            continue
    assert json.loads(document.dump(cluster)) == SCHEMA.dump_python(cluster, mode="json")
    assert document.unseal(document.seal(cluster)) == document.load(document.dump(cluster))
    assert document.seal(document.unseal(document.seal(cluster))) == document.seal(cluster)


def represented(kind: Any) -> Iterator[type]:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        yield kind
        for one in get_type_hints(kind).values():
            yield from represented(one)
    for one in get_args(kind):
        yield from represented(one)


@pytest.mark.parametrize("kind", sorted(set(represented(clusters.Cluster)), key=str))
def test_no_object_of_the_document_remembers_more_than_its_fields_which_would_be_written_too(kind: type) -> None:
    fields = {one.name for one in dataclasses.fields(kind)}
    assert not {name for name in fields if name.startswith("_")}
    assert not {name for name, value in vars(kind).items() if isinstance(value, functools.cached_property)}


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
        (lambda raw: raw["nodes"]["n2"].update(mtime="inf"), "nodes/n2/mtime: "),
        (
            lambda raw: raw["maintenance"]["settings"].update(storm_fraction="NaN"),
            "maintenance/settings/storm_fraction",
        ),
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
        (lambda raw: raw["maintenance"]["incidents"][0].update(digest="../../x"), "maintenance/incidents/0/digest: "),
        (lambda raw: raw["maintenance"]["incidents"].append(raw["maintenance"]["incidents"][0]), "incidents/1/uuid: "),
    ],
)
def test_damage_is_refused_with_the_name_of_object_and_field(edit: Edit, named: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        document.load(edited(edit))
    assert named in str(refused.value)


def test_of_several_damages_the_first_is_named_and_the_others_are_counted() -> None:
    data = edited(lambda raw: raw["nodes"]["n2"].update(colour="red", mtotal="lots"))
    with pytest.raises(errors.InvalidInput, match=r"^nodes/n2/mtotal: [^/]* \(and 1 more\)$"):
        document.load(data)


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"\xff\xfe", b"{", document.dump(CLUSTER)[:-40], b"\0" * 100])
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidInput):
        document.load(data)


@pytest.mark.parametrize("fields", [{"name": "\ud800"}, {"mtotal": 1 << 70}])
def test_what_json_cannot_hold_is_refused_when_it_is_written(fields: dict[str, Any]) -> None:
    node = dataclasses.replace(CLUSTER.nodes["n2"], **fields)
    with pytest.raises(errors.InvalidInput, match="cannot be represented"):
        document.dump(clusters.with_node(CLUSTER, node))


def test_what_the_planner_calculates_with_survives_its_document() -> None:
    own = dataclasses.replace(
        CLUSTER.cluster,
        ipolicy={"std": {"cpu-count": 2}, "disk-templates": ["drbd"], "vcpu-ratio": 2.0},
        ndparams={"exclusive_storage": True, "spindle_count": 1, "cpu_speed": 1.0, "oob_program": "ipmi"},
        max_inst_spec=(1, 2, 3),
    )
    group = dataclasses.replace(CLUSTER.nodegroups["g1"], networks=("prod",), default_template="plain")
    one = dataclasses.replace(
        CLUSTER.instances["i1"], nics=(clusters.Nic("prod"),), auto_balance=False, disks=(clusters.Disk(10, 2),)
    )
    changed = dataclasses.replace(
        CLUSTER, cluster=own, nodegroups={**CLUSTER.nodegroups, "g1": group}, instances={"i1": one}
    )
    found = document.load(document.dump(changed))
    assert found == changed
    assert [type(value) for value in found.cluster.ndparams.values()] == [bool, int, float, str]


def test_a_document_from_before_policies_loads_unchanged() -> None:
    new = {"ipolicy", "max_inst_spec", "default_template", "max_cpu_ratio", "max_disk_usage", "networks"}
    new |= {"nics", "auto_balance", "spindle_use", "spindles", "capacity_reserve"}

    def old(raw: Any) -> Any:
        if isinstance(raw, dict):
            return {name: old(value) for name, value in raw.items() if name not in new}
        return [old(one) for one in raw] if isinstance(raw, list) else raw

    assert document.load(json.dumps(old(json.loads(document.dump(CLUSTER)))).encode()) == CLUSTER


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda raw: raw["cluster"].update(ipolicy={"vcpu": 1}), "cluster/ipolicy: there is no 'vcpu'"),
        (
            lambda raw: raw["nodegroups"]["g1"].update(ipolicy={"vcpu-ratio": "default"}),
            "nodegroups/g1/ipolicy.vcpu-ratio: is 'default': leave it out to inherit it",
        ),
        (lambda raw: raw["nodegroups"]["g1"].update(max_disk_usage=2.0), "nodegroups/g1/max_disk_usage: 2.0 is not"),
        (lambda raw: raw["nodes"]["n2"]["ndparams"].update(cpu_speed="fast"), "nodes/n2/cpu_speed: 'fast' is not"),
    ],
)
def test_what_no_planner_could_calculate_with_is_named(edit: Edit, named: str) -> None:
    with pytest.raises(errors.InvalidInput, match=named):
        document.load(edited(edit))


@pytest.mark.parametrize(
    ("fields", "off_since"),
    [
        ({"powered": False}, 1000.0),
        ({"powered": False, "off_confirmed": 900.0}, 900.0),
        ({"off_confirmed": 900.0}, 900.0),
        ({"powered": False, "off_since": 800.0}, 800.0),
        ({}, 0.0),
    ],
)
def test_a_document_from_before_it_was_kept_since_when_a_node_is_off_gets_it_when_it_is_read(
    fields: dict[str, Any], off_since: float
) -> None:
    data = edited(lambda raw: raw["nodes"]["n2"].update({"mtime": 1000.0, "off_since": 0.0, **fields}))
    assert document.load(data).node("n2").off_since == off_since


def _names(kind: Any, seen: set[Any]) -> Iterator[str]:
    """The names of all fields below a type of the configuration."""
    for argument in get_args(kind):
        yield from _names(argument, seen)
    if dataclasses.is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for name, of_field in get_type_hints(kind).items():
            yield name
            yield from _names(of_field, seen)


def test_the_configuration_which_candidates_keep_a_copy_of_holds_no_secret() -> None:
    names = {*_names(clusters.Cluster, set()), *host_variables.RULES, *parameter_rules.NDPARAMS}
    names |= {field.name for field in dataclasses.fields(hvparams.Kvm)}
    assert {"hostvars", "incidents", "parted"} < names
    # A switch, and a definition, of which libvirt gives no passwords without being asked for them.
    assert {name for name in names if secret_values.is_secret(name)} == {"accept_cluster_key", "domain_xml"}
