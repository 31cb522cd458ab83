from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance import history
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from pathlib import Path

JOB = values.Job(
    id=7,
    opcodes=(values.Opcode("node_role", {"node": "n1", "drained": True}),),
    depends=(values.Dependency(5, (values.Status.SUCCESS, values.Status.ERROR)),),
    reason=(values.Reason("gnt:daemon:maintd", "why", 12),),
    received=1.5,
    names={"n1": "node1"},
)


def test_jobs_come_back_as_they_were_planned(tmp_path: Path) -> None:
    one = history.History(tmp_path / "rounds")
    one.write(3, started=2.0, plan={"jobs": []}, jobs=(JOB,))
    assert history.History(tmp_path / "rounds").planned(3) == history.PlannedRound((JOB,), is_submitted=False)
    asyncio.run(one.set_submitted(3))
    assert history.History(tmp_path / "rounds").planned(3) == history.PlannedRound((JOB,), is_submitted=True)


def test_only_the_last_rounds_are_kept_counted_by_number_not_by_name(tmp_path: Path) -> None:
    one = history.History(tmp_path)
    for number in range(1, history.KEPT + 11):
        one.write(number, started=float(number), plan={}, jobs=())
    kept = one.last(1000, up_to=1000)
    assert [entry["round"] for entry in kept] == list(range(history.KEPT + 10, 10, -1))
    assert len(list(tmp_path.iterdir())) == history.KEPT


def test_a_round_that_was_never_committed_is_not_shown(tmp_path: Path) -> None:
    one = history.History(tmp_path)
    for number in (1, 2, 3):
        one.write(number, started=1.0, plan={"n": number}, jobs=(JOB,))
    assert [entry["round"] for entry in one.last(5, up_to=2)] == [2, 1]
    assert one.last(1, up_to=2) == [{"round": 2, "started": 1.0, "plan": {"n": 2}, "jobs": [7], "problem": None}]


def test_a_round_whose_jobs_have_no_names_is_shown_without_them(tmp_path: Path) -> None:
    one = history.History(tmp_path)
    one.write(1, started=1.0, plan={}, jobs=(JOB,))
    assert one.one(1)["names"] == {"n1": "node1"}
    old = {"round": 2, "started": 1.0, "plan": {}, "jobs": [{"id": 7}]}
    (tmp_path / "2.json").write_text(json.dumps(old))
    assert one.last(1, up_to=2)[0]["jobs"] == [7]
    assert one.one(2)["names"] == {}


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"jobs": [{"id": "x"}]}'])
def test_a_missing_or_damaged_round_is_told_of(tmp_path: Path, content: bytes | None) -> None:
    one = history.History(tmp_path)
    if content is not None:
        (tmp_path / "4.json").write_bytes(content)
    assert one.planned(4) is None
    with pytest.raises(errors.StoreFailed, match=r"4\.json"):
        asyncio.run(one.set_submitted(4))


def test_a_round_of_a_version_without_checksums_is_shown_and_never_resumed(tmp_path: Path) -> None:
    reported = failures.Failures()
    one = history.History(tmp_path, failures=reported)
    one.write(1, started=2.0, plan={}, jobs=(JOB,))
    content = json.loads((tmp_path / "1.json").read_bytes())
    written = {name: content[name] for name in ("round", "started", "plan", "jobs")}
    (tmp_path / "1.json").write_text(json.dumps(written))
    assert one.planned(1) == history.PlannedRound((JOB,), is_submitted=True)
    assert one.last(1, up_to=1) == [{"round": 1, "started": 2.0, "plan": {}, "jobs": [7], "problem": None}]
    assert reported.listed() == []
    (tmp_path / "1.json").write_text(json.dumps(written)[:-9])
    assert one.planned(1) is None
    assert [row["part"] for row in reported.listed()] == ["round 1"]
