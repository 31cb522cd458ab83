from __future__ import annotations

import dataclasses
import getpass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.action import epo
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import holding
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

PLAY: Any = SimpleNamespace(where=SimpleNamespace(config=None))


class World:
    """A configuration that plays read and record in; `meanwhile` happens while a play waits for its first lock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = small_cluster.make()
        self.meanwhile: list[Callable[[], object]] = []
        monkeypatch.setattr(store, "read", lambda _: self.cluster)
        monkeypatch.setattr(holding, "record", self._record)
        monkeypatch.setattr(holding, "hold", self._hold)

    def racks(self) -> tuple[clusters.Node, clusters.Node]:
        """Two nodes that are not the master."""
        master = self.cluster.cluster.master_node
        one, other = [node for node in self.cluster.nodes.values() if node.uuid != master][:2]
        return one, other

    def off(self, node: clusters.Node, *, force: bool) -> Callable[[], object]:
        """An emergency power off of one node that has read its preview now, and waits for its locks when called."""
        options = {"on": False, "names": [node.name], "groups": False, "all": False, "force": force, "time_limit": 1.0}
        preview = epo._preview(self.cluster, options)
        return lambda: epo._held(PLAY, preview, options)

    def _record(self, _: object, *stated: changes.Change, now: float) -> None:
        self.cluster = changes.apply_all(self.cluster, list(stated), now=now)

    def _hold(self, *_: object, **__: object) -> None:
        if self.meanwhile:
            self.meanwhile.pop()()


@pytest.mark.parametrize("force", [False, True])
def test_who_waits_for_another_emergency_power_off_adds_to_what_stands(
    monkeypatch: pytest.MonkeyPatch, *, force: bool
) -> None:
    world = World(monkeypatch)
    one, other = world.racks()
    first, second = world.off(one, force=force), world.off(other, force=force)
    world.meanwhile = [first]
    second()
    stands = world.cluster.maintenance.epo
    assert stands is not None
    assert {one.uuid, other.uuid} <= set(stands.nodes)


def test_a_return_after_a_loss_of_power_stands_with_all_that_should_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    one, _ = world.racks()
    options = {"on": True, "names": [one.name], "groups": False, "all": False, "force": False, "time_limit": 1.0}

    _, preview = epo._held(PLAY, epo._preview(world.cluster, options), options)

    stands = world.cluster.maintenance.epo
    assert stands is not None
    assert set(stands.nodes) == {step.uuid for step in preview.steps}
    assert one.uuid in stands.nodes
    assert set(stands.instances) == {instance.uuid for instance in world.cluster.primaries(one.uuid)}
    assert (stands.returning, stands.lost) == (True, True)
    assert stands.by == getpass.getuser()
    assert preview.instances


def test_nothing_stands_where_the_cluster_changed_before_the_first_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    one, _ = world.racks()
    waiting = world.off(one, force=False)
    mine = world.cluster.primaries(one.uuid)[0]

    def stopped() -> None:
        world.cluster = changes.apply(world.cluster, changes.InstanceState(mine.uuid, "down"), now=1.0)

    world.meanwhile = [stopped]
    with pytest.raises(errors.Refused, match="nothing is done yet: look again, code"):
        waiting()
    assert world.cluster.maintenance.epo is None


def busy(_: object, wants: dict[str, object], **__: object) -> None:
    """Only the lock of the whole cluster is granted."""
    if "cluster/BGL" not in wants:
        raise errors.LockRefused("locks not granted within 1 s: they are held or awaited by job 17")


def test_locks_that_are_not_granted_say_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    waiting = world.off(world.racks()[0], force=False)
    monkeypatch.setattr(holding, "hold", busy)
    with pytest.raises(errors.LockRefused, match=r"by job 17; nothing is done yet, .*`roundsman jobs cancel NUMBER`"):
        waiting()
    assert world.cluster.maintenance.epo is not None


@pytest.mark.parametrize("stood", [None, changes.EpoStands(("n3",), (), "ops", returning=True, lost=True)])
def test_a_return_whose_locks_are_not_granted_leaves_what_stood_before(
    monkeypatch: pytest.MonkeyPatch, stood: changes.EpoStands | None
) -> None:
    """A job of hours elsewhere would keep every failover of the cluster held."""
    world = World(monkeypatch)
    if stood is not None:
        world.cluster = changes.apply(world.cluster, stood, now=1.0)
    before = world.cluster.maintenance.epo
    options = {"on": True, "names": [], "groups": False, "all": True, "force": True, "time_limit": 1.0}
    monkeypatch.setattr(holding, "hold", busy)
    with pytest.raises(errors.LockRefused, match=r"nothing is done.*name only the nodes that had no power") as found:
        epo._held(PLAY, epo._preview(world.cluster, options), options)
    assert world.cluster.maintenance.epo == before
    assert ("nothing is held" in str(found.value)) is (stood is None)


@pytest.mark.parametrize("nodes", [["n2", "n10"], ["n2"], ["n10"]])
@pytest.mark.parametrize("is_moving", [False, True])
def test_the_stop_on_each_node_is_told_of_which_instances_a_migration_has_not_ended(
    *, is_moving: bool, nodes: list[str]
) -> None:
    made = small_cluster.make()
    moved = dataclasses.replace(made.instances["i1"], moving="n10" if is_moving else "")
    cluster = clusters.with_instance(made, moved)
    options = {"on": False, "names": nodes, "groups": False, "all": False}
    told = epo._told(cluster, epo._preview(cluster, options), go=True, batch=10)["instances"]
    found = {(node, one["name"]): one["only_here"] for node, many in told.items() for one in many}
    assert found.get(("node2", "inst1"), is_moving) is is_moving
    assert found.get(("node10", "inst1"), False) is (is_moving and "n10" in nodes)
