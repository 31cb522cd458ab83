from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import store, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors

if TYPE_CHECKING:
    from pathlib import Path

JOB = values.Job(
    12,
    (values.Opcode("migrate", {"instance": "i", "force": True, "x": None}, -10, values.Status.ERROR, "0", "why"),),
    depends=(values.Dependency(3, (values.Status.SUCCESS, values.Status.ERROR)),),
    reason=(values.Reason("gnt:daemon:maintd", "u", 1_700_000_000_123_456_789),),
    names={"i": "inst1"},
)


def test_a_job_survives_its_file(tmp_path: Path) -> None:
    one = store.Store(tmp_path / "queue")
    one.save(dataclasses.replace(JOB, id=3))
    one.save(JOB)
    assert list(store.Store(tmp_path / "queue").load().items()) == [(3, dataclasses.replace(JOB, id=3)), (12, JOB)]
    assert one.highest_id() == 12


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"id": 12, "opcodes": [{"kind": "x"}]}'])
def test_a_damaged_job_is_refused_with_its_path_until_it_is_moved_aside(tmp_path: Path, data: bytes) -> None:
    one = store.Store(tmp_path)
    one.save(JOB)
    (tmp_path / "12/job.json").write_bytes(data)
    with pytest.raises(errors.StoreFailed, match=re.escape(f"{tmp_path}/12/job.json is damaged")):
        one.load()
    (tmp_path / "12").rename(tmp_path / "12.damaged")
    assert one.load() == {}


def test_a_job_in_the_folder_of_another_is_refused(tmp_path: Path) -> None:
    one = store.Store(tmp_path)
    one.save(JOB)
    (tmp_path / "12").rename(tmp_path / "13")
    with pytest.raises(errors.StoreFailed, match=r"13/job\.json is damaged: it says that it is job 12"):
        one.load()


def test_a_folder_without_a_job_was_never_submitted_but_its_number_is_taken(tmp_path: Path) -> None:
    (tmp_path / "40").mkdir()
    assert store.Store(tmp_path).load() == {}
    assert store.Store(tmp_path).highest_id() == 40


def test_a_folder_that_cannot_be_made_is_a_failure_that_is_foreseen(tmp_path: Path) -> None:
    (tmp_path / "queue").write_text("")
    with pytest.raises(errors.StoreFailed, match="queue/12"):
        store.Store(tmp_path / "queue").save(JOB)
