"""Whether the verdict on a replica, found before, still stands: in a run of the daemon, and in a play by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.action import failover_check
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_group

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.unit.daemon.maintenance.test_replicas import Pair


def against(pair: Pair, *, parted_since: float = 0.0, **times: float) -> str:
    options = {
        "instance": {"uuid": pair.instance.uuid},
        "source": {"name": "node2"},
        "target": {"name": "node3"},
        "parted_since": parted_since,
    }
    return failover_check._against(options, times, {"roundsman_root": str(pair.service.where.root)})


def part(pair: Pair) -> None:
    asyncio.run(pair.hear("node2", lost=True, current=32))


def test_a_pair_that_has_parted_since_speaks_against_the_verdict(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(run_group.RUN_VARIABLE, str(tmp_path))
    assert against(pair) == ""
    part(pair)
    stands = pair.instance.parted
    assert stands is not None
    for times in ({}, {"look": 1.0}):
        assert "meanwhile instance1 is degraded since" in against(pair, **times)
        assert against(pair, parted_since=stands.since, **times) == "", "the verdict was found with it"
    pair.service.where.config.unlink()
    assert against(pair), "nobody can tell"


def test_by_hand_the_replica_is_judged_again_before_the_stop(pair: Pair) -> None:
    assert against(pair) == ""
    (pair.service.where.reports / f"{pair.uuid('node3')}.json").write_bytes(b"{}")
    assert "node3 has not reported" in against(pair)
    assert against(pair, look=1.0) == ""
