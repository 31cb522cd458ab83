from __future__ import annotations

from dataclasses import replace

from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import measured
from hypothesis import given
from hypothesis import strategies as st

NODES = {name: clusters.Node(name, f"node-{name}", "g") for name in ("a", "b")}


def cluster(*instances: clusters.Instance) -> clusters.Cluster:
    return clusters.Cluster(
        clusters.Parameters("example", "c", "a"),
        nodegroups={"g": clusters.Group("g", "default")},
        nodes=NODES,
        instances={one.uuid: one for one in instances},
    )


def instance(name: str, node: str, vcpus: int, *, state: str = "up") -> clusters.Instance:
    return clusters.Instance(name, name, node, vcpus=vcpus, admin_state=state)


def test_every_virtual_cpu_of_a_node_has_the_same_part() -> None:
    seen = cluster(
        instance("i1", "a", 1), instance("i2", "a", 3), instance("i3", "b", 2), instance("i4", "a", 4, state="down")
    )
    found = measured.loads(seen, {"a": 2.0, "b": 0.5})
    assert {name: one.cpu for name, one in found.items()} == {"i1": 0.5, "i2": 1.5, "i3": 0.5}
    assert found["i1"].memory == 1.0


def test_a_node_that_runs_instances_and_is_not_measured_is_missing() -> None:
    seen = cluster(instance("i1", "a", 1), instance("i2", "b", 1, state="down"))
    assert measured.missing(seen, {}) == ["node-a"]
    assert measured.missing(seen, {"a": 0.0}) == []
    gone = clusters.with_node(seen, replace(NODES["a"], offline=True))
    assert measured.missing(gone, {}) == []


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 8)), max_size=8), st.floats(0, 64))
def test_what_a_node_measures_is_what_its_instances_use(placed: list[tuple[str, int]], cpus: float) -> None:
    seen = cluster(*(instance(f"i{number}", node, vcpus) for number, (node, vcpus) in enumerate(placed)))
    found = measured.loads(seen, {"a": cpus})
    used = sum(one.cpu for one in found.values())
    has_vcpus = any(node == "a" and vcpus for node, vcpus in placed)
    assert abs(used - (cpus if has_vcpus else 0.0)) < 1e-6
