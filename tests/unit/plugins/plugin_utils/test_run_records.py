from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, recording

if TYPE_CHECKING:
    from pathlib import Path

RECORDED: list[changes.Change] = [
    changes.NodePowered("n3", powered=False),
    changes.InstanceState("i1", "down"),
    changes.NodePowered("n3", powered=True),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for one in RECORDED:
        run_records.append(tmp_path, recording.encode(one))
    run_records.conclude(tmp_path, {"status": "success", "text": "done"})
    return tmp_path


def damaged(data: bytes) -> list[bytes]:
    """Each cut at a sixteenth, and each with one byte flipped."""
    cut = [data[: len(data) * part // 16] for part in range(16)]
    flipped = [data[:at] + bytes([data[at] ^ 0x11]) + data[at + 1 :] for at in range(0, len(data), 7)]
    return [*cut, *flipped, data[:-1] + b"\x1b", b"\0" * len(data)]


def test_what_was_recorded_is_read_back(run: Path) -> None:
    assert run_records.result(run) == {"status": "success", "text": "done", "changes": 3, "value": None}
    assert run_records.recorded(run, expected=3) == run_records.Recorded(RECORDED, [])


def test_no_damaged_list_of_changes_is_taken_for_a_whole_one(run: Path) -> None:
    path = run / "changes.jsonl"
    for data in damaged(path.read_bytes()):
        path.write_bytes(data)
        found = run_records.recorded(run, expected=3)
        assert all(one in RECORDED for one in found.changes)
        assert found.changes == RECORDED or found.unreadable, data
        assert all(str(path) in text for text in found.unreadable)


def test_changes_that_are_recorded_together_are_durable_by_one_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(durable_files, "append_line", lambda _path, line: written.append(line))
    run_records.append(tmp_path, *map(recording.encode, RECORDED))
    (lines,) = written
    (tmp_path / run_records.CHANGES).write_text(f"{lines}\n")
    assert run_records.recorded(tmp_path, expected=3) == run_records.Recorded(RECORDED, [])


def test_a_record_that_the_disk_may_not_have_kept_is_unknown_to_whoever_settles_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    run_records.append(tmp_path, recording.encode(RECORDED[0]))
    with monkeypatch.context() as patched:
        patched.setattr(durable_files, "_DISK", durable_files.Disk())
        patched.setattr(os, "fsync", fail)
        with pytest.raises(errors.StateUnknown, match=r"changes\.jsonl: the disk failed"):
            run_records.append(tmp_path, recording.encode(RECORDED[1]))
    found = run_records.recorded(tmp_path, expected=None)
    assert (found.changes, found.is_unknown) == (RECORDED[:2], True)
    (told,) = found.unreadable
    assert told.endswith("what the run recorded last is unknown")


def test_changes_before_and_after_a_damaged_line_count(run: Path) -> None:
    path = run / "changes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"down", b"down ") + lines[2])
    found = run_records.recorded(run, expected=3)
    assert found.changes == [RECORDED[0], RECORDED[2]]
    assert [text.partition(" cannot be read")[0] for text in found.unreadable] == [f"{path}, line 2"]


def test_a_list_cut_at_the_end_of_a_line_is_told(run: Path) -> None:
    path = run / "changes.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    found = run_records.recorded(run, expected=3)
    assert found == run_records.Recorded(RECORDED[:2], [f"{path} is damaged: 1 of 3 recorded changes are missing"])


def test_a_last_line_torn_in_a_lost_run_is_dropped_unless_it_is_whole(run: Path) -> None:
    path = run / "changes.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert run_records.recorded(run, expected=None) == run_records.Recorded(RECORDED, [])
    path.write_bytes(data[:-2])
    assert run_records.recorded(run, expected=None) == run_records.Recorded(RECORDED[:2], [])


def test_no_damaged_result_is_taken_for_a_right_one(run: Path) -> None:
    path = run / "result.json"
    for data in damaged(path.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(errors.InvalidInput, match=r"result\.json is damaged"):
            run_records.result(run)


def test_a_run_without_records_has_none(tmp_path: Path) -> None:
    run_records.conclude(tmp_path, {"status": "error", "text": "no"})
    assert run_records.result(tmp_path)["changes"] == 0
    assert run_records.recorded(tmp_path, expected=0) == run_records.Recorded([], [])
