"""A failure to write ends when the disk can be written again, without a write of the same kind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import configuration, disk_proofs, failures
from ansible_collections.roundsman.cluster.daemon.jobs import submission, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit import small_cluster
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def where(tmp_path: Path) -> tree.Tree:
    found = tree.Tree(tmp_path)
    found.lib.mkdir(parents=True)
    store.write(found.config, small_cluster.make())
    return found


def test_a_failed_commit_is_over_when_its_folder_can_be_written_again(where: tree.Tree, tmp_path: Path) -> None:
    async def story() -> None:
        changed = asyncio.Event()
        known = failures.Failures(on_change=changed.set)
        one = configuration.Configuration(where, clock=lambda: 1.0, failures=known)
        away = where.lib.rename(tmp_path / "away")
        where.lib.write_text("no folder")
        with pytest.raises(errors.StoreFailed):
            await one.commit(lambda _: [tagging.Tagged("cluster", "", "a", present=True)])
        await disk_proofs.prove(disk_proofs.beside(where), known)
        assert [failure["part"] for failure in known.listed()] == ["configuration"]
        where.lib.unlink()
        away.rename(where.lib)
        names = sorted(where.lib.iterdir())
        changed.clear()
        proving = asyncio.create_task(disk_proofs.keep_proving(disk_proofs.beside(where), known, interval=0.001))
        await asyncio.wait_for(changed.wait(), twins.LIMIT)
        proving.cancel()
        assert known.listed() == []
        assert sorted(where.lib.iterdir()) == names
        assert store.read(where.config) == one.current

    asyncio.run(story())


def test_the_proof_needs_as_much_room_as_the_configuration(where: tree.Tree) -> None:
    target = where.lib / "large"
    with target.open("wb") as stream:
        stream.truncate(3 << 20)
    assert len(disk_proofs.content(target)) == 3 << 20
    assert len(disk_proofs.content(where.lib / "none")) == disk_proofs.LEAST


def test_a_failure_during_a_proof_is_not_ended_by_it(where: tree.Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        known = failures.Failures()
        known.failed(submission.PART, "No space left on device")
        where.queue.mkdir()

        def fail_meanwhile(path: Path) -> bytes:
            known.failed(submission.PART, "No space left on device")
            return b"proof"

        monkeypatch.setattr(disk_proofs, "content", fail_meanwhile)
        await disk_proofs.prove(disk_proofs.beside(where), known)
        assert [failure["times"] for failure in known.listed()] == [2]

    asyncio.run(story())


def test_jobs_of_a_round_that_are_written_end_a_failed_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        running, _ = twins.assemble(twins.lab(tmp_path), monkeypatch)
        running.failures.failed(submission.PART, "No space left on device")
        (number,) = running.queue.reserve(1)
        await running.queue.submit([twins.job(number, values.Opcode("test_delay", {"duration": 0}))])
        assert running.failures.listed() == []
        await running.queue.stop()

    asyncio.run(story())
