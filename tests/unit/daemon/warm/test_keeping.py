from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.warm import keeping
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree


def opened() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("place", ["interpreter", "folder"])
def test_a_server_that_cannot_be_started_is_a_failure_and_no_end_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    where, known = tree.Tree(tmp_path), failures.Failures()
    if place == "interpreter":
        monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    else:
        where.run.parent.mkdir(parents=True)
        where.run.write_text("no folder")
    keeper = keeping.Keeper(where, environment={}, failures=known)

    async def scenario() -> None:
        descriptors = opened()
        work = asyncio.create_task(keeper.run())
        async with asyncio.timeout(60):
            while not known.listed() or known.listed()[0]["times"] < 2:
                assert not work.done(), work.exception()
                await asyncio.sleep(0)
        assert [row["part"] for row in known.listed()] == [keeping.PART]
        assert opened() == descriptors
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(scenario())
    keeper.stop()
