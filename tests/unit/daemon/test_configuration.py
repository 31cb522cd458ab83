from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import configuration, failures
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, store

from tests.unit import small_cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITE = store.write


class Disk:
    """The real store, with a count of its writes and a switch that makes it full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self.is_full = False
        self.one: configuration.Configuration | None = None
        monkeypatch.setattr(store, "write", self.write)

    def write(self, path: Path, cluster: clusters.Cluster) -> None:
        self.writes += 1
        assert self.one is None or self.one.current is not cluster
        if self.is_full:
            raise errors.StoreFailed("No space left on device")
        WRITE(path, cluster)


@pytest.fixture
def where(tmp_path: Path) -> tree.Tree:
    found = tree.Tree(tmp_path)
    found.lib.mkdir(parents=True)
    WRITE(found.config, small_cluster.make())
    return found


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def tagged(tag: str) -> list[changes.Change]:
    return [tagging.Tagged("cluster", "", tag, present=True)]


def test_commits_that_come_together_share_a_write(where: tree.Tree, disk: Disk) -> None:
    async def story() -> None:
        told: list[int] = []
        one = configuration.Configuration(where, clock=lambda: 1.0, on_change=lambda: told.append(1))
        disk.one = one
        await asyncio.gather(*(one.commit(lambda _, tag=f"t{n}": tagged(tag)) for n in range(20)))  # type: ignore[misc]
        assert disk.writes <= 2
        assert len(told) == disk.writes
        assert {f"t{n}" for n in range(20)} < set(store.read(where.config).cluster.tags)
        assert store.read(where.config) == one.current

    asyncio.run(story())


def test_what_is_true_already_is_not_written(where: tree.Tree, disk: Disk) -> None:
    one = configuration.Configuration(where, clock=lambda: 1.0)
    asyncio.run(one.commit(lambda _: tagged("prod")))
    assert disk.writes == 0


def test_a_write_that_fails_fails_all_who_wait_and_changes_nothing(where: tree.Tree, disk: Disk) -> None:
    async def story() -> None:
        one = configuration.Configuration(where, clock=lambda: 1.0)
        before, written = one.current, where.config.read_bytes()
        disk.is_full = True
        commits = [asyncio.create_task(one.commit(lambda _, tag=tag: tagged(tag))) for tag in "abc"]  # type: ignore[misc]
        await asyncio.sleep(0)
        commits[1].cancel()
        found = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(error) for error in found] == [errors.StoreFailed, asyncio.CancelledError, errors.StoreFailed]
        assert (one.current, where.config.read_bytes()) == (before, written)
        disk.is_full = False
        after = await asyncio.wait_for(one.commit(lambda _: tagged("d")), 60)
        assert after.cluster.tags == ("prod", "d")
        assert store.read(where.config) == one.current == after

    asyncio.run(story())


def test_what_json_cannot_hold_stops_only_its_own_commit(where: tree.Tree) -> None:
    async def story() -> None:
        one = configuration.Configuration(where, clock=lambda: 1.0)
        with pytest.raises(errors.StoreFailed, match="represented"):
            await one.commit(lambda _: tagged("\ud800"))
        await asyncio.wait_for(one.commit(lambda _: tagged("fine")), 60)
        assert store.read(where.config).cluster.tags == ("prod", "fine")

    asyncio.run(story())


def test_a_refused_decision_changes_nothing(where: tree.Tree, disk: Disk) -> None:
    async def story() -> None:
        one = configuration.Configuration(where, clock=lambda: 1.0)
        with pytest.raises(errors.NotFound):
            await one.commit(lambda _: [*tagged("a"), changes.NodePowered("n9", powered=True)])
        assert disk.writes == 0
        assert one.current.cluster.tags == ("prod",)

    asyncio.run(story())


def test_a_decision_sees_what_was_decided_before_it(where: tree.Tree, disk: Disk) -> None:
    async def story() -> None:
        one = configuration.Configuration(where, clock=lambda: 1.0)
        seen: list[tuple[str, ...]] = []

        def decide(cluster: clusters.Cluster) -> list[changes.Change]:
            seen.append(cluster.cluster.tags)
            return tagged("b")

        await asyncio.gather(one.commit(lambda _: tagged("a")), one.commit(decide))
        assert seen == [("prod", "a")]

    asyncio.run(story())


def test_a_snapshot_stays_as_it_is_while_a_thousand_commits_go_through(where: tree.Tree) -> None:
    async def story() -> None:
        one = configuration.Configuration(where, clock=lambda: 1.0)
        snapshot, said = one.current, document.dump(one.current)
        reader = iter(snapshot.nodes.values())
        seen = [next(reader)]
        with where.config.open("rb") as held:
            half = held.read(100)
            for wave in range(100):
                await asyncio.gather(*(one.commit(turned(wave * 10 + n)) for n in range(10)))
            assert document.unseal(half + held.read()) == snapshot
        assert document.dump(snapshot) == said
        assert [*seen, *reader] == list(snapshot.nodes.values())
        assert one.current.nodes["n3"].serial_no == snapshot.nodes["n3"].serial_no + 1000
        assert store.read(where.config) == one.current

    asyncio.run(story())


def turned(number: int) -> Callable[[clusters.Cluster], list[changes.Change]]:
    """Power off and on in turn, and a tag."""
    return lambda _: [changes.NodePowered("n3", powered=bool(number % 2)), *tagged(f"t{number}")]


@pytest.mark.parametrize("where_it_comes_from", ["the write", "a listener"])
def test_an_unforeseen_exception_in_the_writer_reaches_all_who_wait_and_ends_the_daemon(
    where: tree.Tree, monkeypatch: pytest.MonkeyPatch, where_it_comes_from: str
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no memory for 20 MiB")

    async def story() -> None:
        known = failures.Failures()
        listener = fail if where_it_comes_from == "a listener" else lambda: None
        one = configuration.Configuration(where, clock=lambda: 1.0, on_change=listener, failures=known)
        if where_it_comes_from == "the write":
            monkeypatch.setattr(store, "write", fail)
        async with asyncio.timeout(20):
            commits = [one.commit(lambda _, tag=f"t{n}": tagged(tag)) for n in range(3)]  # type: ignore[misc]
            found = await asyncio.gather(*commits, return_exceptions=True)
            assert [type(each) for each in found] == [failures.Defect] * 3
            monkeypatch.setattr(store, "write", WRITE)
            # What is on disk is unknown to this process: it writes nothing more, and the next one reads the file.
            with pytest.raises(failures.Defect, match="no memory for 20 MiB"):
                await one.commit(lambda _: tagged("later"))
            with pytest.raises(failures.Defect, match="no memory for 20 MiB"):
                await known.until_defect()
        assert "later" not in store.read(where.config).cluster.tags

    asyncio.run(story())


def test_a_full_disk_is_in_the_health_until_a_commit_succeeds(where: tree.Tree, disk: Disk) -> None:
    async def story() -> None:
        known = failures.Failures()
        one = configuration.Configuration(where, clock=lambda: 1.0, failures=known)
        disk.is_full = True
        with pytest.raises(errors.StoreFailed):
            await one.commit(lambda _: tagged("a"))
        assert [failure["part"] for failure in known.listed()] == ["configuration"]
        disk.is_full = False
        await one.commit(lambda _: tagged("a"))
        assert known.listed() == []

    asyncio.run(story())
