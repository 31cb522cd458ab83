from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import failures

from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from pathlib import Path


def test_every_part_reports_to_the_failures_that_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is not handed the daemon's failures reports to nobody."""

    async def act(one: Reached) -> None:
        parts = [*vars(one.running).values()]
        inner = [value for part in parts if hasattr(part, "__dict__") for value in vars(part).values()]
        found = [
            (type(part).__name__, value)
            for part in [*parts, *inner]
            if hasattr(part, "__dict__")
            for value in vars(part).values()
            if isinstance(value, failures.Failures)
        ]
        assert len(found) > 8
        assert [name for name, value in found if value is not one.running.failures] == []

    reach(tmp_path, monkeypatch, act, is_local=True)


@pytest.mark.parametrize("is_local", [True, False])
def test_health_is_200_without_failures_and_503_with_the_failing_part_and_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    async def act(one: Reached) -> None:
        answer = await one.ask("GET", "/1/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "healthy", "failures": []})
        one.running.failures.failed("spool watcher", OSError("bad\x1b[2Jfile"), remedy="look at /var")
        one.running.failures.failed("spool watcher", OSError("bad\x1b[2Jfile"), remedy="look at /var")
        answer = await one.ask("GET", "/1/health")
        assert answer.status_code == 503
        (failure,) = answer.json()["failures"]
        assert (failure["part"], failure["text"], failure["remedy"], failure["times"]) == (
            "spool watcher",
            "bad\\x1b[2Jfile",
            "look at /var",
            2,
        )
        assert failure["since"] <= failure["last"]
        assert (await one.ask("GET", "/1/page")).json()["failing"] == [failure]
        assert (await one.ask("GET", "/1/explain/node2")).json()["failing"] == [failure]
        one.running.failures.recovered("spool watcher")
        assert (await one.ask("GET", "/1/health")).status_code == 200

    reach(tmp_path, monkeypatch, act, is_local=is_local)
