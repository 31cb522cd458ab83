"""The boots that a play by hand without a daemon names: agents answer on loopback."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import confirmed_boots, controller_epoch
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import voters
from tests.unit.daemon.maintenance.controllers import Controller, run, shorten

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    monkeypatch.setattr(confirmed_boots, "DEADLINE", 0.5)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path, nodes=3, instances=1), monkeypatch)[0]


def boot(running: service.Service, name: str) -> str:
    """The boot in which a node is."""
    return twins.lab_of(running).node(name).boot_id()


async def led(first: Controller) -> controller_epoch.Record:
    """What steps name once a daemon has led and ended."""
    await (await first.start()).step()
    record = controller_epoch.read(first.where)
    assert record is not None
    return record


def record_of(first: Controller) -> controller_epoch.Record:
    record = controller_epoch.read(first.where)
    assert record is not None
    return record


def test_steps_name_the_boot_of_a_node_that_is_back_and_all_else_stays(running: service.Service) -> None:
    async def scenario(_: voters.Voters, first: Controller) -> None:
        before, cluster = await led(first), running.configuration.current
        controller_epoch.remember(first.where, Epoch(8, "in-vain"), waits=["a"])
        twins.lab_of(running).node("node3").reboot()

        assert await confirmed_boots.confirm(first.where, cluster, list(cluster.nodes)) == set()

        boots = {**before.boots, cluster.node("node3").uuid: boot(running, "node3")}
        assert boots != before.boots
        expected = dataclasses.replace(
            before, boots=boots, offered=(*before.offered, Epoch(8, "in-vain")), waits=frozenset({"a"})
        )
        assert record_of(first) == expected

    run(running, scenario)


@pytest.mark.parametrize(
    ("silent", "later", "is_confirmed"),
    [
        (set(), set(), True),
        ({"node1"}, set(), True),
        ({"node1", "node2"}, set(), False),
        (set(), {"node1"}, True),
        (set(), {"node1", "node2"}, False),
        ({"node3"}, set(), False),
    ],
)
def test_half_of_the_nodes_have_to_follow_no_later_controller_after_the_boot_is_known(
    running: service.Service, silent: set[str], later: set[str], *, is_confirmed: bool
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        before, cluster = await led(first), running.configuration.current
        twins.lab_of(running).node("node3").reboot()
        nodes.silent |= silent
        for name in later:
            nodes.follow(name, Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))
        back = cluster.node("node3").uuid

        left = await confirmed_boots.confirm(first.where, cluster, [back])

        named = boot(running, "node3") if is_confirmed else before.boots[back]
        assert (left, record_of(first).boots[back]) == (set() if is_confirmed else {back}, named)

    run(running, scenario)


def test_where_steps_name_no_boots_nobody_is_asked(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        cluster = running.configuration.current
        assert await confirmed_boots.confirm(first.where, cluster, list(cluster.nodes)) == set()
        assert sum(nodes.asked.values()) == 0

    run(running, scenario)


def test_without_the_key_of_the_cluster_nobody_is_asked_and_one_that_cannot_be_read_is_named(
    running: service.Service,
) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        await led(first)
        twins.lab_of(running).node("node3").reboot()
        cluster, key = running.configuration.current, first.where.hmac_key
        key.rename(key.with_suffix(".away"))
        nodes.asked.clear()
        assert await confirmed_boots.confirm(first.where, cluster, list(cluster.nodes)) == set()
        assert sum(nodes.asked.values()) == 0

        key.mkdir()
        with pytest.raises(errors.StoreFailed, match=f"{key} cannot be read"):
            await confirmed_boots.confirm(first.where, cluster, list(cluster.nodes))

    run(running, scenario)


def test_a_node_of_which_steps_name_no_boot_is_not_waited_for(running: service.Service) -> None:
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        nodes.old |= {"node3"}
        await led(first)
        cluster = running.configuration.current
        assert await confirmed_boots.confirm(first.where, cluster, [cluster.node("node3").uuid]) == set()

    run(running, scenario)


def test_nodes_recorded_as_off_that_follow_a_later_controller_count(running: service.Service) -> None:
    # After an emergency power off of all nodes, another controller led and powered two of them on.
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        before = await led(first)
        cluster = running.configuration.current
        off = [changes.NodePowered(cluster.node(name).uuid, powered=False) for name in ("node1", "node2")]
        await running.configuration.commit(lambda _: off)
        for name in ("node1", "node2"):
            nodes.follow(name, Kept(Epoch(9, "another"), voters.ELSEWHERE, 1))
        twins.lab_of(running).node("node3").reboot()
        cluster = running.configuration.current
        back = cluster.node("node3").uuid
        assert await confirmed_boots.confirm(first.where, cluster, [back]) == {back}
        assert record_of(first).boots == before.boots

    run(running, scenario)


@pytest.mark.parametrize(("newer", "is_confirmed"), [({"node1"}, True), ({"node1", "node2"}, False)])
def test_a_clone_of_the_controller_whose_configuration_is_older_confirms_no_boot(
    running: service.Service, newer: set[str], *, is_confirmed: bool
) -> None:
    # A snapshot of its machine has the same epoch in the same place; the nodes know of later changes.
    async def scenario(nodes: voters.Voters, first: Controller) -> None:
        before, cluster = await led(first), running.configuration.current
        assert before.order is not None
        twins.lab_of(running).node("node3").reboot()
        for name in newer:
            nodes.follow(name, Kept(before.order.epoch, before.order.master, cluster.serial_no + 1))
        back = cluster.node("node3").uuid
        left = await confirmed_boots.confirm(first.where, cluster, [back])
        assert left == (set() if is_confirmed else {back})

    run(running, scenario)
